"""Monitor of credited deposits: reverse those that a reorganisation removes, credit them again once mined again."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from tollhouse import clock
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.nodes import Nodes
from tollhouse.payments.chain.replies import Block, ChainUnavailable, Receipt
from tollhouse.payments.deposits.ledger import (
    DEPOSIT,
    Confirmation,
    Credit,
    DepositTerms,
    check_chain_id,
    credit_deposits,
    credit_from_transfer,
    deposit_id,
    deposits_in,
    is_evident,
    is_reversed_deposit,
    reverse,
)
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import REVERSAL, IdTakenError

log = logger("payments.deposits")

POLL_SECONDS = 3.0
WATCHED_BLOCKS = 64
REMEMBERED_SECONDS = 3 * 86_400.0
"""How far back a new monitor looks for credits, and how long it waits for a removed transaction."""
OVERLAP_SECONDS = 60.0
"""The largest clock difference of processes that share a ledger."""

Verdict = Literal["stands", "removed", "unknown"]


class ChainView(Struct, frozen=True):
    """The node's state in one poll: its height, receipts by transaction, canonical blocks by height."""

    head: int
    receipts: Mapping[str, Receipt | None]
    blocks: Mapping[int, Block | None]

    def is_canonical(self, receipt: Receipt) -> bool:
        """Whether the receipt's block is canonical."""
        block = self.blocks.get(receipt.block_number)
        return block is not None and block.hash == receipt.block_hash

    def is_linked(self, height: int) -> bool:
        """Whether the block links to its neighbours."""
        before, block, after = (self.blocks.get(height + step) for step in (-1, 0, 1))
        if block is None or (before is None and height > 0):
            return False
        pairs = [(earlier, later) for earlier, later in ((before, block), (block, after)) if earlier and later]
        return all(earlier.hash == later.parent_hash for earlier, later in pairs)


def verdict(credit: Credit, view: ChainView) -> Verdict:
    """Whether the credited block still holds the transaction. `removed` only if the view is complete and consistent.

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


class DepositMonitor:
    """Monitors the credits younger than WATCHED_BLOCKS.

    A credit is reversed when two polls in a row see the same other block in the place of its own.
    """

    def __init__(self, nodes: Nodes, ledger: Ledger, terms: DepositTerms) -> None:
        self._nodes = nodes
        self._ledger = ledger
        self._terms = terms
        self._since = clock.seconds() - REMEMBERED_SECONDS
        self._credits: dict[str, Credit] = {}
        self._retired: dict[str, float] = {}
        self._removed: dict[str, tuple[Credit, float]] = {}
        self._suspected: dict[str, str] = {}

    async def poll(self) -> None:
        """Check once. Raises Problem when the node or the ledger is unavailable: nothing is reversed then."""
        await self._sync()
        if not self._credits and not self._removed:
            return
        try:
            node, view = await self._nodes.first(self._fetch_view)
        except Exception:
            self._suspected.clear()
            raise
        for credit in list(self._credits.values()):
            await self._check(credit, view)
        for credit, _ in list(self._removed.values()):
            await self._restore(credit, view, node)

    async def _sync(self) -> None:
        """Read what this and other processes credited and reversed since the last poll."""
        now = clock.seconds()
        deposits = await self._ledger.transfers(DEPOSIT, self._since)
        reversals = [t for t in await self._ledger.transfers(REVERSAL, self._since) if is_reversed_deposit(t)]
        reversed_ids = {deposit_id(transfer) for transfer in reversals}
        for transfer in deposits:
            if transfer.id not in reversed_ids and transfer.id not in self._retired:
                self._credits.setdefault(transfer.id, credit_from_transfer(transfer))
        for transfer in reversals:
            await self._await_restore(deposit_id(transfer), transfer.at)
        self._since = max(self._since, now - OVERLAP_SECONDS)
        for deposit, (_, at) in list(self._removed.items()):
            if at < now - REMEMBERED_SECONDS:
                self._retire(deposit)
        # Deposits retired long ago are not listed any more.
        self._retired = {deposit: at for deposit, at in self._retired.items() if at > now - 2 * OVERLAP_SECONDS}

    async def _await_restore(self, reversed_id: str, at: float) -> None:
        """Wait for a removed transaction to be mined again, unless its next turn is credited already."""
        self._credits.pop(reversed_id, None)
        if reversed_id in self._removed or reversed_id in self._retired:
            return
        transfer = await self._ledger.find(reversed_id)
        if transfer is not None:
            self._removed[reversed_id] = (credit_from_transfer(transfer), at)

    async def _fetch_view(self, chain: ChainClient) -> ChainView:
        await check_chain_id(chain, self._terms.chain_id)
        head = await chain.block_number()
        watched = [*self._credits.values(), *(credit for credit, _ in self._removed.values())]
        hashes = list(dict.fromkeys(credit.tx_hash for credit in watched))
        receipts = dict(zip(hashes, await chain.receipts(hashes), strict=True))
        # Each credited block with its neighbours, and each that a receipt names.
        credited = {credit.block_number + step for credit in self._credits.values() for step in (-1, 0, 1)}
        named = {receipt.block_number for receipt in receipts.values() if receipt is not None}
        heights = sorted(height for height in credited | named if 0 <= height <= head)
        blocks = dict(zip(heights, await chain.blocks(heights), strict=True))
        return ChainView(head, receipts, blocks)

    async def _check(self, credit: Credit, view: ChainView) -> None:
        status = verdict(credit, view)
        if status == "stands" and view.head - credit.block_number >= WATCHED_BLOCKS:
            self._retire(credit.id)
        if status != "removed":
            self._suspected.pop(credit.id, None)
            return
        block = view.blocks[credit.block_number]
        assert block is not None
        if self._suspected.get(credit.id) != block.hash:
            self._suspected[credit.id] = block.hash
            return
        await reverse(self._ledger, credit, block.hash)
        log.warning("deposit reversed", deposit=credit.id, account=credit.account)
        self._suspected.pop(credit.id, None)
        self._credits.pop(credit.id, None)
        self._removed[credit.id] = (credit, clock.seconds())

    async def _restore(self, credit: Credit, view: ChainView, node: ChainClient) -> None:
        """Credit the wallet's logs of a transaction that is mined again and confirmed."""
        receipt = view.receipts.get(credit.tx_hash)
        if receipt is None or not view.is_canonical(receipt):
            return
        confirmation = Confirmation(receipt, view.head - receipt.block_number + 1)
        if confirmation.confirmations < self._terms.confirmations:
            return
        own = [one for one in deposits_in(receipt, self._terms) if one.transfer.sender == credit.wallet]
        amount_micros = sum(one.transfer.amount_micros for one in own)
        try:
            if not await is_evident(self._nodes, node, self._terms, confirmation, amount_micros):
                return
        except ChainUnavailable:
            return
        if amount_micros >= self._terms.minimum_micros:
            try:
                restored, is_any_new = await credit_deposits(self._ledger, credit.account, receipt, own)
            except IdTakenError:
                return
            if is_any_new:
                log.warning("deposit credited again", deposits=[one.id for one in restored])
        self._retire(credit.id)

    def _retire(self, deposit: str) -> None:
        """Stop to monitor it."""
        self._credits.pop(deposit, None)
        self._removed.pop(deposit, None)
        self._retired[deposit] = clock.seconds()
