"""A claimed payment carried to its end: settled on the chain, entered in the ledger, receipted; or found impossible."""

import asyncio
from typing import Any

import msgspec

from tollhouse import clock, failpoints
from tollhouse.evm.address import parse_address
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.ledger.ledger import REVENUE, Ledger, Transfer
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.claims import Claimed, claimed_of
from tollhouse.payments.x402.outcome import EXPIRED_MARGIN_SECONDS, Fate, Pending, Unrecoverable, fate, proves
from tollhouse.payments.x402.receipts import Headers, PaymentReceipt, ReceiptSigner, failed_headers, settled_headers
from tollhouse.payments.x402.store import Leases
from tollhouse.payments.x402.types import Failed, Settled, Settler, Unknown, VerificationFailure, verification_failure
from tollhouse.storage.database import Database

log = logger("payments.x402")

X402 = "x402"
"""The account that payments come from, and the kind of their transfers."""

CONFIRM_SECONDS = 15.0
"""How long the chain is asked about an outcome that is unclear, before it is left to the background."""
ASK_AGAIN_SECONDS = 0.3
LOOK_AGAIN_SECONDS = 2.0
LONGEST_LOOK_AGAIN_SECONDS = 300.0
LONGEST_REASON = 100


class Settlement:
    """Carries claims out with the help of a settler, and believes only the chain about what became of them."""

    def __init__(  # noqa: PLR0913, PLR0917 - everything that a payment touches
        self,
        database: Database,
        ledger: Ledger,
        chain: ChainClient,
        settler: Settler,
        leases: Leases,
        signer: ReceiptSigner | None,
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._chain = chain
        self._settler = settler
        self._leases = leases
        self._signer = signer

    async def carry_out(self, claimed: Claimed) -> Headers | VerificationFailure | None:
        """Settle a claim whose answer is kept. None while nobody can tell: then it is looked after in the background.

        Raises Problem when the database or the ledger is out of reach; that, too, is looked after.
        """
        try:
            failpoints.reach("x402.before-settling")
            outcome = await self._attempted(claimed)
            failpoints.reach("x402.after-settling")
            return await self._concluded(claimed, await self._certain(claimed, outcome))
        finally:
            self._leases.drop(claimed.lease)

    async def resume(self, row: Any, *, may_settle: bool) -> None:
        """Find out what became of a payment that nobody works on any more.

        One that is still open is settled only if its payer came back for the answer: else it would be charged for an
        answer that nobody gets. Raises Problem when the database or the ledger is out of reach.
        """
        lease, until = self._leases.fresh()
        async with self._database.writing() as transaction:
            is_ours = await store.take(transaction, (row.payer, row.nonce), row.lease, lease, until)
        if not is_ours:
            return
        self._leases.hold(lease)
        claimed = claimed_of(row, lease)
        try:
            found: Fate | Failed = await self._fate(claimed)
            if isinstance(found, Pending) and may_settle and row.state == store.SETTLING:
                found = await self._certain(claimed, await self._attempted(claimed))
            await self._concluded(claimed, found, age=clock.seconds() - row.claimed_at)
        finally:
            self._leases.drop(lease)

    async def _attempted(self, claimed: Claimed) -> Settled | Failed | Unknown:
        try:
            return await self._settler.settle(claimed.payment, claimed.requirement)
        except Exception:  # whatever broke, the money may be on its way
            log.exception("a settler broke", payer=claimed.payment.payer, nonce=claimed.payment.nonce)
            return Unknown()

    async def _certain(self, claimed: Claimed, outcome: Settled | Failed | Unknown) -> Fate | Failed:
        """What the chain says of an attempt. A failure is believed as long as the nonce is unused."""
        if isinstance(outcome, Settled):
            proven = await self._proven(claimed, outcome)
            if proven is not None:
                return proven
        deadline = clock.seconds() + CONFIRM_SECONDS
        while True:
            found = await self._fate(claimed)
            if isinstance(found, Pending) and isinstance(outcome, Failed):
                return outcome
            if isinstance(found, Settled | Unrecoverable) or clock.seconds() >= deadline:
                return found
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _proven(self, claimed: Claimed, outcome: Settled) -> Settled | None:
        """The settlement with its receipt, where that proves it."""
        try:
            receipt = outcome.receipt or await self._chain.receipt(outcome.tx_hash)
        except ChainUnavailable:
            return None
        if receipt is None or not proves(receipt, claimed.payment, claimed.requirement):
            return None
        return Settled(receipt.tx_hash, claimed.payment.payer, receipt.block_number, receipt)

    async def _fate(self, claimed: Claimed) -> Fate:
        try:
            return await fate(self._chain, claimed.payment, claimed.requirement, claimed.since_block)
        except ChainUnavailable:
            return Unknown()

    async def _concluded(
        self, claimed: Claimed, found: Fate | Failed, age: float = 0.0
    ) -> Headers | VerificationFailure | None:
        if isinstance(found, Settled):
            return await self._book(claimed, found)
        if isinstance(found, Failed | Unrecoverable):
            return await self._refuse(claimed, found)
        # Ever more seldom, for an authorization may be valid for years.
        wait = min(max(age / 10, LOOK_AGAIN_SECONDS), LONGEST_LOOK_AGAIN_SECONDS)
        async with self._database.writing() as transaction:
            await store.let_go(transaction, claimed.key, claimed.lease, clock.seconds() + wait)
        return None

    async def _refuse(self, claimed: Claimed, found: Failed | Unrecoverable) -> VerificationFailure:
        """Forget what the chain ruled out. What merely failed is looked at again once nobody can carry it out."""
        payment = claimed.payment
        look_again_at = float(payment.authorization.valid_before + EXPIRED_MARGIN_SECONDS)
        async with self._database.writing() as transaction:
            if isinstance(found, Unrecoverable):
                await store.forget(transaction, claimed.key, claimed.lease)
            else:
                reason = found.reason[:LONGEST_REASON]
                await store.mark_failed(transaction, claimed.key, claimed.lease, reason, look_again_at)
        log.info("a payment failed", payer=payment.payer, nonce=payment.nonce, reason=found.reason)
        no = verification_failure(found.reason, payment.version)
        return VerificationFailure(no.reason, no.detail, failed_headers(payment, claimed.requirement, no.reason))

    async def _book(self, claimed: Claimed, settled: Settled) -> Headers:
        """Into the ledger first: its entry can be made again, and the row then says that it was made."""
        await self._ledger.move(_transfer(claimed, settled))
        failpoints.reach("x402.after-ledger")
        receipt = self._receipt(claimed, settled)
        async with self._database.writing() as transaction:
            await store.mark_settled(
                transaction,
                claimed.key,
                tx_hash=settled.tx_hash,
                block_number=settled.block_number,
                receipt=receipt,
                settled_at=clock.seconds(),
            )
        failpoints.reach("x402.after-settled")
        return settled_headers(claimed.payment, claimed.requirement, settled.tx_hash, receipt)

    def _receipt(self, claimed: Claimed, settled: Settled) -> str | None:
        if self._signer is None:
            return None
        payer = parse_address(claimed.payment.payer).text
        stated = PaymentReceipt(
            claimed.requirement.network, claimed.resource_url, payer, int(clock.seconds()), settled.tx_hash
        )
        return msgspec.json.encode(self._signer.sign(stated)).decode()


def transfer_id(payer: str, nonce: str) -> str:
    """The id of a payment's transfer in the ledger."""
    return f"{X402}:{payer}:{nonce}"


def _transfer(claimed: Claimed, settled: Settled) -> Transfer:
    payment, requirement = claimed.payment, claimed.requirement
    memo = {
        "tx_hash": settled.tx_hash,
        "block_number": settled.block_number,
        "network": requirement.network,
        "asset": requirement.asset,
        "pay_to": requirement.pay_to,
        "payer": payment.payer,
        "nonce": payment.nonce,
    }
    amount = requirement.amount_micros
    return Transfer(transfer_id(payment.payer, payment.nonce), X402, REVENUE, amount, X402, memo)
