"""Monitor of ledger entries from the chain: reverse what a reorganisation removes, enter it again once mined again."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

from msgspec import Struct

from tollhouse import clock
from tollhouse.payments.chain.client import ChainClient, Nodes
from tollhouse.payments.chain.replies import Block, ChainUnavailable, Receipt
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import REVERSAL, REVERSALS, Transfer

DEPOSIT = "deposit"
POLL_SECONDS = 3.0
WATCHED_BLOCKS = 64
REMEMBERED_SECONDS = 3 * 86_400.0
"""How long to wait for a removed transaction."""
OVERLAP_SECONDS = 60.0
"""The largest clock difference of processes that share a ledger."""

Verdict = Literal["stands", "removed", "unknown"]


class MinedTransfer(Struct, frozen=True):
    """A transfer in the ledger, and the block that its transaction was mined in."""

    transfer: Transfer
    tx_hash: str
    block_number: int
    block_hash: str

    @property
    def id(self) -> str:
        """The id of the transfer."""
        return self.transfer.id


def mined_transfer(transfer: Transfer) -> MinedTransfer | None:
    """The transfer with the block that its memo names; None if it names none."""
    facts = transfer.facts
    if "block_hash" not in facts:
        return None
    return MinedTransfer(transfer, facts["tx_hash"], facts["block_number"], facts["block_hash"])


def reversal_id(transfer_id: str) -> str:
    """The id of the transfer that reverses another. That of a deposit is without its kind."""
    return f"{REVERSAL}:{transfer_id.removeprefix(DEPOSIT + ':')}"


def reversed_id(reversal: Transfer) -> str:
    """The id of the transfer that a reversal reverses."""
    name = reversal.id.removeprefix(f"{REVERSAL}:")
    return f"{DEPOSIT}:{name}" if name.startswith("0x") else name


async def standing_transfers(ledger: Ledger, kind: str) -> list[Transfer]:
    """Every transfer of a kind that is not reversed."""
    reversed_ids = {reversed_id(reversal) for reversal in await ledger.transfers(REVERSAL, 0.0)}
    return [transfer for transfer in await ledger.transfers(kind, 0.0) if transfer.id not in reversed_ids]


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


def verdict(entry: MinedTransfer, view: ChainView) -> Verdict:
    """Whether the entry's block still holds the transaction. `removed` only if the view is complete and consistent.

    A node that lags behind, or contradicts itself, proves nothing.
    """
    block, receipt = view.blocks.get(entry.block_number), view.receipts[entry.tx_hash]
    if block is None or not view.is_linked(entry.block_number):
        return "unknown"
    if receipt is not None and not view.is_canonical(receipt):
        return "unknown"
    is_there = receipt is not None and receipt.block_hash == entry.block_hash
    if is_there:
        return "stands"
    return "removed" if block.hash != entry.block_hash else "unknown"


async def check_chain_id(chain: ChainClient, chain_id: int) -> None:
    """Raises ChainUnavailable unless the node serves that chain."""
    actual = await chain.chain_id()
    if actual != chain_id:
        raise ChainUnavailable(f"the node serves chain {actual}, not {chain_id}")


class ReorganisationMonitor(ABC):
    """Monitors the entries younger than WATCHED_BLOCKS.

    An entry is reversed when two polls in a row see the same other block in the place of its own.
    """

    kind: ClassVar[str]
    """The kind of the transfers that are monitored."""
    noun: ClassVar[str]
    """What the log calls one of them."""
    log: ClassVar[Any]
    entries_seconds: ClassVar[float] = REMEMBERED_SECONDS
    """How far back a new monitor looks for entries."""

    def __init__(self, nodes: Nodes, ledger: Ledger, chain_id: int) -> None:
        self._nodes = nodes
        self._ledger = ledger
        self._chain_id = chain_id
        self._entries_since = clock.seconds() - self.entries_seconds
        self._reversals_since = clock.seconds() - REMEMBERED_SECONDS
        self._entries: dict[str, MinedTransfer] = {}
        self._retired: dict[str, float] = {}
        self._removed: dict[str, tuple[MinedTransfer, float]] = {}
        self._suspected: dict[str, str] = {}

    @abstractmethod
    async def restore(self, entry: MinedTransfer, receipt: Receipt, view: ChainView, node: ChainClient) -> bool:
        """Enter again what a canonical transaction carries; whether no more is to be expected of it."""

    async def candidates(self, entry: MinedTransfer) -> Collection[str]:
        """The transactions that may carry a removed entry again."""
        return (entry.tx_hash,)

    async def poll(self) -> None:
        """Check once. Raises Problem when the node or the ledger is unavailable: nothing is reversed then."""
        await self._sync()
        if not self._entries and not self._removed:
            return
        candidates = {removed: await self.candidates(entry) for removed, (entry, _) in self._removed.items()}
        hashes = dict.fromkeys(entry.tx_hash for entry in self._entries.values())
        hashes |= dict.fromkeys(tx_hash for hashes in candidates.values() for tx_hash in hashes)
        try:
            node, view = await self._nodes.first(lambda chain: self._fetch_view(chain, list(hashes)))
        except Exception:
            self._suspected.clear()
            raise
        for entry in list(self._entries.values()):
            await self._check(entry, view)
        for removed, tx_hashes in candidates.items():
            for receipt in filter(None, map(view.receipts.get, tx_hashes)):
                is_awaited = removed in self._removed and view.is_canonical(receipt)
                if is_awaited and await self.restore(self._removed[removed][0], receipt, view, node):
                    self._retire(removed)

    async def _sync(self) -> None:
        """Read what this and other processes entered and reversed since the last poll."""
        now = clock.seconds()
        transfers = await self._ledger.transfers(self.kind, self._entries_since)
        reversals = {
            reversed_id(reversal): reversal.at
            for reversal in await self._ledger.transfers(REVERSAL, self._reversals_since)
            if reversed_id(reversal).startswith(f"{self.kind}:")
        }
        for transfer in transfers:
            if transfer.id in reversals or transfer.id in self._retired or transfer.id in self._entries:
                continue
            entry = mined_transfer(transfer)
            if entry is not None:
                self._entries[transfer.id] = entry
        for removed, at in reversals.items():
            await self._await_restore(removed, at)
        self._entries_since = max(self._entries_since, now - OVERLAP_SECONDS)
        self._reversals_since = max(self._reversals_since, now - OVERLAP_SECONDS)
        for removed, (_, at) in list(self._removed.items()):
            if at < now - REMEMBERED_SECONDS:
                self._retire(removed)
        # Entries retired long ago are not listed any more.
        self._retired = {retired: at for retired, at in self._retired.items() if at > now - 2 * OVERLAP_SECONDS}

    async def _await_restore(self, removed: str, at: float) -> None:
        """Wait for a removed transaction to be mined again, unless its next turn is entered already."""
        self._entries.pop(removed, None)
        if removed in self._removed or removed in self._retired:
            return
        transfer = await self._ledger.find(removed)
        entry = None if transfer is None else mined_transfer(transfer)
        if entry is not None:
            self._removed[removed] = (entry, at)

    async def _fetch_view(self, chain: ChainClient, hashes: list[str]) -> ChainView:
        await check_chain_id(chain, self._chain_id)
        head = await chain.block_number()
        receipts = dict(zip(hashes, await chain.receipts(hashes), strict=True))
        # Each entry's block with its neighbours, and each that a receipt names.
        entered = {entry.block_number + step for entry in self._entries.values() for step in (-1, 0, 1)}
        named = {receipt.block_number for receipt in receipts.values() if receipt is not None}
        heights = sorted(height for height in entered | named if 0 <= height <= head)
        blocks = dict(zip(heights, await chain.blocks(heights), strict=True))
        return ChainView(head, receipts, blocks)

    async def _check(self, entry: MinedTransfer, view: ChainView) -> None:
        status = verdict(entry, view)
        if status == "stands" and view.head - entry.block_number >= WATCHED_BLOCKS:
            self._retire(entry.id)
        if status != "removed":
            self._suspected.pop(entry.id, None)
            return
        block = view.blocks[entry.block_number]
        assert block is not None
        if self._suspected.get(entry.id) != block.hash:
            self._suspected[entry.id] = block.hash
            return
        await self._reverse(entry, block.hash)
        self._suspected.pop(entry.id, None)
        self._entries.pop(entry.id, None)
        self._removed[entry.id] = (entry, clock.seconds())

    async def _reverse(self, entry: MinedTransfer, canonical_hash: str) -> None:
        """Reverse an entry in the ledger, below zero if it was spent. `canonical_hash` is the evidence."""
        account, amount, event = entry.transfer.credit, entry.transfer.amount_micros, f"{self.noun} reversed"
        memo = entry.transfer.facts | {"canonical_hash": canonical_hash}
        await self._ledger.move(Transfer(reversal_id(entry.id), account, REVERSALS, amount, REVERSAL, memo))
        self.log.warning(event, **{self.noun: entry.id}, account=account, amount_micros=amount)

    def _retire(self, entry_id: str) -> None:
        """Stop to monitor it."""
        self._entries.pop(entry_id, None)
        self._removed.pop(entry_id, None)
        self._retired[entry_id] = clock.seconds()
