"""Monitor of sent transactions: mined, lost, or to be sent again with higher fees."""

import asyncio
from collections.abc import Sequence

from tollhouse.logs import logger
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.replies import Block, ChainRefused, ChainUnavailable, Receipt
from tollhouse.payments.x402.outcome import proves
from tollhouse.payments.x402.settlement.simulation import Preflight
from tollhouse.payments.x402.settlement.submission import NotTakenError, Submission, meaning
from tollhouse.payments.x402.settlement.transaction import replacing
from tollhouse.payments.x402.settlement.transaction_queue import (
    Attempt,
    NonceSlot,
    PendingPayment,
    TransactionQueue,
    batch_call,
    cancel_transaction,
    hashes_of,
)
from tollhouse.payments.x402.types import Failed, InvalidReason, Settled

SHORTEST_SECONDS, LONGEST_SECONDS = 0.2, 15.0
EARLY_SHARE = 0.05
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.025, 0.5
PAUSE_GROWTH = 1.2


class Pulse:
    """The rhythm of a chain, from its blocks as they are seen. Moments are the event loop's."""

    def __init__(self) -> None:
        self.interval_seconds = 0.0
        """Between two blocks; 0 where that is not known, or blocks come with transactions."""
        self.height = -1
        self._newest: Block | None = None
        self._seen_at = 0.0
        self._looks = 0

    def saw(self, block: Block, at: float) -> None:
        """The newest block, at this moment."""
        before = self._newest
        if before is not None and block.number <= before.number:
            self._looks += 1
            return
        if before is not None:
            apart = (block.timestamp - before.timestamp) / (block.number - before.number)
            self.interval_seconds = min(max(apart, SHORTEST_SECONDS), LONGEST_SECONDS)
        self.height, self._newest, self._seen_at, self._looks = block.number, block, at, 0

    def pause_seconds(self, at: float) -> float:
        """How long to wait before looking again: until just before the next block, then in short steps."""
        due = self._seen_at + self.interval_seconds * (1 - EARLY_SHARE)
        if at < due and self._newest is not None and self._looks == 0:
            return due - at
        return min(FIRST_PAUSE_SECONDS * PAUSE_GROWTH**self._looks, LONGEST_PAUSE_SECONDS)


log = logger("payments.facilitator")

DOUBTFUL_SECONDS = 0.5
SAY_AGAIN_SECONDS = 3.0
"""How long after it was last offered a transaction that is not mined is offered again, in case it was dropped."""
FRESH_SECONDS, FRESH_PAUSE_SECONDS = 0.05, 0.005
"""A chain that makes a block of each transaction has it mined about as soon as it answers."""
PATIENCE_BLOCKS = 3
"""How many blocks may pass it by before more is offered."""
LOST_SECONDS = 4.0
"""How long a nonce must be used up without a receipt of ours: nodes behind one address differ for a while."""
ORPHAN_SECONDS = 12.0
MOST_ATTEMPTS = 3
AT_ONCE = 10
"""So many callers wake before others have a turn on the event loop: each has work to do then."""
NO_NODE_PAUSE_SECONDS = 0.5


