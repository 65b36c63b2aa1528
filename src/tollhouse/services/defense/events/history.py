"""Stored events as the feed serves them, with the deaths that providers count, and a copy in memory of stored rows."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from datetime import date, datetime, timedelta
from sys import intern
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.config.settings import Recorded, RecordedDay
from tollhouse.services.defense import store
from tollhouse.services.defense.events.event import (
    EventEntry,
    EventRecord,
    FatalityRecord,
    FeedSource,
    match_fatalities,
    read_record,
    to_event,
)
from tollhouse.services.defense.ingest.export_parser import compact, time_of_slot
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.recordings import SourceMode, recording_in, served_pools
from tollhouse.services.defense.store import Rows, Source
from tollhouse.storage.database import Transaction

Item = TypeVar("Item")


class RowChanges(Struct, frozen=True):
    """Ids of rows that were added or changed, and of rows that were removed, since the previous sync."""

    changed: set[str]
    removed: set[str]


class SyncedRows(Generic[Item]):
    """The rows of a source after a moment, decoded by `read`, in `items` by id.

    If a sync or its transaction fails, call `clear`: the next sync then reads everything.
    """

    def __init__(self, source: Source, read: Callable[[bytes], Item]) -> None:
        self._source = source
        self._read = read
        self.clear()

    def clear(self) -> None:
        self._position: tuple[str, str, int] | None = None
        self.items: dict[str, Item] = {}
        self._moments: dict[str, str] = {}

    def moment(self, row_id: str) -> str:
        """The moment that decides whether a row belongs to a window."""
        return self._moments[row_id]

    async def sync(self, connection: Transaction, pool: str, after: str) -> RowChanges:
        """Hold the rows of a pool after that moment, as the connection's snapshot has them."""
        number = await store.revision(connection, self._source.feed)
        before, self._position = self._position, (pool, after, number)
        if before is None or pool != before[0] or after < before[1] or number < before[2]:
            previous, self.items, self._moments = set(self.items), {}, {}
            read = await self._take(store.rows_after(connection, self._source, pool, after), after)
            return RowChanges(read.changed, previous - read.changed)
        removed = self._remove([row_id for row_id, moment in self._moments.items() if moment <= after])
        if number == before[2]:
            return RowChanges(set(), removed)
        read = await self._take(store.rows_changed_since(connection, self._source, pool, before[2]), after)
        removed |= read.removed
        gone = await store.removed_since(connection, self._source, pool, before[2])
        removed |= self._remove(self.items.keys() & gone)
        return RowChanges(read.changed, removed - read.changed)

    async def _take(self, batches: AsyncIterator[Rows], after: str) -> RowChanges:
        changes = RowChanges(set(), set())
        async for rows in batches:
            inside = [row for row in rows if row[1] > after]
            items = await asyncio.to_thread(lambda bodies: list(map(self._read, bodies)), [body for *_, body in inside])
            for (row_id, moment, _), item in zip(inside, items, strict=True):
                self.items[row_id], self._moments[row_id] = item, intern(moment)
            changes.changed.update(row_id for row_id, _, _ in inside)
            # A changed row may have moved out of the window.
            changes.removed.update(self._remove([row[0] for row in rows if row[1] <= after and row[0] in self.items]))
        return changes

    def _remove(self, ids: Collection[str]) -> set[str]:
        for row_id in ids:
            del self.items[row_id], self._moments[row_id]
        return set(ids)


# Fatality records of events that the feed's two windows may hold.
FATALITIES_BACK = timedelta(days=5)
# A successor may have been merged too; the limit stops cycles through reused ids.
MOST_SUCCESSIONS = 20

ENTITY_PREFIX = "entity_"

Record = TypeVar("Record", bound=EventRecord)
FatalitiesByCountry = dict[str, list[FatalityRecord]]


class _EntityNames(Struct, frozen=True, gc=False):
    id: str
    name: str
    aliases: list[str] = []


class ServedPool(Struct, frozen=True):
    """The pool that the feed serves, its newest slot whose events are published, and which recording it is, if any."""

    pool: SourceMode
    newest: str
    recording: RecordedDay | None = None

    @property
    def as_of(self) -> datetime:
        """The end of the window."""
        return time_of_slot(self.newest)

    @property
    def source(self) -> FeedSource:
        """Whether it is live data or files that were ingested once."""
        return "live" if self.pool == "provider" else "recorded"


async def served_pool(connection: Transaction, *, recorded: Recorded) -> ServedPool | None:
    """The pool to serve by the setting `recorded`, of those whose events are published. None when nothing is."""
    for pool in served_pools(recorded):
        newest = await store.published_until(connection, pool)
        if newest is not None:
            file = await store.newest_slot(connection, pool)
            return ServedPool(pool, compact(newest), recording_in(pool, file.origin if file else ""))
    return None


