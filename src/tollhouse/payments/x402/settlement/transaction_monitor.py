"""Monitor of sent transactions: mined, lost, or to be sent again with higher fees."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.replies import Block, ChainRefused, ChainUnavailable, Receipt
from tollhouse.payments.x402.settlement.gas import PAYMENT_GAS, Gas, limited_fees
from tollhouse.payments.x402.settlement.submission import NotAcceptedError, Preflight, Submission
from tollhouse.payments.x402.settlement.transactions import (
    Attempt,
    NonceSlot,
    PendingPayment,
    TransactionQueue,
    batch_call,
    cancel_transaction,
    classify_rpc_error,
    replacement_fees,
    transaction_hashes,
)
from tollhouse.payments.x402.types import Settled
from tollhouse.payments.x402.verification import proves_payment

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


log = logger("payments.facilitator")

UNCERTAIN_SECONDS = 0.5
REBROADCAST_SECONDS = 3.0
"""When a transaction that is not mined is broadcast again, in case it was dropped."""
FRESH_SECONDS, FRESH_PAUSE_SECONDS = 0.05, 0.005
"""A chain that mines on demand has a transaction mined about as soon as it replies."""
MAX_SKIPPED_BLOCKS = 3
"""How many blocks may skip a transaction before higher fees are offered."""
LOST_SECONDS = 4.0
"""How long a nonce must be used without a receipt of ours: the nodes of one provider differ for a while."""
ORPHAN_SECONDS = 12.0
WAKE_BATCH = 10
"""So many callers wake before others have a turn on the event loop: each has work to do then."""
NO_NODE_PAUSE_SECONDS = 0.5


class TransactionMonitor:
    """Monitors the nonce slots of one process."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a monitor
        self,
        chain: ChainClient,
        account: str,
        preflight: Preflight,
        gas: Gas,
        queue: TransactionQueue,
        ticker: BlockTicker,
        submission: Submission,
        start_resolving_failed: Callable[[PendingPayment], None],
    ) -> None:
        self._chain = chain
        self._account = account
        self._preflight = preflight
        self._gas = gas
        self._start_resolving_failed = start_resolving_failed
        self._queue = queue
        self._ticker = ticker
        self._submission = submission
        self._orphan: tuple[int, float] | None = None

    async def pause(self) -> None:
        """Wait until a poll may find something new: a block time, or until something is sent."""
        if not self._queue.payments and not self._queue.slots:
            await self._queue.sent.wait()
        else:
            seconds = self._ticker.pause_seconds(monotonic())
            if any(slot.is_uncertain for slot in self._queue.slots.values()):
                seconds = min(seconds, UNCERTAIN_SECONDS)
            if any(monotonic() - slot.last_broadcast_at < FRESH_SECONDS for slot in self._queue.slots.values()):
                seconds = min(seconds, FRESH_PAUSE_SECONDS)
            try:
                await asyncio.wait_for(self._queue.sent.wait(), min(seconds, REBROADCAST_SECONDS))
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
                self._handle_used_nonce(slot)
            else:
                await self._rebroadcast(slot, block, is_next=slot.nonce == count)
        await self._fill_orphaned_nonce(count)

    async def _fetch(self, slots: Sequence[NonceSlot]) -> tuple[Block, int, dict[str, Receipt | None]]:
        hashes = transaction_hashes(slots)
        count, block_reply, *receipt_replies = await self._chain.rpc.batch(
            [
                # The count first: a nonce that it says is used then has its receipt.
                ("eth_getTransactionCount", [self._account, LATEST]),
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
        self._gas.spend(slot.reserved_nanos, receipt)
        for number, pending in enumerate(slot.payments, 1):
            payment = pending.payment
            if proves_payment(receipt, payment, pending.requirement):
                settled = Settled(receipt.tx_hash, payment.payer, receipt.block_number, receipt)
                self._queue.resolve(pending, settled)
            else:
                # It was used elsewhere, funds were missing, or a wallet's code did something else than before.
                self._start_resolving_failed(pending)
            if number % WAKE_BATCH == 0:
                await asyncio.sleep(0)

    def _handle_used_nonce(self, slot: NonceSlot) -> None:
        """The nonce was used by a transaction that is not one of the slot's."""
        slot.nonce_used_since = slot.nonce_used_since or monotonic()
        if monotonic() - slot.nonce_used_since < LOST_SECONDS:
            return
        log.warning("nonce used by another transaction", nonce=slot.nonce, payments=len(slot.payments))
        self._queue.clear(slot)
        for pending in slot.payments:
            self._queue.wait(pending)

    async def _rebroadcast(self, slot: NonceSlot, block: Block, *, is_next: bool) -> None:
        """Send again: unchanged, in case it was dropped; with higher fees, if blocks skip it."""
        slot.nonce_used_since = None
        silence = monotonic() - slot.last_broadcast_at
        if slot.first_polled_block is None:
            slot.first_polled_block = block.number
        is_skipped = block.number - slot.first_polled_block >= MAX_SKIPPED_BLOCKS
        if is_skipped and (is_next or slot.latest.fees.max_fee < block.base_fee):
            await self._replace(slot, block)
        elif silence >= (UNCERTAIN_SECONDS if slot.is_uncertain else REBROADCAST_SECONDS):
            await self._broadcast(slot, slot.latest)

    async def _replace(self, slot: NonceSlot, block: Block) -> None:
        """Send with higher fees, and without the payments that would fail now."""
        slot.first_polled_block = block.number
        quote = await self._gas.quote()
        valid = await self._preflight.still_valid(slot.payments, slot.latest.fees) if slot.payments else []
        if len(valid) == len(slot.payments):
            request = slot.attempts[0].request
        else:
            request = batch_call(valid) if valid else cancel_transaction(self._account)
        gas = PAYMENT_GAS if valid and not valid[0].is_isolated else request.gas
        current = limited_fees(quote, self._gas.ceiling_wei(quote), gas)
        fees = current and replacement_fees(slot.latest.fees, current, self._gas.highest_fee(quote, gas))
        if fees is None:
            await self._broadcast(slot, slot.latest)
            return
        attempt, reserved = await self._submission.record_attempt(slot.nonce, fees, request, valid)
        # Only one of the slot's transactions is mined.
        self._gas.release(slot.reserved_nanos)
        slot.reserved_nanos = reserved
        # Before it is sent: it may be mined even if the node does not reply.
        slot.attempts.append(attempt)
        log.info("transaction replaced with higher fees", nonce=slot.nonce, max_fee=fees.max_fee, payments=len(valid))
        await self._broadcast(slot, attempt)

    async def _broadcast(self, slot: NonceSlot, attempt: Attempt) -> None:
        slot.last_broadcast_at = monotonic()
        try:
            await self._chain.send_raw_transaction(attempt.signed.raw)
        except ChainUnavailable:
            slot.is_uncertain = True
            return
        except ChainRefused as refusal:
            if classify_rpc_error(refusal) not in {"known", "nonce_used"}:
                log.warning(
                    "transaction refused by the node", nonce=slot.nonce, code=refusal.code, error=refusal.message
                )
        slot.is_uncertain = False

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
