"""Deposits after they were credited: taken back when a reorganisation removes them, credited again when mined again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tollhouse import clock
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import Block, Receipt
from tollhouse.payments.deposits.ledger import (
    DEPOSIT,
    Credit,
    DepositTerms,
    book,
    credit_of,
    deposit_id,
    deposits_in,
    is_reversed_deposit,
    must_be,
    reverse,
)
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import REVERSAL, IdTakenError

log = logger("payments.deposits")

WATCH_SECONDS = 3.0
WATCHED_BLOCKS = 64
REMEMBERED_SECONDS = 3 * 86_400.0
"""How far back a watch that starts looks for credits nobody watched, and how long it waits for what was removed."""
OVERLAP_SECONDS = 60.0
"""How far the clocks of processes that share a ledger may be apart."""

Verdict = Literal["stands", "removed", "unknown"]


class View(Struct, frozen=True):
    """What the node said in one round: its height, receipts by transaction, canonical blocks by height."""

    head: int
    receipts: Mapping[str, Receipt | None]
    blocks: Mapping[int, Block | None]

    def is_canonical(self, receipt: Receipt) -> bool:
        """Whether the node calls the receipt's block canonical."""
        block = self.blocks.get(receipt.block_number)
        return block is not None and block.hash == receipt.block_hash

    def is_linked(self, height: int) -> bool:
        """Whether the block follows from the one before it, and the one after, where there is one, from it."""
        before, block, after = (self.blocks.get(height + step) for step in (-1, 0, 1))
        if block is None or (before is None and height > 0):
            return False
        pairs = [(earlier, later) for earlier, later in ((before, block), (block, after)) if earlier and later]
        return all(earlier.hash == later.parent_hash for earlier, later in pairs)


def verdict(credit: Credit, view: View) -> Verdict:
    """Whether the credited block still holds the transaction. `removed` only on a whole and consistent answer.

    A node that lags behind, or contradicts itself, proves nothing.
    """
    block, receipt = view.blocks.get(credit.block_number), view.receipts[credit.tx_hash]
    if block is None or not view.is_linked(credit.block_number):
        return "unknown"
    if receipt is not None and not view.is_canonical(receipt):
        return "unknown"
    is_there = receipt is not None and receipt.block_hash == credit.block_hash
    if is_there:
        return "stands"
    return "removed" if block.hash != credit.block_hash else "unknown"


class Watch:
    """Looks after the credits younger than WATCHED_BLOCKS, round by round.

    A credit is taken back when two rounds in a row see the same other block in the place of its own.
    """

    def __init__(self, chain: ChainClient, ledger: Ledger, terms: DepositTerms) -> None:
        self._chain = chain
        self._ledger = ledger
        self._terms = terms
        self._since = clock.seconds() - REMEMBERED_SECONDS
        self._credits: dict[str, Credit] = {}
        self._buried: dict[str, float] = {}
        self._removed: dict[str, tuple[Credit, float]] = {}
        self._suspected: dict[str, str] = {}

    async def round(self) -> None:
        """Look once. Raises Problem when the node or the ledger is out of reach: nothing is taken back then."""
        await self._learn()
        if not self._credits and not self._removed:
            return
        try:
            view = await self._look()
        except Exception:
            self._suspected.clear()
            raise
        for credit in list(self._credits.values()):
            await self._judge(credit, view)
        for credit, _ in list(self._removed.values()):
            await self._restore(credit, view)

    async def _learn(self) -> None:
        """What this and other processes credited and took back since the last round."""
        now = clock.seconds()
        deposits = await self._ledger.listed(DEPOSIT, self._since)
        reversals = [t for t in await self._ledger.listed(REVERSAL, self._since) if is_reversed_deposit(t)]
        reversed_ids = {deposit_id(transfer) for transfer in reversals}
        for transfer in deposits:
            if transfer.id not in reversed_ids and transfer.id not in self._buried:
                self._credits.setdefault(transfer.id, credit_of(transfer))
        for transfer in reversals:
            await self._remember(deposit_id(transfer), transfer.at)
        self._since = max(self._since, now - OVERLAP_SECONDS)
        self._forget(now)

    async def _remember(self, reversed_id: str, at: float) -> None:
        """A removed transaction is waited for, unless its next turn has come already."""
        self._credits.pop(reversed_id, None)
        if reversed_id in self._removed or reversed_id in self._buried:
            return
        found = await self._ledger.find(reversed_id)
        if found is not None:
            self._removed[reversed_id] = (credit_of(found), at)

    def _forget(self, now: float) -> None:
        for deposit, (_, at) in list(self._removed.items()):
            if at < now - REMEMBERED_SECONDS:
                self._bury(deposit)
        # What was buried long ago is in no list any more.
        self._buried = {deposit: at for deposit, at in self._buried.items() if at > now - 2 * OVERLAP_SECONDS}

    async def _look(self) -> View:
        await must_be(self._chain, self._terms.chain_id)
        head = await self._chain.block_number()
        watched = [*self._credits.values(), *(credit for credit, _ in self._removed.values())]
        hashes = list(dict.fromkeys(credit.tx_hash for credit in watched))
        receipts = dict(zip(hashes, await self._chain.receipts(hashes), strict=True))
        heights = _heights(self._credits.values(), receipts.values(), head)
        blocks = dict(zip(heights, await self._chain.blocks(heights), strict=True))
        return View(head, receipts, blocks)

    async def _judge(self, credit: Credit, view: View) -> None:
        found = verdict(credit, view)
        if found == "stands" and view.head - credit.block_number >= WATCHED_BLOCKS:
            self._bury(credit.id)
        if found != "removed":
            self._suspected.pop(credit.id, None)
            return
        block = view.blocks[credit.block_number]
        assert block is not None
        if self._suspected.get(credit.id) != block.hash:
            self._suspected[credit.id] = block.hash
            return
        await self._take_back(credit, block.hash)

    async def _take_back(self, credit: Credit, canonical_hash: str) -> None:
        await reverse(self._ledger, credit, canonical_hash)
        log.warning("a deposit was taken back", deposit=credit.id, account=credit.account)
        self._suspected.pop(credit.id, None)
        self._credits.pop(credit.id, None)
        self._removed[credit.id] = (credit, clock.seconds())

    async def _restore(self, credit: Credit, view: View) -> None:
        """Credit the wallet's logs of a transaction that is mined again and confirmed."""
        receipt = view.receipts.get(credit.tx_hash)
        if receipt is None or not view.is_canonical(receipt):
            return
        if view.head - receipt.block_number + 1 < self._terms.confirmations:
            return
        own = [one for one in deposits_in(receipt, self._terms) if one.movement.sender == credit.wallet]
        if sum(one.movement.amount_micros for one in own) >= self._terms.minimum_micros:
            try:
                restored, is_any_new = await book(self._ledger, credit.account, receipt, own)
            except IdTakenError:
                return
            if is_any_new:
                log.warning("a deposit was credited again", deposits=[one.id for one in restored])
        self._bury(credit.id)

    def _bury(self, deposit: str) -> None:
        """Never look at it again."""
        self._credits.pop(deposit, None)
        self._removed.pop(deposit, None)
        self._buried[deposit] = clock.seconds()


def _heights(credits_: Iterable[Credit], receipts: Iterable[Receipt | None], head: int) -> Sequence[int]:
    """The blocks that decide: each credited one with its neighbours, and each that a receipt names."""
    credited = {credit.block_number + step for credit in credits_ for step in (-1, 0, 1)}
    named = {receipt.block_number for receipt in receipts if receipt is not None}
    return sorted(height for height in credited | named if 0 <= height <= head)