class Watch:
    """Looks after the slots of one process."""

    def __init__(  # noqa: PLR0913, PLR0917 - both sides of the node
        self,
        chain: ChainClient,
        account: str,
        foresight: Preflight,
        traffic: TransactionQueue,
        pulse: Pulse,
        submission: Submission,
    ) -> None:
        self._chain = chain
        self._account = account
        self._foresight = foresight
        self._traffic = traffic
        self._pulse = pulse
        self._submission = submission
        self._orphan: tuple[int, float] | None = None

    async def pause(self) -> None:
        """Until something may be new: after a block's time, or when something was sent."""
        if not self._traffic.rides and not self._traffic.slots:
            await self._traffic.sent.wait()
        else:
            seconds = self._pulse.pause_seconds(_now())
            if any(slot.is_doubtful for slot in self._traffic.slots.values()):
                seconds = min(seconds, DOUBTFUL_SECONDS)
            if any(_now() - slot.said_at < FRESH_SECONDS for slot in self._traffic.slots.values()):
                seconds = min(seconds, FRESH_PAUSE_SECONDS)
            try:
                await asyncio.wait_for(self._traffic.sent.wait(), min(seconds, SAY_AGAIN_SECONDS))
            except TimeoutError:
                return
        self._traffic.sent.clear()

    async def look(self) -> None:
        """Once at everything. Raises ChainUnavailable."""
        slots = sorted(self._traffic.slots.values(), key=lambda slot: slot.nonce)
        block, count, receipts = await self._asked(slots)
        self._pulse.saw(block, _now())
        for slot in slots:
            mined = next((receipts[tx_hash] for tx_hash in slot.hashes if receipts[tx_hash]), None)
            if mined is not None:
                await self._conclude(slot, mined)
            elif not slot.is_offered:
                continue  # a second offer at the same time could have the first refused
            elif slot.nonce < count:
                self._miss(slot)
            else:
                await self._press(slot, block, is_next=slot.nonce == count)
        await self._look_for_orphan(count)

    async def _asked(self, slots: Sequence[NonceSlot]) -> tuple[Block, int, dict[str, Receipt | None]]:
        hashes = hashes_of(slots)
        told = await self._chain.rpc.questions(
            [
                # The count first: what it says is used up then has its receipt.
                ("eth_getTransactionCount", [self._account, LATEST]),
                ("eth_getBlockByNumber", [LATEST, False]),
                *(("eth_getTransactionReceipt", [tx_hash]) for tx_hash in hashes),
            ]
        )
        block = replies.block(told[1], LATEST)
        if block is None:
            raise ChainUnavailable("a node without a newest block")
        receipts = {tx_hash: replies.receipt(raw, tx_hash) for tx_hash, raw in zip(hashes, told[2:], strict=True)}
        return block, replies.quantity(told[0]), receipts

    async def _conclude(self, slot: NonceSlot, receipt: Receipt) -> None:
        """One of the slot's transactions was mined, so none of the others ever will be."""
        self._traffic.clear(slot)
        for number, ride in enumerate(slot.rides, 1):
            payment = ride.payment
            if proves(receipt, payment, ride.requirement):
                settled = Settled(receipt.tx_hash, payment.payer, receipt.block_number, receipt)
                self._traffic.arrive(ride, settled)
            else:
                self._left_behind(ride)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _left_behind(self, ride: PendingPayment) -> None:
        """Its transaction was mined without carrying it out: somebody was quicker, or the money went elsewhere."""
        ride.attempts += 1
        ride.is_alone = True
        if ride.attempts < MOST_ATTEMPTS:
            self._traffic.wait(ride)
        else:
            self._traffic.arrive(ride, Failed(InvalidReason.TRANSACTION_FAILED))

    def _miss(self, slot: NonceSlot) -> None:
        """Its nonce is used up by a transaction that is none of its own."""
        slot.is_missing_since = slot.is_missing_since or _now()
        if _now() - slot.is_missing_since < LOST_SECONDS:
            return
        log.warning("another transaction took the nonce", nonce=slot.nonce, payments=len(slot.rides))
        self._traffic.clear(slot)
        for ride in slot.rides:
            self._traffic.wait(ride)

    async def _press(self, slot: NonceSlot, block: Block, *, is_next: bool) -> None:
        """Offer it again: as it is, in case it never arrived or was dropped; for more, if blocks pass it by."""
        slot.is_missing_since = None
        quiet = _now() - slot.said_at
        if slot.said_block is None:
            slot.said_block = block.number
        is_passed_by = block.number - slot.said_block >= PATIENCE_BLOCKS
        if is_passed_by and (is_next or slot.newest.fees.max_fee < block.base_fee):
            await self._replace(slot, block)
        elif quiet >= (DOUBTFUL_SECONDS if slot.is_doubtful else SAY_AGAIN_SECONDS):
            await self._say(slot, slot.newest)

    async def _replace(self, slot: NonceSlot, block: Block) -> None:
        """For more, and without the payments that could not be carried out any more."""
        slot.said_block = block.number
        fees = replacing(slot.newest.fees, await self._foresight.quote())
        if fees is None:
            await self._say(slot, slot.newest)
            return
        good = await self._foresight.still_good(slot.rides) if slot.rides else []
        if len(good) == len(slot.rides):
            errand = slot.versions[0].errand
        else:
            errand = batch_call(good) if good else cancel_transaction(self._account)
        version = self._submission.version(slot.nonce, fees, errand)
        # Before it is sent: it may be mined even if the node does not answer.
        slot.versions.append(version)
        log.info("a transaction is replaced for more", nonce=slot.nonce, max_fee=fees.max_fee, payments=len(good))
        await self._say(slot, version)

    async def _say(self, slot: NonceSlot, version: Attempt) -> None:
        slot.said_at = _now()
        try:
            await self._chain.send_raw_transaction(version.signed.raw)
        except ChainUnavailable:
            slot.is_doubtful = True
            return
        except ChainRefused as refusal:
            if meaning(refusal) not in {"known", "used"}:
                log.warning("a transaction is not taken", nonce=slot.nonce, code=refusal.code, said=refusal.message)
        slot.is_doubtful = False

    async def _look_for_orphan(self, count: int) -> None:
        """A nonce that is nobody's and keeps ours from being mined: left by a process that is gone."""
        slots, now = self._traffic.slots, _now()
        is_stuck = any(nonce > count for nonce in slots) or any(ride.held_since for ride in self._traffic.waiting)
        if not is_stuck or count in slots:
            self._orphan = None
        elif self._orphan is None or self._orphan[0] != count:
            self._orphan = (count, now)
        elif now - self._orphan[1] >= max(ORPHAN_SECONDS, 5 * self._pulse.interval_seconds):
            self._orphan = None
            log.warning("a nonce was left behind", nonce=count)
            try:
                await self._submission.fill(count)
            except (ChainRefused, NotTakenError) as failure:
                log.warning("a nonce left behind is not taken", nonce=count, cause=type(failure).__name__)


def _now() -> float:
    return asyncio.get_running_loop().time()
