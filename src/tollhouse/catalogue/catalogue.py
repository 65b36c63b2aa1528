"""A catalogue: its items in the database, the change sets that alter them, and this process's search index."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from tollhouse import clock
from tollhouse.catalogue import store
from tollhouse.catalogue.index_directory import IndexDirectory, IndexRevision
from tollhouse.catalogue.items import (
    MICROS,
    Item,
    display_number,
    encode_item,
    item_prices,
    prepare_item,
    visible_members,
)
from tollhouse.catalogue.query import CatalogueQuery, SearchResult, Suggestion
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.search_engine import TantivyEngine
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.storage.database import Database, Transaction

log = logger("catalogue")

FOLLOW_EVERY_SECONDS = 0.5
# Rows that are read, indexed and let go of at a time.
BATCH = 2_000
# After so many rows the segments are worth merging at once.
MANY = 20_000
# A question to a larger catalogue may take longer than the event loop should wait.
LARGE = 30_000


class Change(Struct, frozen=True):
    """An item as it is now (None: removed) and as it was (None: new, or here again), both as readers see them."""

    id: str
    item: Item | None
    before: Item | None


class Changes(Struct, frozen=True):
    """Each changed item in one of the four: `price_changed` where its price or its sale price is another one."""

    created: list[Change] = field(default_factory=list)
    price_changed: list[Change] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    removed: list[Change] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.created) + len(self.price_changed) + len(self.changed) + len(self.removed)


class StoredItem(Struct, frozen=True):
    """An item's row."""

    id: str
    removed: bool
    created_at: str
    updated_at: str
    body: bytes

    @classmethod
    def of(cls, row: Any) -> "StoredItem":
        """The part of a row that counts here."""
        return cls(row.id, row.removed, row.created_at, row.updated_at, bytes(row.body))

    def item(self, schema: Schema) -> Item:
        """The whole item with the store's stamps in it."""
        item: Item = msgspec.json.decode(self.body)
        stamps = ((schema.created, self.created_at), (schema.updated, self.updated_at))
        return item | {name: moment for name, moment in stamps if name}


class Decision(Struct, frozen=True):
    """What to write, and what to tell."""

    rows: list[StoredItem]
    price_rows: list[dict[str, object]]
    changes: Changes


def compare_items(
    schema: Schema, stored: Mapping[str, StoredItem], upserts: Iterable[Item], removals: Iterable[str], at: datetime
) -> Decision:
    """Compare prepared items with what is stored."""
    decision = Decision([], [], Changes())
    for item in upserts:
        _take(schema, decision, stored.get(item["id"]), item, clock.iso(at))
    for identity in removals:
        known = stored.get(identity)
        if known and not known.removed:
            decision.rows.append(msgspec.structs.replace(known, removed=True, updated_at=clock.iso(at)))
            decision.changes.removed.append(Change(identity, None, visible_members(schema, known.item(schema))))
    return decision


def _take(schema: Schema, decision: Decision, known: StoredItem | None, item: Item, at: str) -> None:
    body = encode_item(item)
    current = known if known and not known.removed else None
    if current and current.body == body:
        return
    created_at = known.created_at if known else at
    row = StoredItem(item["id"], removed=False, created_at=created_at, updated_at=at, body=body)
    before = current.item(schema) if current else None
    costs, cost = item_prices(schema, item), item_prices(schema, before or {})
    change = Change(
        row.id, visible_members(schema, row.item(schema)), visible_members(schema, before) if before else None
    )
    told = decision.changes
    (told.created if before is None else told.price_changed if costs != cost else told.changed).append(change)
    decision.rows.append(row)
    if costs and costs != cost:
        decision.price_rows.append({"item_id": row.id, "at": at, "price_micros": costs[0], "current_micros": costs[1]})


class PricePoint(Struct, frozen=True):
    """What an item costs from a moment on, in the currency's unit."""

    at: str
    price: float
    current_price: float


