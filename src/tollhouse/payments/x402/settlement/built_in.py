"""The built-in facilitator: settles authorizations with its own account, and monitors its transactions until mined."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Self

from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.evm import parse_address
from tollhouse.logs import logger
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.replies import Block, ChainRefused, ChainUnavailable, Receipt
from tollhouse.payments.x402.outcome import SettlementOutcome, recent_outcome
from tollhouse.payments.x402.settlement import recovery
from tollhouse.payments.x402.settlement.gas import Gas, GasLimits
from tollhouse.payments.x402.settlement.submission import FAILED, AccountLock, NotAcceptedError, Preflight, Submission
from tollhouse.payments.x402.settlement.transactions import (
    MAX_PENDING,
    Fees,
    NonceSlot,
    PendingPayment,
    TransactionQueue,
    Wallet,
    transaction_hashes,
    typical_payment,
)
from tollhouse.payments.x402.store import THIS_SERVER, Attempts
from tollhouse.payments.x402.types import (
    Failed,
    InvalidReason,
    Payment,
    Requirement,
    Settled,
    Unknown,
    VerificationFailure,
    Verified,
)
from tollhouse.payments.x402.verification import KEYS_ONLY, WalletRules, plan_settlement, proves_payment, scheme_of
from tollhouse.storage.database import Database

log = logger("payments.facilitator")

UNSENT_SECONDS = 20.0
"""How long to retry a payment that cannot be sent, before its outcome is Unknown."""
RETRY_SECONDS = 0.5
GATHER_SECONDS = 0.02
"""How long payments gather for one transaction, while other transactions are pending."""


class FacilitatorTerms(Struct, frozen=True):
    """The chain and the token it settles, which payers may be contracts, and the limits of what gas may cost."""

    chain_id: int
    asset: str
    gas: GasLimits
    rules: WalletRules = KEYS_ONLY


class BuiltInFacilitator:
    """A Settler that sends its own transactions. Use it as an asynchronous context manager.

    Concurrent payments share transactions.
    """

    def __init__(
        self,
        chain: ChainClient,
        wallet: Wallet,
        terms: FacilitatorTerms,
        account_lock: AccountLock,
        database: Database,
    ) -> None:
        self._chain = chain
        self._attempts = Attempts(database)
        self._terms = terms
        self._queue = TransactionQueue()
        self.address = self.upto_account = wallet.address
        """The account that sends the transactions and pays for their gas."""
        sample = wallet.sign(terms.chain_id, 0, Fees(1, 1), typical_payment(terms.asset)).raw
        self._gas = Gas(chain, wallet.address, terms.gas, database, sample)
        self.gas_status = self._gas.status
        self._preflight = Preflight(chain, wallet.address, terms.asset, terms.rules, self._gas)
        self._resolver = recovery.Resolver(chain, self._queue, self._gas.refused, self.find_outcome)
        self._submission = Submission(
            chain,
            terms.chain_id,
            wallet,
            self._preflight,
            self._queue,
            account_lock,
            self._gas,
            database,
            self._resolver.resolve_used,
        )
        self._monitor = TransactionMonitor(self._submission, self._resolver.resolve_failed)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        running = self._run_submission(), self._run_monitor(), self._gas.run()
        self._tasks = [asyncio.create_task(each) for each in running]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop. Pending transactions may still be mined: their payments' outcome is Unknown."""
        tasks = [*self._tasks, *self._resolver.tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for pending in list(self._queue.payments.values()):
            slots = [slot for slot in self._queue.slots.values() if pending in slot.payments]
            self._queue.resolve(pending, Unknown(slots[0].latest.signed.hash if slots else None))
        with suppress(Problem):
            await self._gas.flush()

    async def verify(self, payment: Payment, requirement: Requirement) -> Verified | VerificationFailure:
        """See Settler. Prices are at most two seconds old: a request that is refused costs no round trip for them."""
        return await self._preflight.verify(payment, requirement, await self._gas.admit(scheme_of(payment).gas))

    async def settle(
        self, payment: Payment, requirement: Requirement, requested_by: str = THIS_SERVER
    ) -> Settled | Failed | Unknown:
        """See Settler. The same authorization, concurrently or again later, is settled once, for one of who request it.

        Callers of the facilitator service differ in `requested_by`.
        """
        if requirement.chain_id != self._terms.chain_id:
            return Failed(InvalidReason.INVALID_NETWORK)
        if parse_address(requirement.asset) != parse_address(self._terms.asset):
            return Failed(InvalidReason.INVALID_REQUIREMENTS)
        key = requirement.asset.lower(), payment.payer, payment.nonce
        while (other := self._queue.payments.get(key)) is not None:
            outcome = await asyncio.shield(other.outcome)
            if other.is_same_payment(payment, requirement, requested_by):
                return outcome
        if len(self._queue.payments) >= MAX_PENDING:
            return Failed(FAILED)
        return await asyncio.shield(self._enqueue(payment, requirement, requested_by).outcome)

    async def has_sent(
        self, payment: Payment, _requirement: Requirement, tx_hash: str, requested_by: str = THIS_SERVER
    ) -> bool:
        """See Settler. Every transaction was recorded before it was broadcast."""
        return tx_hash in await self._attempts.hashes(payment.key, requested_by)

    async def find_outcome(self, payment: Payment, requirement: Requirement, requested_by: str) -> SettlementOutcome:
        """What the chain says of a payment that was requested by that caller. Raises as `settlement_outcome`."""
        has_sent = partial(self.has_sent, requested_by=requested_by)
        return await recent_outcome(self._chain, payment, requirement, has_sent)

    def _enqueue(self, payment: Payment, requirement: Requirement, requested_by: str) -> PendingPayment:
        plan = plan_settlement(payment, requirement, self._terms.rules.factories)
        outcome = asyncio.get_running_loop().create_future()
        is_isolated = plan.eoa_signature is None or plan.is_direct
        pending = PendingPayment(payment, requirement, plan, outcome, monotonic(), is_isolated, requested_by)
        self._queue.enqueue(pending)
        return pending

    async def _run_submission(self) -> None:
        while True:
            await self._wait_until_due()
            if self._queue.slots:
                await asyncio.sleep(GATHER_SECONDS)
            payments = self._queue.next_batch(monotonic())
            if not payments:
                continue
            try:
                await self._submission.submit(payments)
            except ChainRefused as refusal:
                # For example, the account has too little ether to pay for gas.
                log.error("transaction refused by the node", code=refusal.code, error=refusal.message)  # noqa: TRY400
                for pending in self._unsent(payments):
                    self._queue.resolve(pending, Failed(FAILED))
            except (Problem, NotAcceptedError) as failure:  # the node or the storage, which logged it
                if isinstance(failure, Problem) and failure.code == "payments-unavailable":
                    for pending in self._unsent(payments):
                        self._queue.resolve(pending, Failed(FAILED))
                else:
                    self._retry(self._unsent(payments))
            except Exception:
                log.exception("payment submission failed", payments=[one.payment.key for one in payments])
                self._retry(self._unsent(payments))

    async def _wait_until_due(self) -> None:
        """Wait until a payment may be sent."""
        while True:
            self._queue.changed.clear()
            due, now = self._queue.next_due(), monotonic()
            if due is not None and due <= now:
                return
            try:
                await asyncio.wait_for(self._queue.changed.wait(), None if due is None else due - now)
            except TimeoutError:
                return

    def _unsent(self, payments: Sequence[PendingPayment]) -> list[PendingPayment]:
        """The payments that were neither sent nor deferred."""
        sent = {id(pending) for slot in self._queue.slots.values() for pending in slot.payments}
        deferred = sent | {id(pending) for pending in self._queue.waiting} | self._resolver.tasks.keys()
        return [pending for pending in payments if not pending.outcome.done() and id(pending) not in deferred]

    def _retry(self, payments: Sequence[PendingPayment]) -> None:
        now = monotonic()
        for pending in payments:
            if now - pending.since < UNSENT_SECONDS:
                self._queue.wait(pending, now + RETRY_SECONDS)
            else:
                self._queue.resolve(pending, Unknown())

    async def _run_monitor(self) -> None:
        while True:
            await self._monitor.pause()
            try:
                await self._monitor.poll()
            except Problem:
                await asyncio.sleep(NO_NODE_PAUSE_SECONDS)
            except Exception:  # pending transactions are not given up
                log.exception("transaction monitor failed")
                await asyncio.sleep(NO_NODE_PAUSE_SECONDS)


MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS = 0.2, 15.0
EARLY_SHARE = 0.05
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.025, 0.5
PAUSE_GROWTH = 1.2


class BlockTicker:
    """Estimates the block time from observed blocks. Times are the event loop's."""

    def __init__(self) -> None:
        self.interval_seconds = 0.0
        """The block time; 0 if unknown, or if blocks are mined on demand."""
        self.height = -1
        self._newest: Block | None = None
        self._seen_at = 0.0
        self._polls = 0

    def observe(self, block: Block, at: float) -> None:
        """Record the newest block."""
        before = self._newest
        if before is not None and block.number <= before.number:
            self._polls += 1
            return
        if before is not None:
            apart = (block.timestamp - before.timestamp) / (block.number - before.number)
            self.interval_seconds = min(max(apart, MIN_INTERVAL_SECONDS), MAX_INTERVAL_SECONDS)
        self.height, self._newest, self._seen_at, self._polls = block.number, block, at, 0

    def pause_seconds(self, at: float) -> float:
        """How long to wait before the next poll: until just before the next block, then in short steps."""
        due = self._seen_at + self.interval_seconds * (1 - EARLY_SHARE)
        if at < due and self._newest is not None and self._polls == 0:
            return due - at
        return min(FIRST_PAUSE_SECONDS * PAUSE_GROWTH**self._polls, MAX_PAUSE_SECONDS)


ORPHAN_SECONDS = 12.0
FRESH_SECONDS, FRESH_PAUSE_SECONDS = 0.05, 0.005
"""A chain that mines on demand has a transaction mined about as soon as it replies."""
WAKE_BATCH = 10
"""So many callers wake before others have a turn on the event loop: each has work to do then."""
NO_NODE_PAUSE_SECONDS = 0.5


class TransactionMonitor:
    """Monitors the nonce slots of one process."""

    def __init__(self, submission: Submission, resolve_failed: Callable[[PendingPayment], None]) -> None:
        self._submission = submission
        self._queue = submission.queue
        self._resolve_failed = resolve_failed
        self._rebroadcaster = recovery.Rebroadcaster(submission)
        self._ticker = BlockTicker()
        self._orphan: tuple[int, float] | None = None

    async def pause(self) -> None:
        """Wait until a poll may find something new: a block time, or until something is sent."""
        if not self._queue.payments and not self._queue.slots:
            await self._queue.sent.wait()
        else:
            seconds = self._ticker.pause_seconds(monotonic())
            if any(slot.is_uncertain for slot in self._queue.slots.values()):
                seconds = min(seconds, recovery.UNCERTAIN_SECONDS)
            if any(monotonic() - slot.last_broadcast_at < FRESH_SECONDS for slot in self._queue.slots.values()):
                seconds = min(seconds, FRESH_PAUSE_SECONDS)
            try:
                await asyncio.wait_for(self._queue.sent.wait(), min(seconds, recovery.REBROADCAST_SECONDS))
            except TimeoutError:
                return
        self._queue.sent.clear()

    async def poll(self) -> None:
        """Check every slot once. Raises ChainUnavailable."""
        slots = sorted(self._queue.slots.values(), key=lambda slot: slot.nonce)
        block, count, receipts = await self._fetch(slots)
        self._ticker.observe(block, monotonic())
        for slot in slots:
            mined = next((receipts[tx_hash] for tx_hash in slot.hashes if receipts[tx_hash]), None)
            if mined is not None:
                await self._conclude(slot, mined)
            elif not slot.is_broadcast:
                continue  # the first broadcast is not over
            elif slot.nonce < count:
                self._rebroadcaster.handle_used_nonce(slot)
            else:
                await self._rebroadcaster.rebroadcast(slot, block, is_next=slot.nonce == count)
        await self._fill_orphaned_nonce(count)

    async def _fetch(self, slots: Sequence[NonceSlot]) -> tuple[Block, int, dict[str, Receipt | None]]:
        hashes = transaction_hashes(slots)
        count, block_reply, *receipt_replies = await self._submission.chain.rpc.batch(
            [
                # The count first: a nonce that it says is used then has its receipt.
                ("eth_getTransactionCount", [self._submission.wallet.address, LATEST]),
                ("eth_getBlockByNumber", [LATEST, False]),
                *(("eth_getTransactionReceipt", [tx_hash]) for tx_hash in hashes),
            ]
        )
        block = replies.block(block_reply, LATEST)
        if block is None:
            raise ChainUnavailable("the node has no newest block")
        receipts = {
            tx_hash: replies.receipt(raw, tx_hash) for tx_hash, raw in zip(hashes, receipt_replies, strict=True)
        }
        return block, replies.quantity(count), receipts

    async def _conclude(self, slot: NonceSlot, receipt: Receipt) -> None:
        """One of the slot's transactions was mined, so the others never will be."""
        self._queue.clear(slot)
        self._submission.gas.spend(slot.reserved_nanos, receipt)
        for number, pending in enumerate(slot.payments, 1):
            payment = pending.payment
            if proves_payment(receipt, payment, pending.requirement):
                settled = Settled(receipt.tx_hash, payment.payer, receipt.block_number, receipt)
                self._queue.resolve(pending, settled)
            else:
                # It was used elsewhere, funds were missing, or a wallet's code did something else than before.
                self._resolve_failed(pending)
            if number % WAKE_BATCH == 0:
                await asyncio.sleep(0)

    async def _fill_orphaned_nonce(self, count: int) -> None:
        """Fill a nonce that a process left behind and that keeps ours from being mined."""
        slots, now = self._queue.slots, monotonic()
        is_stuck = any(nonce > count for nonce in slots) or any(
            pending.in_mempool_since for pending in self._queue.waiting
        )
        if not is_stuck or count in slots:
            self._orphan = None
        elif self._orphan is None or self._orphan[0] != count:
            self._orphan = (count, now)
        elif now - self._orphan[1] >= max(ORPHAN_SECONDS, 5 * self._ticker.interval_seconds):
            self._orphan = None
            log.warning("orphaned nonce", nonce=count)
            try:
                await self._submission.fill(count)
            except (ChainRefused, NotAcceptedError, Problem) as failure:
                log.warning("orphaned nonce not filled", nonce=count, cause=type(failure).__name__)