class SyncedEvents(Generic[Item]):
    """The served events of a pool after a moment, as `build` makes them, in `items` by id; syncs read what changed.

    If a sync or its transaction fails, call `clear`.
    """

    def __init__(self, build: Callable[[EventEntry], Item]) -> None:
        self._events: SyncedRows[Item] = SyncedRows(store.EVENTS, lambda packed: build(self.entry(packed)))
        self.clear()

    def clear(self) -> None:
        self._events.clear()
        self._fatalities: FatalitiesByCountry = {}
        self._fatalities_at: tuple[int, date] | None = None

    @property
    def items(self) -> Mapping[str, Item]:
        return self._events.items

    def entry(self, packed: bytes) -> EventEntry:
        """A stored event as served now."""
        return build_entry(packed, self._fatalities)

    async def sync(self, connection: Transaction, served: ServedPool, after: str) -> RowChanges:
        """Hold the events reported after that slot, as the connection's snapshot has them."""
        held = set(self.items)
        day = (served.as_of - FATALITIES_BACK).date()
        position = (await store.revision(connection, store.FATALITIES_FEED), day)
        if position != self._fatalities_at:
            fatalities = await read_fatalities(connection, day)
            if fatalities != self._fatalities:
                # Any event may now have other deaths.
                self._events.clear()
            self._fatalities, self._fatalities_at = fatalities, position
        changes = await self._events.sync(connection, served.pool, after)
        return RowChanges(changes.changed, held - self.items.keys())


async def entries_after(
    connection: Transaction, pool: SourceMode, after: datetime
) -> AsyncIterator[list[tuple[str, EventEntry]]]:
    """The events last reported after that moment, with their ids, in batches of some thousands in no order."""
    fatalities = await read_fatalities(connection, (after - FATALITIES_BACK).date())
    async for rows in store.rows_after(connection, store.EVENTS, pool, compact(after)):
        yield await asyncio.to_thread(
            lambda batch: [(event_id, build_entry(body, fatalities)) for event_id, _, body in batch], rows
        )


async def find_current(
    connection: Transaction, source: Source, pool: SourceMode, row_id: str
) -> tuple[bytes | None, str | None]:
    """The packed row of an id, or that of the id into which it was merged, and in that case the id; None if neither."""
    current = row_id
    for _ in range(MOST_SUCCESSIONS):
        body = (await store.bodies_by_id(connection, source, pool, [current])).get(current)
        if body is not None:
            return body, None if current == row_id else row_id
        successor = (await news.successors_of(connection, pool, [current])).get(current)
        if successor is None:
            break
        current = successor
    return None, None


async def entities_named(
    connection: Transaction, pool: SourceMode, texts: Collection[str]
) -> dict[str, frozenset[str]]:
    """The entities that each text denotes: an id and the ids it was merged into, or all with that name or alias."""
    ids = {text: {text} for text in texts if text.startswith(ENTITY_PREFIX)}
    current = {text: text for text in ids}
    for _ in range(MOST_SUCCESSIONS):
        successors = await news.successors_of(connection, pool, sorted(set(current.values())))
        current = {text: successors[entity_id] for text, entity_id in current.items() if entity_id in successors}
        if not current:
            break
        for text, entity_id in current.items():
            ids[text].add(entity_id)
    ids |= await _entity_ids_by_name(connection, pool, [text for text in texts if text not in ids])
    return {text: frozenset(denoted) for text, denoted in ids.items()}


async def _entity_ids_by_name(connection: Transaction, pool: SourceMode, texts: Collection[str]) -> dict[str, set[str]]:
    ids: dict[str, set[str]] = {text: set() for text in texts}
    texts_by_name: dict[str, list[str]] = {}
    for text in texts:
        texts_by_name.setdefault(text.casefold().strip(), []).append(text)
    if not ids:
        return ids
    async for rows in store.rows_after(connection, news.PUBLISHED["entity"], pool, ""):
        for *_, body in rows:
            entity = msgspec.json.decode(body, type=_EntityNames)
            names = {entity.name.casefold(), *(alias.casefold() for alias in entity.aliases)}
            for name in names & texts_by_name.keys():
                for text in texts_by_name[name]:
                    ids[text].add(entity.id)
    return ids


def build_entry(packed: bytes, fatalities: FatalitiesByCountry) -> EventEntry:
    """A stored event as served."""
    record = with_fatalities(read_record(packed), fatalities)
    return EventEntry(
        to_event(record), record.country_code, record.last_reported_at, record.is_relevant, record.entities
    )


def with_fatalities(record: Record, fatalities: FatalitiesByCountry) -> Record:
    """The record with the deaths of the provider's fatality record that describes the same event, if one does."""
    match = match_fatalities(record, fatalities.get(record.country_code, ()))
    if match is None:
        return record
    why = f"{match.provider} record {match.id} counts {match.best} (between {match.low} and {match.high})"
    reasons = {**record.reasons, "fatalities": why}
    return replace(record, fatalities=match.best, fatalities_basis=match.provider, reasons=reasons)


async def read_fatalities(connection: Transaction, day: date) -> FatalitiesByCountry:
    """The stored fatality records of a day or later, by country code."""
    by_country: FatalitiesByCountry = {}
    for body in await store.fatalities_since(connection, day.isoformat()):
        record = msgspec.json.decode(body, type=FatalityRecord)
        by_country.setdefault(record.country, []).append(record)
    return by_country
