"""A catalogue: its items in the database, the change sets that alter them, and their search index."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from tollhouse import clock
from tollhouse.catalogue import store
from tollhouse.catalogue.index import layout
from tollhouse.catalogue.index_snapshots import IndexSnapshots, IndexState
from tollhouse.catalogue.items import Item, display_number, encode_item, item_prices, prepare_item, visible_members
from tollhouse.catalogue.query import CatalogueQuery, Distribution, SearchResult
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.search_engine import TantivyEngine
from tollhouse.logs import logger
from tollhouse.periodic import repeat
from tollhouse.storage.database import Database, Transaction

log = logger("catalogue")

REFRESH_SECONDS = 0.5
# Rows read and indexed at a time.
BATCH = 2_000
# After this many rows the index segments are merged at once.
MERGE_AFTER_ROWS = 20_000
# An index that is built for the first time shows its first rows once it has so many.
PART_ROWS = 10_000
# The memory of so many changed rows is freed before the others are read.
COMMIT_ROWS = 50_000
# A process whose index another one writes looks for its publications so often, and does not wait longer.
AWAIT_SECONDS, AWAIT_AT_MOST_SECONDS = 0.05, 10.0
# A search in a larger catalogue runs in a thread: it could block the event loop.
THREAD_ABOVE_ITEMS = 30_000


class Change(Struct, frozen=True):
    """An item after the change (None: removed) and before it (None: new or restored), with its visible members."""

    id: str
    item: Item | None
    before: Item | None


class Changes(Struct, frozen=True):
    """The changed items. `price_changed` are those whose price or sale price changed; each item is in one list."""

    created: list[Change] = field(default_factory=list)
    price_changed: list[Change] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    removed: list[Change] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.created) + len(self.price_changed) + len(self.changed) + len(self.removed)


class StoredItem(Struct, frozen=True):
    id: str
    removed: bool
    created_at: str
    updated_at: str
    body: bytes

    @classmethod
    def from_row(cls, row: Any) -> "StoredItem":
        return cls(row.id, row.removed, row.created_at, row.updated_at, bytes(row.body))

    def item(self, schema: Schema) -> Item:
        """The complete item with its timestamps."""
        item: Item = msgspec.json.decode(self.body)
        timestamps = ((schema.created, self.created_at), (schema.updated, self.updated_at))
        return item | {name: moment for name, moment in timestamps if name}


class ItemDiff(Struct, frozen=True):
    """The rows to write, and the changes to report."""

    rows: list[StoredItem]
    price_rows: list[dict[str, object]]
    changes: Changes


def compare_items(
    schema: Schema, stored: Mapping[str, StoredItem], upserts: Iterable[Item], removals: Iterable[str], at: datetime
) -> ItemDiff:
    diff = ItemDiff([], [], Changes())
    for item in upserts:
        _take(schema, diff, stored.get(item["id"]), item, clock.iso(at))
    for identity in removals:
        known = stored.get(identity)
        if known and not known.removed:
            diff.rows.append(msgspec.structs.replace(known, removed=True, updated_at=clock.iso(at)))
            diff.changes.removed.append(Change(identity, None, visible_members(schema, known.item(schema))))
    return diff


def _take(schema: Schema, diff: ItemDiff, known: StoredItem | None, item: Item, at: str) -> None:
    body = encode_item(item)
    current = known if known and not known.removed else None
    if current and current.body == body:
        return
    created_at = known.created_at if known else at
    row = StoredItem(item["id"], removed=False, created_at=created_at, updated_at=at, body=body)
    before = current.item(schema) if current else None
    price, old_price = item_prices(schema, item), item_prices(schema, before or {})
    shown_before = visible_members(schema, before) if before else None
    kind = "created" if before is None else "price_changed" if price != old_price else "changed"
    getattr(diff.changes, kind).append(Change(row.id, visible_members(schema, row.item(schema)), shown_before))
    diff.rows.append(row)
    if price and price != old_price:
        diff.price_rows.append({"item_id": row.id, "at": at, "price_micros": price[0], "current_micros": price[1]})


class PricePoint(Struct, frozen=True):
    """An item's price from a time on, in the currency's unit."""

    at: str
    price: float
    current_price: float


class Catalogue:
    """Searches use the index only; `refresh` and `follow` bring it to the database's revision.

    With `folder` the index is on disk. The processes of a machine share it: one of them applies the changes, and all
    show them. Without `folder` the index is in the memory of this process. While the index is built for the first time,
    it shows the rows that it has, and `filled` states how many. `snapshots` is a folder or a URL where machines share
    snapshots of the index, "" for none.
    """

    def __init__(
        self, name: str, schema: Schema, database: Database, folder: Path | None = None, snapshots: str = ""
    ) -> None:
        self.name = name
        self.schema = schema
        self._database = database
        self._engine = TantivyEngine(schema, folder)
        self.items, self.get = self._engine.items, self._engine.get
        self.similar, self.suggest = self._engine.similar, self._engine.suggest
        self._shown = IndexState.decode(self._engine.index.about)
        self._snapshots = IndexSnapshots(snapshots, name, layout(schema)) if snapshots else None
        self._refreshing = asyncio.Lock()
        self.filled: tuple[int, int] | None = None
        """Rows in the index and rows in the database while the index is built for the first time."""

    @property
    def revision(self) -> tuple[str, int]:
        """Epoch and revision of the index. Processes with the same value have the same items."""
        return self._shown.epoch, self._shown.revision

    @property
    def state(self) -> IndexState:
        return self._shown

    async def changed_since(self, state: IndexState, at_most: int) -> list[str] | None:
        """The ids of the items that changed since the index showed `state`, removed ones included.

        None if that is not known, or if there are more than `at_most`. Raises Problem `storage-unavailable`.
        """
        async with self._database.reading() as connection:
            if not await self._can_follow(connection, state, self._shown):
                return None
            changed = await store.changed_ids(connection, self.name, state.revision, at_most + 1)
        return changed if len(changed) <= at_most else None

    def __len__(self) -> int:
        return len(self._engine)

    async def search(self, query: CatalogueQuery) -> SearchResult:
        """One page, the exact total and the facets. Raises Problem `invalid-parameter`."""
        if len(self) <= THREAD_ABOVE_ITEMS:
            return self._engine.find(query)
        return await asyncio.to_thread(self._engine.find, query)

    async def distribution(self, query: CatalogueQuery, field: str) -> Distribution:
        """The matching items by a filtered number or time. Raises Problem `invalid-parameter`."""
        return await asyncio.to_thread(self._engine.distribution, query, field)

    async def apply(
        self,
        transaction: Transaction,
        upserts: Iterable[Item],
        removals: Iterable[str] = (),
        at: datetime | None = None,
    ) -> Changes:
        """Write a change set and return its changes, so that the caller can act on them in the same transaction.

        Change sets of one catalogue are serialized until their transactions end. A process shows the change once the
        transaction has committed and the process has refreshed. Raises InvalidItem with nothing written.
        """
        new = {item["id"]: item for item in (prepare_item(self.schema, each) for each in upserts)}
        removed = [identity for identity in dict.fromkeys(removals) if identity.isprintable() and identity not in new]
        revision = await store.locked_revision(transaction, self.name) + 1
        rows = await store.read_items(transaction, self.name, [*new, *removed])
        stored = {identity: StoredItem.from_row(row) for identity, row in rows.items()}
        diff = compare_items(self.schema, stored, new.values(), removed, at or clock.now())
        if diff.rows:
            written = [{**msgspec.structs.asdict(each), "revision": revision} for each in diff.rows]
            await store.write_items(transaction, self.name, written)
            prices = [{**each, "revision": revision} for each in diff.price_rows]
            await store.write_prices(transaction, self.name, prices)
            await store.set_revision(transaction, self.name, revision)
        return diff.changes

    async def stored(self, transaction: Transaction) -> AsyncIterator[Item]:
        """Every complete item that this transaction sees, without removed ones."""
        async for rows in self._rows(transaction, 0):
            for row in rows:
                if not row.removed:
                    yield row.item(self.schema)

    async def stored_item(self, transaction: Transaction, identity: str) -> Item | None:
        """The complete item, hidden members included, even if it was removed; None for an unknown id."""
        rows = await store.read_items(transaction, self.name, [identity])
        return StoredItem.from_row(rows[identity]).item(self.schema) if rows else None

    async def price_histories(self, transaction: Transaction, identities: Sequence[str]) -> dict[str, list[PricePoint]]:
        """The prices of these items by id, the oldest first; an empty list where none is known."""
        histories: dict[str, list[PricePoint]] = {identity: [] for identity in identities}
        for row in await store.read_prices(transaction, self.name, identities):
            price, current = (display_number("money", micros) for micros in (row.price_micros, row.current_micros))
            histories[row.item_id].append(PricePoint(row.at, price, current))
        return histories

    async def digests(self, transaction: Transaction) -> dict[str, bytes]:
        """`item_digest` of every stored item by id, without removed ones."""
        digests: dict[str, bytes] = {}
        async for rows in self._rows(transaction, 0):
            digests |= {row.id: _digest(row.body) for row in rows if not row.removed}
        return digests

    async def follow(self) -> None:
        """Refresh the index periodically until cancelled; then let another process write it."""
        try:
            await repeat(self.refresh, REFRESH_SECONDS, log.bind(catalogue=self.name), "catalogue not refreshed")
        finally:
            self.close()

    async def refresh(self) -> None:
        """Bring the index to the database's revision. A change set becomes visible as a whole.

        While another process writes the index, this waits for it, but not longer than ten seconds.
        """
        until = time.monotonic() + AWAIT_AT_MOST_SECONDS
        async with self._refreshing:
            while not await self._catch_up():
                if time.monotonic() > until:
                    return
                await asyncio.sleep(AWAIT_SECONDS)
            if self._snapshots:
                await self._snapshots.save_if_due(self._engine.index, self._shown)

    def close(self) -> None:
        """Let another process write the index. The catalogue cannot be refreshed afterwards."""
        self._engine.index.close()

    async def _catch_up(self) -> bool:
        """Whether the index now shows the revision of the database."""
        async with self._database.reading() as connection:
            epoch, revision = await store.read_revision(connection, self.name)
            now = IndexState(epoch, revision, await store.read_token(connection, self.name, revision))
            await asyncio.to_thread(self._reload)
            if now == self._shown:
                await asyncio.to_thread(self._engine.tidy)
                return True
            if not await asyncio.to_thread(self._engine.index.take_writer):
                return False
            await asyncio.to_thread(self._reload)
            await self._update_index(connection, now)
            return True

    async def _can_follow(self, connection: Transaction, state: IndexState, now: IndexState) -> bool:
        """Whether the changes since `state` lead to `now`. Not so if the database was restored from a backup."""
        if not 0 < state.revision <= now.revision or state.epoch != now.epoch:
            return False
        return await store.read_token(connection, self.name, state.revision) == state.token

    def _reload(self) -> None:
        self._engine.reload()
        self._shown = IndexState.decode(self._engine.index.about)
        self.filled = self._shown.progress

    async def _update_index(self, connection: Transaction, now: IndexState) -> None:
        if now == self._shown:
            return
        if self._snapshots and not await self._can_follow(connection, self._shown, now):
            await self._snapshots.restore(connection, self._engine.index, now)
            await asyncio.to_thread(self._reload)
        since = self._shown.revision if await self._can_follow(connection, self._shown, now) else 0
        if not since:
            await self._begin_index(connection)
        taken, total = 0, self.filled[1] if self.filled else 0
        async for rows in self._rows(connection, since):
            await asyncio.to_thread(self._put, rows, are_new=not since)
            taken += len(rows)
            if total:
                self.filled = min(taken, total), total
            if since and taken % COMMIT_ROWS < len(rows):
                await asyncio.to_thread(self._engine.index.commit)
        await asyncio.to_thread(self._show, now, merge=taken >= MERGE_AFTER_ROWS)
        log.info("catalogue refreshed", catalogue=self.name, revision=now.revision, rows=taken, items=len(self))

    async def _begin_index(self, connection: Transaction) -> None:
        """Empty the index. Where no earlier one is shown, show the first rows of a large catalogue meanwhile.

        They are indexed once more with the others: a search in one segment is faster than in several.
        """
        await asyncio.to_thread(self._engine.clear)
        if self._shown.revision:
            return
        total, taken = await store.count_items(connection, self.name), 0
        self.filled = (0, total) if total else None
        if total <= PART_ROWS:
            return
        async for rows in self._rows(connection, 0):
            await asyncio.to_thread(self._put, rows, are_new=True)
            taken += len(rows)
            if taken >= PART_ROWS:
                break
        self.filled = min(taken, total), total
        await asyncio.to_thread(self._engine.publish, msgspec.json.encode(IndexState(progress=self.filled)))
        await asyncio.to_thread(self._engine.clear)

    def _put(self, rows: list[StoredItem], *, are_new: bool) -> None:
        present = [row.item(self.schema) for row in rows if not row.removed]
        removed = [] if are_new else [row.id for row in rows if row.removed]
        self._engine.put(present, removed, are_new=are_new)

    def _show(self, now: IndexState, *, merge: bool) -> None:
        self._engine.publish(msgspec.json.encode(now))
        if merge:
            self._engine.merge_segments()
        self._reload()
        self._shown, self.filled = now, None

    async def _rows(self, connection: Transaction, since: int) -> AsyncIterator[list[StoredItem]]:
        after = (since + 1, "") if since else (0, "")
        while rows := await store.read_changes(connection, self.name, after, BATCH):
            yield [StoredItem.from_row(row) for row in rows]
            after = (rows[-1].revision, rows[-1].id)


def item_digest(item: Item) -> bytes:
    """The same for prepared items that are stored alike."""
    return _digest(encode_item(item))


def lowest_price(points: list[PricePoint], since: datetime) -> float | None:
    """The lowest price to pay since then, including the price in force at that time; None without a price.

    The points are of one item, the oldest first. Directive (EU) 2019/2161 requires it beside a reduced price.
    """
    in_force = sum(point.at <= clock.iso(since) for point in points)
    return min((point.current_price for point in points[max(0, in_force - 1) :]), default=None)


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=12).digest()
