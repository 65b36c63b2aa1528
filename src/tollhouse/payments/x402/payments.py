"""x402 payments: verify, claim once before the request is handled, settle, and store the response until it is sent."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from time import monotonic
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from tollhouse import clock, failpoints
from tollhouse.errors import Problem
from tollhouse.evm import parse_address
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.ledger.ledger import DeliveryGrace, Ledger
from tollhouse.payments.ledger.types import StoredResponse
from tollhouse.payments.reorganisation import POLL_SECONDS as MONITOR_SECONDS
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.claims import (
    Claimed,
    ClaimRequest,
    PaidResponse,
    SettledPayment,
    Settlement,
    decide,
    identifier_conflict,
    payment_pending,
    requirement_from_row,
    settled_payment_from_row,
)
from tollhouse.payments.x402.headers import Headers, ReceiptSigner
from tollhouse.payments.x402.reconciliation import PaymentMonitor, Reconciliation, reconcile
from tollhouse.payments.x402.retention_store import delete_old_payments, delete_old_responses, export_payments
from tollhouse.payments.x402.store import Attempts, Leases
from tollhouse.payments.x402.types import (
    EXACT,
    TOKEN_NAME,
    TOKEN_NAMES,
    UPTO,
    Payment,
    Requirement,
    Settler,
    VerificationFailure,
)
from tollhouse.payments.x402.verification import (
    authorization_digest,
    check_validity,
    match_requirement,
)
from tollhouse.periodic import repeat
from tollhouse.storage.database import Database

__all__ = ["X402", "Claimed", "PaidResponse", "SettledPayment", "Terms"]

T = TypeVar("T")

log = logger("payments.x402")

WAIT_SECONDS = 25.0
"""How long a call waits for the response of another call with the same payment."""
SETTLE_SECONDS = 25.0
"""How long a call waits for its settlement, which continues in the background."""
POLL_SECONDS = 0.1
CHECK_SECONDS = 1.0
"""How often it is checked, before a claim, that the ledger can be written; at once after a failure."""
ROUND_SECONDS = 2.0
DELETE_RESPONSES_SECONDS = 60.0
DELETE_PAYMENTS_SECONDS = 3_600.0
MAX_ROWS = 50


class Terms(Struct, frozen=True):
    """How a server is paid: recipient, chain and token. Without `pay_to` it accepts no payment.

    Authorizations last `max_timeout_seconds`, those of scheme `upto` `upto_timeout_seconds`. `receipt_key` (32 bytes)
    signs receipts; empty for none. Settled payments are deleted after `retention_days`.
    """

    chain_id: int
    asset: str
    pay_to: str = ""
    max_timeout_seconds: int = 60
    upto_timeout_seconds: int = 300
    receipt_key: bytes = b""
    retention_days: int = 400


class X402:
    """The x402 payments of one server. Processes that share its database share its claims."""

    def __init__(self, terms: Terms, database: Database, ledger: Ledger, chain: ChainClient, settler: Settler) -> None:
        self._terms = terms
        self._database = database
        self._chain = chain
        self._settler = settler
        self._ledger = ledger
        self._leases = Leases(database)
        signer = ReceiptSigner(terms.receipt_key) if terms.receipt_key else None
        self._settlement = Settlement(database, ledger, chain, settler, self._leases, signer)
        self._locks: WeakValueDictionary[store.Key, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._settling: dict[str, asyncio.Task[Headers | VerificationFailure | None]] = {}
        self._sent: dict[store.Key, tuple[str, float]] = {}
        self._checking = asyncio.Lock()
        self._checked_at = -CHECK_SECONDS
        self._grace = DeliveryGrace[store.Key](lambda key: self._spawn(self._mark_delivered(key)))

    def accepts(self, amount_micros: int, scheme: str = EXACT) -> list[Requirement]:
        """The payment requirements for a call of this price; empty if the server accepts no payment.

        In the scheme `upto` it is the most that the call costs, and `settle` takes what it did cost.
        """
        terms, account = self._terms, self._settler.upto_account if scheme == UPTO else ""
        if not terms.pay_to or (scheme == UPTO and not account):
            return []
        asset, pay_to = parse_address(terms.asset).text, parse_address(terms.pay_to).text
        name = TOKEN_NAMES.get(terms.chain_id, TOKEN_NAME)
        return [
            Requirement(
                terms.chain_id,
                amount_micros,
                asset,
                pay_to,
                terms.upto_timeout_seconds if scheme == UPTO else terms.max_timeout_seconds,
                name,
                scheme=scheme,
                facilitator=account,
            )
        ]

    async def claim(
        self, payment: Payment, accepts: Sequence[Requirement], fingerprint: bytes, resource_url: str
    ) -> Claimed | PaidResponse | VerificationFailure:
        """Verify the payment and claim it for one call, before the request is handled.

        `fingerprint` identifies the request. A copy of the payment waits until the call that has it ends: it gets the
        response that this call could not send, if its request and its header are the same, or is refused.
        Raises Problem `upstream-unavailable`, `payments-unavailable`, `storage-unavailable` (nothing is claimed),
        `payment-pending` (send the same payment again), `idempotency-conflict`.
        """
        requirement = match_requirement(accepts, payment)
        if isinstance(requirement, VerificationFailure):
            # The price may have changed since the payment was taken, and its answer is still owed.
            earlier = await self._settled_requirement(payment)
            if earlier is None or isinstance(match_requirement([earlier], payment), VerificationFailure):
                return requirement
            requirement = earlier
        request = ClaimRequest(payment, requirement, fingerprint, resource_url, clock.seconds())
        while True:
            outcome = await self._try_claim(request)
            if outcome is not None:
                return outcome
            if clock.seconds() >= request.at + WAIT_SECONDS:
                raise payment_pending()
            await asyncio.sleep(POLL_SECONDS)

    async def _settled_requirement(self, payment: Payment) -> Requirement | None:
        """What a payment is being or was settled for; None for one that was not."""
        async with self._database.reading() as connection:
            row = await store.find(connection, payment.key)
        return requirement_from_row(row) if row is not None and row.state in {store.SETTLING, store.SETTLED} else None

    async def settle(
        self, claimed: Claimed, response: StoredResponse, cost_micros: int | None = None
    ) -> Headers | VerificationFailure:
        """Store the response, settle, and record the transfer in the ledger; the headers for the response.

        `cost_micros` is what a call of scheme `upto` cost; the whole amount is taken without. If it is 0 no money is
        moved, but the payment is used up.

        The call then owns the response, until it says `delivered` or `undelivered`.

        A VerificationFailure means that no money was moved: send the 402, not the response. Raises Problem
        `payment-pending` if the outcome is unknown: the same payment gets this response later. A `release` afterwards
        does no harm.
        """
        if cost_micros is not None:
            claimed = msgspec.structs.replace(claimed, requirement=claimed.requirement.costing(cost_micros))
        async with self._database.writing() as transaction:
            encoded, requirement = msgspec.msgpack.encode(response), msgspec.json.encode(claimed.requirement)
            is_ours = await store.store_response(transaction, claimed.payment.key, claimed.lease, encoded, requirement)
        if not is_ours:
            raise payment_pending()
        settling = self._settling[claimed.lease] = self._spawn(self._settlement.settle(claimed))
        settling.add_done_callback(lambda _: self._settling.pop(claimed.lease, None))
        try:
            outcome = await asyncio.wait_for(asyncio.shield(settling), SETTLE_SECONDS)
        except (TimeoutError, Problem) as failure:
            self._checked_at = -CHECK_SECONDS
            log.warning("payment pending", payer=claimed.payment.payer, cause=type(failure).__name__)
            outcome = None
        if outcome is None:
            raise payment_pending()
        return outcome

    async def release(self, claimed: Claimed | PaidResponse) -> None:
        """The call ended without its response. The payer may use an unsettled authorization again.

        The response of a settled one is for the payer's next call, as soon as a settlement in progress has ended.
        """
        settling = self._settling.get(claimed.lease)
        if settling is not None:
            settling.add_done_callback(lambda _: self.undelivered(claimed))
            return
        self._leases.release(claimed.lease)
        async with self._database.writing() as transaction:
            await store.release(transaction, claimed.payment.key, claimed.lease)

    def hold(self, claimed: Claimed | PaidResponse) -> None:
        """The response is still being sent: no other call gets it for the next five minutes."""
        self._leases.hold(claimed.lease)

    def delivered(self, claimed: Claimed | PaidResponse) -> None:
        """The response was completely sent: refuse the same payment from now on. Returns at once."""
        self._sent.setdefault(claimed.payment.key, (claimed.lease, clock.seconds()))
        self._grace.add(claimed.payment.key)

    def undelivered(self, claimed: Claimed | PaidResponse) -> None:
        """The response was not completely sent: the same payment gets it again. Returns at once."""
        self._spawn(self.release(claimed))

    async def receipts(self, before: float, limit: int) -> list[SettledPayment]:
        """The payments settled before that time (seconds since 1970), newest first."""
        async with self._database.reading() as connection:
            return [settled_payment_from_row(row) for row in await store.settled(connection, before, limit)]

    def export(self, since: float, until: float) -> AsyncIterator[SettledPayment]:
        """The payments settled in that time (seconds since 1970), the oldest first, however many they are."""
        return export_payments(self._database, since, until)

    async def reconcile(self) -> Reconciliation:
        """Compare the ledger's payments with the chain. Raises ChainUnavailable."""
        return await reconcile(self._chain, self._ledger)

    async def monitor(self) -> None:
        """Run forever: reverse payments that reorganisations removed, and enter them again once mined again."""
        monitor = PaymentMonitor(self._chain, self._ledger, self._terms.chain_id, Attempts(self._database))
        await repeat(monitor.poll, MONITOR_SECONDS, log, "payment monitoring failed")

    async def recover(self) -> None:
        """Release the claims of processes that are gone, and resolve the payments they were settling, once."""
        async with self._database.reading() as connection:
            rows = await store.lapsed(connection, clock.seconds(), MAX_ROWS)
        for outcome in await asyncio.gather(*map(self._recover, rows), return_exceptions=True):
            if isinstance(outcome, BaseException):
                log.warning("payment not resolved", cause=type(outcome).__name__)

    async def run_recovery(self) -> None:
        """Recover every two seconds."""
        await repeat(self.recover, ROUND_SECONDS, log, "payment recovery failed")

    async def run_retention(self) -> None:
        """Delete stored responses after their time to live, each minute, and old payments each hour. See retention."""
        payments_at = 0.0
        while True:
            now = clock.seconds()
            try:
                await delete_old_responses(self._database)
                if now >= payments_at + DELETE_PAYMENTS_SECONDS:
                    payments_at = now
                    deleted = await delete_old_payments(self._database, self._terms.retention_days)
                    if deleted:
                        log.info("old payments deleted", payments=deleted)
            except Problem as problem:
                log.warning("payment retention failed", code=problem.code)
            await asyncio.sleep(DELETE_RESPONSES_SECONDS)

    async def close(self) -> None:
        """Wait some seconds for settlements in progress, then cancel them."""
        self._grace.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)
        for task in self._tasks:
            task.cancel()
        await self._leases.close()

    async def _try_claim(self, request: ClaimRequest) -> Claimed | PaidResponse | VerificationFailure | None:
        """One call at a time for each payment, so that copies of it query the chain once. None: try again shortly."""
        async with self._locks.setdefault(request.payment.key, asyncio.Lock()):
            async with self._database.reading() as connection:
                row = await store.find(connection, request.payment.key)
            return await (self._new_claim(request) if row is None else self._reclaim(row, request))

    async def _reclaim(self, row: Any, request: ClaimRequest) -> Claimed | PaidResponse | VerificationFailure | None:
        sent = self._sent.get(request.payment.key)
        verdict = decide(row, request, clock.seconds(), sent and sent[1])
        if isinstance(verdict, PaidResponse):
            return await self._take_response(verdict, row) if verdict.is_first else verdict
        if isinstance(verdict, VerificationFailure):
            return verdict
        if verdict == "abandoned":
            async with self._database.writing() as transaction:
                await store.release(transaction, request.payment.key, row.lease)
            return await self._new_claim(request)
        if verdict == "fresh":
            outcome = await self._new_claim(request)
            if not isinstance(outcome, VerificationFailure) or not outcome.is_used:
                return outcome
            # The failed payment was settled after all, or cancelled.
            verdict = "resume"
        if verdict == "resume":
            self._spawn(self._settlement.resume(row, may_settle=True))
        return None

    async def _take_response(self, paid: PaidResponse, row: Any) -> PaidResponse | None:
        """Only one call sends the response; None if another was first."""
        lease, until = self._leases.new_lease()
        async with self._database.writing() as transaction:
            is_ours = await store.take(transaction, row, lease, until)
        if not is_ours:
            return None
        self._leases.acquire(lease)
        return msgspec.structs.replace(paid, lease=lease)

    async def _new_claim(self, request: ClaimRequest) -> Claimed | VerificationFailure | None:
        """Verify on the chain, then claim; None if another process was first."""
        payment, requirement = request.payment, request.requirement
        if invalid := check_validity(payment, clock.seconds()):
            return invalid
        verified = await self._settler.verify(payment, requirement)
        if isinstance(verified, VerificationFailure):
            return verified
        await self._check_ledger()
        lease, until = self._leases.new_lease()
        async with self._database.writing() as transaction:
            is_ours = await store.insert_claim(
                transaction,
                payer=payment.payer,
                nonce=payment.nonce,
                lease=lease,
                lease_until=until,
                version=payment.version,
                payment=payment.raw,
                requirement=msgspec.json.encode(requirement),
                digest=authorization_digest(payment, requirement),
                fingerprint=request.fingerprint,
                payment_id=payment.payment_id,
                resource_url=request.resource_url,
                since_block=verified.block_number,
                claimed_at=clock.seconds(),
            )
            payment_id = payment.payment_id
            if not is_ours and payment_id and await store.has_identifier(transaction, request.payment.key, payment_id):
                raise identifier_conflict()
        if not is_ours:
            return None
        failpoints.reach("x402.claimed")
        self._leases.acquire(lease)
        return Claimed(payment, requirement, request.resource_url, verified.block_number, lease)

    async def _check_ledger(self) -> None:
        """Raise Problem `storage-unavailable` while a settled payment could not be recorded, because the disk is full.

        The claim itself shows whether the database can be written.
        """
        async with self._checking:
            if monotonic() - self._checked_at >= CHECK_SECONDS:
                await self._ledger.check_writable()
                self._checked_at = monotonic()

    async def _recover(self, row: Any) -> None:
        if row.state != store.CLAIMED:
            await self._settlement.resume(row, may_settle=False)
            return
        async with self._database.writing() as transaction:
            await store.release(transaction, (row.payer, row.nonce), row.lease)

    async def _mark_delivered(self, key: store.Key) -> None:
        lease, sent_at = self._sent[key]
        async with self._database.writing() as transaction:
            await store.mark_delivered(transaction, key, sent_at)
        del self._sent[key]
        self._leases.release(lease)

    def _spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(task.exception(), Exception):
            log.warning("payment not resolved", cause=type(task.exception()).__name__)
