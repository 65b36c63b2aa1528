"""Claims of payments: what another call with the same payment gets, and the settlement of a claim."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse import clock, failpoints
from tollhouse.errors import Problem
from tollhouse.evm import parse_address
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import RESPONSE_TTL_SECONDS, REVENUE, StoredResponse, Transfer
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.headers import (
    Headers,
    PaymentReceipt,
    ReceiptSigner,
    SignedReceipt,
    decode_payment,
    failed_headers,
    settled_headers,
)
from tollhouse.payments.x402.outcome import (
    EXPIRED_MARGIN_SECONDS,
    Pending,
    SettlementOutcome,
    Unrecoverable,
    settlement_outcome,
)
from tollhouse.payments.x402.store import Leases
from tollhouse.payments.x402.types import (
    Failed,
    InvalidReason,
    Payment,
    Requirement,
    Settled,
    Settler,
    Unknown,
    VerificationFailure,
    verification_failure,
)
from tollhouse.payments.x402.verification import authorization_digest, is_settled_by
from tollhouse.storage.database import Database

PENDING_RETRY_SECONDS = 2


class ClaimRequest(Struct, frozen=True):
    """One call that carries a payment. `fingerprint` identifies its request."""

    payment: Payment
    requirement: Requirement
    fingerprint: bytes
    resource_url: str
    at: float


class Claimed(Struct, frozen=True):
    """The payment belongs to this call: handle it, then settle or release. `lease` proves the ownership.

    The amount of the requirement is the most that may be taken until the response is stored, then what is taken.
    """

    payment: Payment
    requirement: Requirement
    resource_url: str
    since_block: int
    lease: str

    @property
    def takes_nothing(self) -> bool:
        """The call cost nothing (scheme `upto`): the payment is used up, but there is nothing to settle."""
        return self.requirement.amount_micros == 0


class PaidResponse(Struct, frozen=True):
    """The response that this payment already bought, with its settlement headers, to be sent again.

    `is_first`: it was not sent yet. `lease` proves that only this call sends it then.
    """

    payment: Payment
    response: StoredResponse
    headers: Headers
    is_first: bool = True
    lease: str = store.NO_LEASE


class SettledPayment(Struct, frozen=True):
    """One settled payment, for the operator. `receipt` is set where the server signs receipts.

    `tx_hash` is empty where nothing was taken: `amount_micros` is what was, in the scheme `upto` too.
    """

    payer: str
    nonce: str
    network: str
    amount_micros: int
    resource_url: str
    tx_hash: str
    block_number: int
    settled_at: float
    is_delivered: bool
    receipt: SignedReceipt | None


Verdict = PaidResponse | VerificationFailure | Literal["wait", "abandoned", "fresh", "resume"]


def decide(row: Any, request: ClaimRequest, now: float, handed_over_at: float | None = None) -> Verdict:
    """What a call gets if its payment has a row already. Raises Problem `idempotency-conflict`.

    `wait`: another call works on it or sends the response. `abandoned`: its holder is gone. `fresh`: it failed before,
    no call looks whether it was settled after all, and it may be tried again.
    `resume`: its outcome is unknown, and no call works on it. `handed_over_at` is when this process sent the response.
    """
    payment = request.payment
    is_leased = row.lease != store.NO_LEASE and row.lease_until >= now
    if row.state == store.FAILED:
        return "wait" if is_leased else "fresh"
    if row.state == store.CLAIMED and not is_leased:
        return "abandoned"
    if (row.version, row.payment, row.fingerprint) != (payment.version, payment.raw, request.fingerprint):
        return _refuse_other_call(row, request, is_in_use=is_leased)
    if row.state in {store.CLAIMED, store.SETTLING}:
        return "wait" if is_leased else "resume"
    sent_at = row.delivered_at if row.state == store.DELIVERED else handed_over_at
    return _decide_settled(row, request, now, sent_at, is_being_sent=sent_at is None and is_leased)


def _decide_settled(
    row: Any, request: ClaimRequest, now: float, sent_at: float | None, *, is_being_sent: bool
) -> Verdict:
    payment = request.payment
    is_expired = row.answer is None or row.settled_at < now - RESPONSE_TTL_SECONDS
    response = None if is_expired else msgspec.msgpack.decode(row.answer, type=StoredResponse)
    # A payment with an identifier (extension `payment-identifier`) gets its response as often as it comes after it was
    # settled: its payer may have the response before the process that sends it knows.
    is_named_again = row.payment_id is not None and request.at > row.settled_at
    repeats = is_named_again and response is not None and not response.reopens
    if not repeats:
        if is_being_sent:
            return "wait"
        if sent_at is not None and request.at <= sent_at:
            return verification_failure(InvalidReason.IN_USE, payment)
    if response is None or (sent_at is not None and not repeats):
        return verification_failure(InvalidReason.NONCE_USED, payment)
    headers = settled_headers(payment, requirement_from_row(row), row.tx_hash, row.receipt)
    return PaidResponse(payment, response, headers, is_first=sent_at is None and not is_being_sent)


def _refuse_other_call(row: Any, request: ClaimRequest, *, is_in_use: bool) -> VerificationFailure:
    """Refuse another request, or another header: what the chain shows of a payment is not enough for its response."""
    payment = request.payment
    is_same_call = (row.digest, row.fingerprint) == (
        authorization_digest(payment, request.requirement),
        request.fingerprint,
    )
    if not is_same_call and payment.payment_id is not None and row.payment_id == payment.payment_id:
        raise identifier_conflict()
    return verification_failure(InvalidReason.IN_USE if is_in_use else InvalidReason.NONCE_USED, payment)


def claim_from_row(row: Any, lease: str) -> Claimed:
    """The claim that a row describes, under our lease."""
    payment = decode_payment(row.payment, row.version)
    return Claimed(payment, requirement_from_row(row), row.resource_url, row.since_block, lease)


def settled_payment_from_row(row: Any) -> SettledPayment:
    """The settled payment that a row describes."""
    requirement = requirement_from_row(row)
    return SettledPayment(
        row.payer,
        row.nonce,
        requirement.network,
        requirement.amount_micros,
        row.resource_url,
        row.tx_hash,
        row.block_number,
        row.settled_at,
        row.state == store.DELIVERED,
        msgspec.json.decode(row.receipt, type=SignedReceipt) if row.receipt else None,
    )


def requirement_from_row(row: Any) -> Requirement:
    """The requirement that the row's payment was for."""
    return msgspec.json.decode(row.requirement, type=Requirement)


