"""A payment on its way: verified, claimed once before any work, settled, and its one answer kept until it was sent."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from tollhouse import clock, failpoints
from tollhouse.errors import Problem
from tollhouse.evm.address import parse_address
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.stored_response import KEPT_SECONDS, Leaving, StoredResponse
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.claim_settlement import Settlement
from tollhouse.payments.x402.claims import (
    Asked,
    Claimed,
    Kept,
    Receipted,
    judge,
    key_of,
    name_taken,
    pending,
    receipted,
)
from tollhouse.payments.x402.receipts import Headers, ReceiptSigner
from tollhouse.payments.x402.reconciliation import Reconciliation, reconcile
from tollhouse.payments.x402.store import Leases
from tollhouse.payments.x402.types import (
    TOKEN_NAME,
    TOKEN_NAMES,
    InvalidReason,
    Payment,
    Requirement,
    Settler,
    VerificationFailure,
)
from tollhouse.payments.x402.verification import ask_chain, chosen_from, digest_of, untimely_at
from tollhouse.storage.database import Database, Transaction

__all__ = ["X402", "Claimed", "Kept", "Receipted", "Terms"]

T = TypeVar("T")

log = logger("payments.x402")

WAIT_SECONDS = 25.0
"""How long a call waits for the answer that another one with the same payment is getting."""
SETTLE_SECONDS = 25.0
"""How long a call waits for its own settlement; it goes on without it."""
POLL_SECONDS = 0.1
ROUND_SECONDS = 2.0
SWEEP_ROUNDS = 30
LARGEST_ROUND = 50


class Terms(Struct, frozen=True):
    """How one server is paid: where to, on which chain, in which token. Without `pay_to` it takes no payment.

    `receipt_key` (32 bytes) signs receipts; empty means none are given. `factories` are the addresses of those that
    may make a payer's wallet (EIP-6492).
    """

    chain_id: int
    asset: str
    pay_to: str = ""
    max_timeout_seconds: int = 60
    receipt_key: bytes = b""
    factories: tuple[str, ...] = ()


class X402:
    """The payments of one server. Processes that share its database share its claims."""

    def __init__(self, terms: Terms, database: Database, ledger: Ledger, chain: ChainClient, settler: Settler) -> None:
        self._terms = terms
        self._database = database
        self._chain = chain
        self._ledger = ledger
        self._leases = Leases(database)
        signer = ReceiptSigner(terms.receipt_key) if terms.receipt_key else None
        self._settlement = Settlement(database, ledger, chain, settler, self._leases, signer)
        self._turns: WeakValueDictionary[store.Key, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._handed: dict[store.Key, float] = {}
        self._leaving = Leaving[store.Key](lambda key: self._spawn(self._mark_delivered(key)))

    def accepts(self, amount_micros: int) -> list[Requirement]:
        """How a call of this price may be paid; empty where the server takes no payment."""
        terms = self._terms
        if not terms.pay_to:
            return []
        asset, pay_to = parse_address(terms.asset).text, parse_address(terms.pay_to).text
        name = TOKEN_NAMES.get(terms.chain_id, TOKEN_NAME)
        return [Requirement(terms.chain_id, amount_micros, asset, pay_to, terms.max_timeout_seconds, name)]

    async def claim(
        self, payment: Payment, accepts: Sequence[Requirement], fingerprint: bytes, resource_url: str
    ) -> Claimed | Kept | VerificationFailure:
        """Verify the payment and claim it for one call, before any work is done.

        `fingerprint` tells the request from another one; the same payment with the same request waits for the answer
        that is being made, and gets it. Raises Problem `upstream-unavailable` (nothing is claimed),
        `payment-pending` (send the same payment again), `idempotency-conflict`.
        """
        requirement = chosen_from(accepts, payment)
        if isinstance(requirement, VerificationFailure):
            return requirement
        asked = Asked(payment, requirement, fingerprint, resource_url, clock.seconds())
        while True:
            outcome = await self._in_turn(asked)
            if outcome is not None:
                return outcome
            if clock.seconds() >= asked.at + WAIT_SECONDS:
                raise pending()
            await asyncio.sleep(POLL_SECONDS)

    async def settle(self, claimed: Claimed, answer: StoredResponse) -> Headers | VerificationFailure:
        """Keep the answer, move the money, enter it in the ledger; the headers to send with the answer.

        Refused means the money has not moved: send the 402, not the answer. Raises Problem `payment-pending` while
        nobody can tell: the same payment will get this answer. A `release` afterwards does no harm.
        """
        async with self._database.writing() as transaction:
            kept = msgspec.msgpack.encode(answer)
            is_ours = await store.keep_answer(transaction, claimed.key, claimed.lease, kept)
        if not is_ours:
            raise pending()
        settling = self._spawn(self._settlement.carry_out(claimed))
        try:
            outcome = await asyncio.wait_for(asyncio.shield(settling), SETTLE_SECONDS)
        except (TimeoutError, Problem) as failure:
            log.warning("a payment is pending", payer=claimed.payment.payer, cause=type(failure).__name__)
            outcome = None
        if outcome is None:
            raise pending()
        return outcome

    async def release(self, claimed: Claimed) -> None:
        """Nothing came of the work: the payer may use the same authorization again."""
        self._leases.drop(claimed.lease)
        async with self._database.writing() as transaction:
            await store.release(transaction, claimed.key, claimed.lease)

    def delivered(self, payment: Payment) -> None:
        """The answer was handed over whole: from now on the same payment is refused as used. Returns at once."""
        self._handed.setdefault(key_of(payment), clock.seconds())
        self._leaving.add(key_of(payment))

    async def receipts(self, before: float, limit: int) -> list[Receipted]:
        """The payments settled before that moment (seconds since 1970), newest first."""
        async with self._database.reading() as connection:
            return [receipted(row) for row in await store.settled(connection, before, limit)]

    async def reconcile(self) -> Reconciliation:
        """The ledger's payments against the chain. Raises ChainUnavailable."""
        return await reconcile(self._chain, self._ledger)

    async def recover(self) -> None:
        """Free the claims that processes left behind, and find out what became of what they were settling, once."""
        async with self._database.reading() as connection:
            rows = await store.lapsed(connection, clock.seconds(), LARGEST_ROUND)
        for outcome in await asyncio.gather(*map(self._recover, rows), return_exceptions=True):
            if isinstance(outcome, BaseException):
                log.warning("a payment stays open", cause=type(outcome).__name__)

    async def resolve_for_ever(self) -> None:
        """Recover every two seconds; forget answers that were kept long enough."""
        rounds = 0
        while True:
            try:
                await self.recover()
                if rounds % SWEEP_ROUNDS == 0:
                    async with self._database.writing() as transaction:
                        await store.forget_answers(transaction, clock.seconds() - KEPT_SECONDS)
            except Problem as problem:
                log.warning("payments not looked after", code=problem.code)
            rounds += 1
            await asyncio.sleep(ROUND_SECONDS)

    async def close(self) -> None:
        """Let what is under way come to its end, as far as it does within seconds."""
        self._leaving.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)
        for task in self._tasks:
            task.cancel()
        await self._leases.close()

    async def _in_turn(self, asked: Asked) -> Claimed | Kept | VerificationFailure | None:
        """One at a time for each payment, so that many copies of it ask the chain once. None: ask again shortly."""
        turn = self._turns.setdefault(asked.key, asyncio.Lock())
        async with turn:
            async with self._database.reading() as connection:
                row = await store.find(connection, asked.key)
            return await (self._fresh(asked) if row is None else self._again(row, asked))

    async def _again(self, row: Any, asked: Asked) -> Claimed | Kept | VerificationFailure | None:
        verdict = judge(row, asked, clock.seconds(), self._handed.get(asked.key))
        if isinstance(verdict, Kept | VerificationFailure):
            return verdict
        if verdict == "abandoned":
            async with self._database.writing() as transaction:
                await store.release(transaction, asked.key, row.lease)
            return await self._fresh(asked)
        if verdict == "fresh":
            outcome = await self._fresh(asked)
            is_used = isinstance(outcome, VerificationFailure) and outcome.reason == InvalidReason.NONCE_USED
            if not is_used:
                return outcome
            # What had failed was carried out after all, or cancelled.
            verdict = "resume"
        if verdict == "resume":
            self._spawn(self._settlement.resume(row, may_settle=True))
        return None

    async def _fresh(self, asked: Asked) -> Claimed | VerificationFailure | None:
        """Ask the chain, then take the payment; None where another process was quicker."""
        payment, requirement = asked.payment, asked.requirement
        if untimely := untimely_at(payment, clock.seconds()):
            return untimely
        sound = await ask_chain(self._chain, payment, requirement, self._terms.factories)
        if isinstance(sound, VerificationFailure):
            return sound
        lease, until = self._leases.fresh()
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
                digest=digest_of(payment, requirement),
                fingerprint=asked.fingerprint,
                payment_id=payment.payment_id,
                resource_url=asked.resource_url,
                since_block=sound.block_number,
                claimed_at=clock.seconds(),
            )
            if not is_ours and await self._is_named(transaction, payment):
                raise name_taken()
        if not is_ours:
            return None
        failpoints.reach("x402.claimed")
        self._leases.hold(lease)
        return Claimed(payment, requirement, asked.resource_url, sound.block_number, lease)

    @staticmethod
    async def _is_named(transaction: Transaction, payment: Payment) -> bool:
        """Whether another payment of this payer has its name."""
        if payment.payment_id is None:
            return False
        row = await store.find_named(transaction, payment.payer, payment.payment_id)
        return row is not None and row.nonce != payment.nonce

    async def _recover(self, row: Any) -> None:
        if row.state != store.CLAIMED:
            await self._settlement.resume(row, may_settle=False)
            return
        async with self._database.writing() as transaction:
            await store.release(transaction, (row.payer, row.nonce), row.lease)

    async def _mark_delivered(self, key: store.Key) -> None:
        async with self._database.writing() as transaction:
            await store.mark_delivered(transaction, key, self._handed[key])
        del self._handed[key]

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(task.exception(), Exception):
            log.warning("a payment stays open", cause=type(task.exception()).__name__)
