"""The index of events of one machine: how it is brought to the state of the database.

One process of a machine writes the index, as SharedIndex has it; all processes read it. The window of 24 hours is one
index, and the day before it, of which only counts are served, another.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct
from tantivy import Document, FieldType, Occur, Order, Query, Schema, Searcher

from tollhouse import clock
from tollhouse.config.settings import RecordedDay
from tollhouse.services.defense import store
from tollhouse.services.defense.brief.capability import named_areas
from tollhouse.services.defense.brief.live_events import Coverage
from tollhouse.services.defense.events import index_rows
from tollhouse.services.defense.events.event import WINDOW_HOURS, EventEntry
from tollhouse.services.defense.events.history import (
    FATALITIES_BACK,
    FatalitiesByCountry,
    ServedPool,
    build_entry,
    read_fatalities,
)
from tollhouse.services.defense.events.index_rows import LAYOUT, RELEVANT
from tollhouse.services.defense.events.index_search import MAX_BUCKETS, EventView, count_rows, numbers
from tollhouse.services.defense.ingest.export_parser import slot_before, slot_time
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.store import Rows
from tollhouse.storage.database import Transaction
from tollhouse.storage.shared_index import SharedIndex

# Rows after which memory is freed.
ROWS_PER_COMMIT = 100_000
# Above this many rows the segments are merged at once.
MERGE_AFTER_ROWS = 20_000
SLOTS_PER_DAY = 96


class IndexState(Struct, frozen=True):
    """What an index holds: the database's `epoch`, a pool up to the slot `newest`, and the revision of its events.

    `fatalities` are checksums of fatality records by country. `previous` counts the relevant events of the day before
    by category. `is_ahead`: some stored events are later than `newest`, and are left out.
    """

    epoch: str
    pool: SourceMode
    recording: RecordedDay | None
    newest: str
    revision: int
    coverage: Coverage
    slots_read: list[str]
    fatalities: dict[str, int]
    previous: dict[str, int]
    is_ahead: bool

    @property
    def served(self) -> ServedPool:
        return ServedPool(self.pool, self.newest, self.recording)

    @property
    def begin(self) -> str:
        """The slot after which the window begins."""
        return slot_before(self.newest, timedelta(hours=WINDOW_HOURS))

    @property
    def before(self) -> str:
        """The slot after which the day before it begins."""
        return slot_before(self.newest, timedelta(hours=2 * WINDOW_HOURS))


class EventIndex:
    """The indexes in `folder`, which processes share, or in memory. One task at a time may change or reload them."""

    def __init__(self, folder: Path | None = None) -> None:
        self._window = SharedIndex(_inside(folder, "window"), index_rows.columns(), layout=LAYOUT)
        self._previous = SharedIndex(_inside(folder, "previous"), index_rows.previous_columns(), layout=LAYOUT)

    @property
    def about(self) -> bytes:
        """The encoded state; equal ones are the same publication, or its merged segments."""
        return self._window.about

    @property
    def state(self) -> IndexState | None:
        """What the shown index holds; None before the first publication."""
        return msgspec.json.decode(self.about, type=IndexState) if self.about else None

    def view(self) -> EventView:
        return EventView(self._window.searcher)

    def take_writer(self) -> bool:
        """Whether this process writes the index."""
        return self._window.take_writer() and self._previous.take_writer()

    def reload(self) -> bool:
        """Show what another process has published; whether there was something new."""
        return self._window.reload()

    def tidy(self) -> bool:
        """Show merged segments, in which searches are faster; whether there were any."""
        self._previous.tidy()
        return self._window.tidy()

    def close(self) -> None:
        self._window.close()
        self._previous.close()

    async def update(self, connection: Transaction, served: ServedPool, epoch: str) -> None:
        """Apply what changed in the database since the last publication, and publish it. Only in the writer.

        If it fails, the next call applies the changes again.
        """
        known = self.state
        fatalities = await read_fatalities(connection, (served.as_of - FATALITIES_BACK).date())
        state = await _read_state(connection, served, epoch, fatalities)
        if known and self._previous.about and _is_continued(known, state):
            update = _Update(self._window, self._previous, state, fatalities)
            await asyncio.to_thread(update.expire)
            async for rows in self._changed_rows(connection, known, state):
                await asyncio.to_thread(update.take, rows)
            removed = await store.removed_since(connection, store.EVENTS, state.pool, known.revision)
            await asyncio.to_thread(update.forget, removed)
        else:
            self._window.clear()
            self._previous.clear()
            update = _Update(self._window, self._previous, state, fatalities, is_fresh=True)
            async for rows in store.rows_after(connection, store.EVENTS, state.pool, state.before):
                await asyncio.to_thread(update.take, rows)
        await asyncio.to_thread(update.publish)

    async def _changed_rows(self, connection: Transaction, known: IndexState, state: IndexState) -> AsyncIterator[Rows]:
        """The rows that may differ from those of a former state; some are given twice."""
        async for rows in store.rows_changed_since(connection, store.EVENTS, state.pool, known.revision):
            yield rows
        if known.is_ahead:
            async for rows in store.rows_after(connection, store.EVENTS, state.pool, known.newest):
                yield rows
        countries = {code for code, _ in known.fatalities.items() ^ state.fatalities.items()}
        ids = await asyncio.to_thread(_ids_in_countries, self._window.searcher, sorted(countries)) if countries else []
        async for rows in store.rows_by_id(connection, store.EVENTS, state.pool, ids):
            yield rows


def window_row(entry: EventEntry, slot: str) -> dict[str, Any]:
    """The row of a served event, with the capabilities that it names if it is a battle."""
    event = entry.event
    named = named_areas(event) if event.category == "Battles" else {}
    areas = [*named, *(f"{area}|{word}" for area, words in named.items() for word in words)]
    return index_rows.index_row(entry, int(slot or 0), areas)


class _Update:
    """One change of both indexes to a state. Rows are those of a stored event: id, slot and record."""

    def __init__(
        self,
        window: SharedIndex,
        previous: SharedIndex,
        state: IndexState,
        fatalities: FatalitiesByCountry,
        *,
        is_fresh: bool = False,
    ) -> None:
        self._window = window
        self._previous = previous
        self._state = state
        self._fatalities = fatalities
        self._is_fresh = is_fresh
        self._is_ahead = False
        self._taken: set[str] = set()
        # By category, the relevant rows added to the day before; and the category of each that left the window for it.
        self._added: Counter[str] = Counter()
        self._moved: dict[str, str] = {}

    def expire(self) -> None:
        """Move events that left the window to the day before it, and delete those that left that."""
        state, columns = self._state, index_rows.columns()
        searcher = self._window.searcher
        ended = _up_to(columns, state.begin)
        count = count_rows(searcher, ended)
        addresses = [address for _, address in _by_slot(searcher, ended, count)]
        slots = numbers(searcher, "slot", addresses)
        view = EventView(searcher)
        for address, slot in zip(addresses, slots, strict=True):
            entry = view.entry(address)
            # An earlier attempt may have moved it.
            self._previous.writer.delete_documents_by_term("id", entry.event.id)
            self._moved[entry.event.id] = ""
            if slot > int(state.before):
                self._add(self._previous, index_rows.previous_row(entry, slot))
                self._moved[entry.event.id] = entry.event.category if entry.is_relevant else ""
        if count:
            self._window.writer.delete_documents_by_query(ended)
        self._previous.writer.delete_documents_by_query(_up_to(index_rows.previous_columns(), state.before))

    def take(self, rows: Rows) -> None:
        """Replace the rows with these ids."""
        rows = [row for row in rows if row[0] not in self._taken]
        state, former = self._state, len(self._taken) // ROWS_PER_COMMIT
        self.forget([row_id for row_id, _, _ in rows])
        before, begin = state.before, state.begin
        for _, slot, body in rows:
            if before < slot <= state.newest:
                entry = build_entry(body, self._fatalities)
                if slot > begin:
                    self._add(self._window, window_row(entry, slot))
                else:
                    self._add(self._previous, index_rows.previous_row(entry, int(slot)))
                    self._added[entry.event.category] += entry.is_relevant
            self._is_ahead |= slot > state.newest
        if len(self._taken) // ROWS_PER_COMMIT > former:
            self._window.commit()
            self._previous.commit()

    def forget(self, ids: Sequence[str]) -> None:
        """Remove the rows with these ids, which later rows do not replace."""
        self._taken.update(ids)
        if self._is_fresh:
            return
        for row_id in ids:
            self._window.writer.delete_documents_by_term("id", row_id)
            self._previous.writer.delete_documents_by_term("id", row_id)
            self._moved.pop(row_id, None)

    def publish(self) -> None:
        counts = self._count_previous()
        # The window's state is the one that counts: if this ends in between, its changes are applied again.
        self._previous.publish(msgspec.json.encode(counts))
        state = msgspec.structs.replace(self._state, previous=counts, is_ahead=self._is_ahead)
        self._window.publish(msgspec.json.encode(state))
        if len(self._taken) >= MERGE_AFTER_ROWS:
            self._previous.merge_segments()
            self._window.merge_segments()

    def _count_previous(self) -> dict[str, int]:
        """The relevant events of the day before by category: those published, without the ones that leave."""
        counts = self._added + Counter(filter(None, self._moved.values()))
        if not self._is_fresh:
            columns, searcher = index_rows.previous_columns(), self._previous.searcher
            ids = Query.term_set_query(columns, "id", [*self._taken, *self._moved])
            leaving = Query.boolean_query([(Occur.Should, ids), (Occur.Should, _up_to(columns, self._state.before))])
            relevant = Query.term_query(columns, "relevance", RELEVANT, index_option="basic")
            query = Query.boolean_query([(Occur.Must, relevant), (Occur.Must, leaving)])
            counts.update(msgspec.json.decode(self._previous.about, type=dict[str, int]))
            counts.subtract(_count_values(searcher, query, "category"))
        return {category: count for category, count in counts.items() if count}

    def _add(self, index: SharedIndex, row: dict[str, Any]) -> None:
        columns = index_rows.columns() if index is self._window else index_rows.previous_columns()
        index.writer.add_document(Document.from_dict(row, columns))


async def _read_state(
    connection: Transaction, served: ServedPool, epoch: str, fatalities: FatalitiesByCountry
) -> IndexState:
    begin = slot_before(served.newest, timedelta(hours=WINDOW_HOURS))
    before = slot_before(served.newest, timedelta(hours=2 * WINDOW_HOURS))
    slots = await store.slots_between(connection, served.pool, begin, served.newest)
    earlier = await store.slots_between(connection, served.pool, before, begin)
    return IndexState(
        epoch=epoch,
        pool=served.pool,
        recording=served.recording,
        newest=served.newest,
        revision=await store.revision(connection, store.EVENTS_FEED),
        coverage=Coverage(len(slots) / SLOTS_PER_DAY, len(earlier) / SLOTS_PER_DAY),
        slots_read=[clock.iso(moment) for slot in sorted(slots) if (moment := slot_time(slot))],
        fatalities={country: crc32(msgspec.json.encode(records)) for country, records in fatalities.items()},
        previous={},
        is_ahead=False,
    )


def _is_continued(known: IndexState, state: IndexState) -> bool:
    """Whether changes lead from one state to the other, of the same window or an overlapping later one."""
    return (
        (known.epoch, known.pool) == (state.epoch, state.pool)
        and known.revision <= state.revision
        and state.begin < known.newest <= state.newest
    )


def _count_values(searcher: Searcher, query: Query, column: str) -> dict[Any, int]:
    result = searcher.aggregate(query, {"=": {"terms": {"field": column, "size": MAX_BUCKETS}}})["="]["buckets"]
    return {each["key"]: int(each["doc_count"]) for each in result}


def _ids_in_countries(searcher: Searcher, codes: Sequence[str]) -> list[str]:
    query = Query.term_set_query(index_rows.columns(), "country_code", list(codes))
    addresses = [address for _, address in _by_slot(searcher, query, searcher.num_docs)]
    return [index_rows.event_id(number) for number in numbers(searcher, "id_number", addresses)]


def _by_slot(searcher: Searcher, query: Query, limit: int) -> list[tuple[int, Any]]:
    """Matching rows, the latest slot first."""
    return searcher.search(query, limit, count=False, order_by_field="slot", order=Order.Desc).hits if limit else []


def _up_to(columns: Schema, slot: str) -> Query:
    return Query.range_query(columns, "slot", FieldType.Integer, None, int(slot))


def _inside(folder: Path | None, name: str) -> Path | None:
    return folder / name if folder else None