def payment_pending() -> Problem:
    """The outcome is unknown: a new payment could pay twice, the same one cannot."""
    return Problem(
        "payment-pending",
        "The payment is still being settled. Send the same request with the same payment again, not with a new "
        "one: it is charged once and gets its response.",
        retry_after_seconds=PENDING_RETRY_SECONDS,
    )


def identifier_conflict() -> Problem:
    """The payment identifier belongs to another payment of this payer, or to another call."""
    return Problem(
        "idempotency-conflict",
        "This payment identifier was used with another payment or another call. Choose a new identifier.",
    )


log = logger("payments.x402")

X402 = "x402"
"""The ledger account that payments come from, and the kind of their transfers."""

CONFIRM_SECONDS = 15.0
"""How long to query the chain for an unclear outcome before the background recovery takes over."""
RETRY_SECONDS = 0.3
RECHECK_SECONDS = 2.0
MAX_RECHECK_SECONDS = 300.0
MAX_REASON = 100


@dataclass(frozen=True, slots=True)
class Settlement:
    """Settles claims with a settler, and believes only the chain about the outcome."""

    database: Database
    ledger: Ledger
    chain: ChainClient
    settler: Settler
    leases: Leases
    signer: ReceiptSigner | None

    async def settle(self, claimed: Claimed) -> Headers | VerificationFailure | None:
        """Settle a claim whose response is stored. None if the outcome is unknown: recovery resolves it later.

        Raises Problem when the database or the ledger is unavailable; recovery resolves that, too.
        """
        concluded: Headers | VerificationFailure | None = None
        try:
            failpoints.reach("x402.before-settling")
            outcome = await self._settle(claimed)
            failpoints.reach("x402.after-settling")
            concluded = await self._conclude(claimed, outcome, keeps_lease=True)
        finally:
            # The lease of a settled payment is kept until its response is sent.
            if concluded is None or isinstance(concluded, VerificationFailure):
                self.leases.release(claimed.lease)
        return concluded

    async def resume(self, row: Any, *, may_settle: bool) -> None:
        """Resolve a payment that no process works on any more.

        A payment that is still open is settled only if its payer came back for the response: otherwise it would be
        charged for a response that is never delivered. Raises Problem when the database or the ledger is unavailable.
        """
        lease, until = self.leases.new_lease()
        async with self.database.writing() as transaction:
            is_ours = await store.take(transaction, row, lease, until)
        if not is_ours:
            return
        self.leases.acquire(lease)
        claimed = claim_from_row(row, lease)
        try:
            outcome: SettlementOutcome | Failed = await self._outcome(claimed)
            if isinstance(outcome, Pending) and may_settle and row.state == store.SETTLING:
                outcome = await self._settle(claimed)
            await self._conclude(claimed, outcome, age=clock.seconds() - row.claimed_at)
        finally:
            self.leases.release(lease)

    async def _settle(self, claimed: Claimed) -> SettlementOutcome | Failed:
        if claimed.takes_nothing:
            return _nothing_taken(claimed)
        try:
            result = await self.settler.settle(claimed.payment, claimed.requirement)
        except Exception:  # the transaction may have been sent
            log.exception("settler failed", payer=claimed.payment.payer, nonce=claimed.payment.nonce)
            result = Unknown()
        return await self._confirm(claimed, result)

    async def _confirm(self, claimed: Claimed, result: Settled | Failed | Unknown) -> SettlementOutcome | Failed:
        """What the chain says of an attempt. A failure is accepted as long as the nonce is unused."""
        if isinstance(result, Settled):
            with suppress(ChainUnavailable):
                receipt = result.receipt or await self.chain.receipt(result.tx_hash)
                if receipt and await is_settled_by(self.chain, receipt, claimed.payment, claimed.requirement):
                    return Settled(receipt.tx_hash, claimed.payment.payer, receipt.block_number, receipt)
        deadline = clock.seconds() + CONFIRM_SECONDS
        while True:
            outcome = await self._outcome(claimed)
            if isinstance(outcome, Pending) and isinstance(result, Failed):
                return result
            if isinstance(outcome, Settled | Unrecoverable) or clock.seconds() >= deadline:
                return outcome
            await asyncio.sleep(RETRY_SECONDS)

    async def _outcome(self, claimed: Claimed) -> SettlementOutcome:
        if claimed.takes_nothing:
            return _nothing_taken(claimed)
        try:
            return await settlement_outcome(
                self.chain, claimed.payment, claimed.requirement, claimed.since_block, self.settler.has_sent
            )
        except Problem:  # the node or the storage
            return Unknown()

    async def _conclude(
        self, claimed: Claimed, outcome: SettlementOutcome | Failed, age: float = 0.0, *, keeps_lease: bool = False
    ) -> Headers | VerificationFailure | None:
        if isinstance(outcome, Settled):
            return await self._record(claimed, outcome, keeps_lease=keeps_lease)
        if isinstance(outcome, Failed | Unrecoverable):
            return await self._fail(claimed, outcome)
        # With increasing intervals: an authorization may be valid for years.
        wait = min(max(age / 10, RECHECK_SECONDS), MAX_RECHECK_SECONDS)
        async with self.database.writing() as transaction:
            await store.release_lease(transaction, claimed.payment.key, claimed.lease, clock.seconds() + wait)
        return None

    async def _fail(self, claimed: Claimed, outcome: Failed | Unrecoverable) -> VerificationFailure:
        """Delete a payment that can never be settled. Recheck one that merely failed once it has expired."""
        payment = claimed.payment
        recheck_at = float(payment.authorization.valid_before + EXPIRED_MARGIN_SECONDS)
        async with self.database.writing() as transaction:
            if isinstance(outcome, Unrecoverable):
                await store.delete_payment(transaction, claimed.payment.key, claimed.lease)
            else:
                reason = outcome.reason[:MAX_REASON]
                await store.mark_failed(transaction, claimed.payment.key, claimed.lease, reason, recheck_at)
        log.info("payment failed", payer=payment.payer, nonce=payment.nonce, reason=outcome.reason)
        failure = verification_failure(outcome.reason, payment)
        headers = failed_headers(payment, claimed.requirement, failure.reason)
        return VerificationFailure(failure.reason, failure.detail, headers)

    async def _record(self, claimed: Claimed, settled: Settled, *, keeps_lease: bool) -> Headers | None:
        """Record in the ledger first: the entry can be repeated, and the row then says that it was made.

        None if another process has taken over the payment, and with it the response.
        """
        payment, requirement = claimed.payment, claimed.requirement
        memo = {
            "tx_hash": settled.tx_hash,
            "block_number": settled.block_number,
            **({"block_hash": settled.receipt.block_hash} if settled.receipt else {}),
            "network": requirement.network,
            "asset": requirement.asset,
            "pay_to": requirement.pay_to,
            "payer": payment.payer,
            "nonce": payment.nonce,
            "scheme": requirement.scheme,
        }
        paid_id, amount = transfer_id(payment.payer, payment.nonce), requirement.amount_micros
        if not claimed.takes_nothing:
            await self.ledger.move(Transfer(paid_id, X402, REVENUE, amount, X402, memo))
        failpoints.reach("x402.after-ledger")
        receipt = self._receipt(claimed, settled)
        async with self.database.writing() as transaction:
            is_ours = await store.mark_settled(
                transaction,
                claimed.payment.key,
                claimed.lease,
                keeps_lease=keeps_lease,
                tx_hash=settled.tx_hash,
                block_number=settled.block_number,
                receipt=receipt,
                settled_at=clock.seconds(),
            )
        failpoints.reach("x402.after-settled")
        return settled_headers(payment, requirement, settled.tx_hash, receipt) if is_ours else None

    def _receipt(self, claimed: Claimed, settled: Settled) -> str | None:
        if self.signer is None or claimed.takes_nothing:
            return None
        payer = parse_address(claimed.payment.payer).text
        network, url = claimed.requirement.network, claimed.resource_url
        receipt = PaymentReceipt(network, url, payer, int(clock.seconds()), settled.tx_hash)
        return msgspec.json.encode(self.signer.sign(receipt)).decode()


def _nothing_taken(claimed: Claimed) -> Settled:
    return Settled("", claimed.payment.payer, claimed.since_block)


def transfer_id(payer: str, nonce: str) -> str:
    """The id of a payment's transfer in the ledger."""
    return f"{X402}:{payer}:{nonce}"