class Catalogue:
    """Search is answered from this process's index alone; `refresh` and `follow` keep it at the store's revision.

    `folder` keeps the index between runs, so that a start only reads what has changed since; without it the index is in
    memory. Processes may be given the same folder: each takes a part of it for itself.
    """

    def __init__(self, name: str, schema: Schema, database: Database, folder: Path | None = None) -> None:
        self.name = name
        self.schema = schema
        self._database = database
        self._shelf = IndexDirectory(folder / name, schema) if folder else None
        self._engine = self._shelf.engine(schema) if self._shelf else TantivyEngine(schema)
        self._standing = self._shelf.standing() if self._shelf else IndexRevision()
        self._refreshing = asyncio.Lock()
        self._is_checked = False

    @property
    def revision(self) -> tuple[str, int]:
        """What the index shows, as two parts of an ETag: equal in all processes that show the same."""
        return self._standing.epoch, self._standing.revision

    def __len__(self) -> int:
        return len(self._engine)

    async def search(self, query: CatalogueQuery) -> SearchResult:
        """One page, the exact total and the facets. Raises Problem `invalid-parameter`."""
        if len(self) <= LARGE:
            return self._engine.find(query)
        return await asyncio.to_thread(self._engine.find, query)

    def items(self, query: CatalogueQuery) -> Iterator[Item]:
        """Every item that matches, by id, whatever the page and the order: what exports are made of.

        Items that change while it is read show as they were. Raises Problem `invalid-parameter`.
        """
        return self._engine.items(query)

    def get(self, identity: str) -> Item | None:
        """The item of this id, or None."""
        return self._engine.get(identity)

    def similar(self, identity: str, limit: int = 10) -> list[Item]:
        """The items most like that one; nothing for an unknown id."""
        return self._engine.similar(identity, limit)

    def suggest(self, text: str, limit: int = 10) -> list[Suggestion]:
        """What the text may become when it is typed on."""
        return self._engine.suggest(text, limit)

    async def apply(
        self,
        transaction: Transaction,
        upserts: Iterable[Item],
        removals: Iterable[str] = (),
        *,
        at: datetime | None = None,
    ) -> Changes:
        """Write what is new or another, and tell it, so that what follows from it lands in the same transaction.

        Change sets of one catalogue take turns from here to the end of their transactions. It shows in each process
        once that has committed and the process has refreshed. Raises BadItem, with nothing written.
        """
        coming = {item["id"]: item for item in (prepare_item(self.schema, each) for each in upserts)}
        going = [identity for identity in dict.fromkeys(removals) if identity.isprintable() and identity not in coming]
        revision = await store.locked_revision(transaction, self.name) + 1
        rows = await store.read_items(transaction, self.name, [*coming, *going])
        stored = {identity: StoredItem.of(row) for identity, row in rows.items()}
        decision = compare_items(self.schema, stored, coming.values(), going, at or clock.now())
        if decision.rows:
            written = [{**_as_row(each), "revision": revision} for each in decision.rows]
            await store.write_items(transaction, self.name, written)
            prices = [{**each, "revision": revision} for each in decision.price_rows]
            await store.write_prices(transaction, self.name, prices)
            await store.set_revision(transaction, self.name, revision)
        return decision.changes

    async def stored(self, transaction: Transaction) -> AsyncIterator[Item]:
        """Every item that is not removed, whole, as this transaction sees it."""
        async for rows in self._rows(transaction, 0):
            for row in rows:
                if not row.removed:
                    yield row.item(self.schema)

    async def price_history(self, transaction: Transaction, identity: str) -> list[PricePoint]:
        """What an item has cost, the oldest price first."""
        points = await store.read_prices(transaction, self.name, identity)
        return [
            PricePoint(
                point.at,
                display_number("number", point.price_micros / MICROS),
                display_number("number", point.current_micros / MICROS),
            )
            for point in points
        ]

    async def follow(self) -> None:
        """Keep the index at the store's newest revision, for ever."""
        while True:
            try:
                await self.refresh()
            except Problem as problem:
                log.warning("catalogue not refreshed", catalogue=self.name, detail=problem.detail)
            await asyncio.sleep(FOLLOW_EVERY_SECONDS)

    async def refresh(self) -> None:
        """Take in what has changed in the store: all of a change set at once, and every change set before it."""
        async with self._refreshing, self._database.reading() as connection:
            now = IndexRevision(*await store.read_revision(connection, self.name))
            if now == self._standing and self._is_checked:
                return
            await self._catch_up(connection, now)
            if not self._is_checked and len(self) != await store.count_items(connection, self.name):
                # A folder that was tampered with, or belonged to a database since restored from a copy.
                log.warning("catalogue index differs from its store and is made anew", catalogue=self.name)
                self._standing = IndexRevision()
                await self._catch_up(connection, now)
            self._is_checked = True

    def close(self) -> None:
        """Let another process have the folder; this catalogue answers no more."""
        del self._engine
        if self._shelf:
            self._shelf.close()

    async def _catch_up(self, connection: Transaction, now: IndexRevision) -> None:
        if now == self._standing:
            return
        since = self._standing.revision if self._standing.leads_to(now) else 0
        if not since:
            await asyncio.to_thread(self._engine.clear)
        taken = 0
        async for rows in self._rows(connection, since):
            taken += len(rows)
            await asyncio.to_thread(self._put, rows, is_fresh=not since)
        await asyncio.to_thread(self._show, now, is_settled=taken >= MANY)
        log.info("catalogue refreshed", catalogue=self.name, revision=now.revision, rows=taken, items=len(self))

    def _put(self, rows: list[StoredItem], *, is_fresh: bool) -> None:
        present = [row.item(self.schema) for row in rows if not row.removed]
        self._engine.put(present, [] if is_fresh else [row.id for row in rows if row.removed])

    def _show(self, now: IndexRevision, *, is_settled: bool) -> None:
        self._engine.publish()
        if is_settled:
            self._engine.settle()
        if self._shelf:
            self._shelf.note(now)
        self._standing = now

    async def _rows(self, connection: Transaction, since: int) -> AsyncIterator[list[StoredItem]]:
        after = (since + 1, "") if since else (0, "")
        while rows := await store.read_changes(connection, self.name, after, BATCH):
            yield [StoredItem.of(row) for row in rows]
            after = (rows[-1].revision, rows[-1].id)


def lowest_price(points: list[PricePoint], since: datetime) -> float | None:
    """The lowest price that was to be paid at any time since then: the price in force at its start counts.

    What the European Union's Omnibus Directive (2019/2161) asks to be shown beside a reduced price.
    """
    earlier = [point for point in points if point.at <= clock.iso(since)][-1:]
    later = [point for point in points if point.at > clock.iso(since)]
    return min((point.current_price for point in (*earlier, *later)), default=None)


def _as_row(stored: StoredItem) -> dict[str, object]:
    return {name: getattr(stored, name) for name in stored.__struct_fields__}
