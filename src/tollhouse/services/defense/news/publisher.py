"""The background task that publishes events, stories and entities together whenever reports or articles change."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.memory import return_free_memory
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.events import event_set, report
from tollhouse.services.defense.events.event import StoredEvent
from tollhouse.services.defense.events.event_set import EventChanges, EventSet
from tollhouse.services.defense.events.history import with_fatalities
from tollhouse.services.defense.events.report import Report, read_reports
from tollhouse.services.defense.events.resolver import RETENTION
from tollhouse.services.defense.ingest.batches import read_stored_pages, report_row
from tollhouse.services.defense.ingest.export_parser import compact, slot_before, slot_time
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.news.reported_article import (
    PublisherWindow,
    ReportedArticle,
    WindowChanges,
    page_of_report,
)
from tollhouse.services.defense.news.story_builder import PUBLISHED_HOURS, EventLinks, NewsSnapshot, StoryBuilder
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.store import EVENTS_FEED, NEWS_FEED, REPORTS_FEED, revision, set_revision
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database, Transaction, upsert

log = logger("news")

CHECK_EVERY_SECONDS = 1.0
# Limits memory: a day's packed stories are as large as the unpacked ones.
ROWS_PER_WRITE = 250
# An update of this many reports returns memory to the system after each part.
MANY_REPORTS = 5_000
# Stored history is resolved in steps of this length.
STEP = timedelta(hours=6)

Published = TypeVar("Published", Story, Entity)


class _SavedState(Struct):
    """The state for the next process. `version` is that of the reports."""

    version: int
    stories: bytes
    events: bytes


class _PublishedEvent(Struct, frozen=True, gc=False):
    """What this process knows of an event as it is stored: its links, and a digest of its JSON without them."""

    digest: bytes
    story_id: str | None
    entities: tuple[str, ...]


class _ModeState(Struct):
    """State of one source mode in this process: window, events, story builder, and what it last published.

    `published` are stories and entities by kind and id.
    """

    window: PublisherWindow
    events: EventSet
    builder: StoryBuilder
    published_events: dict[str, _PublishedEvent]
    as_of: datetime | None = None
    published: dict[store.Kind, Mapping[str, Story | Entity]] = {}


class _Update(Struct, frozen=True):
    """Input of an update up to `as_of`. `seen` is the total revision of all inputs, `reports_at` the reports' own."""

    state: _ModeState
    as_of: datetime
    changes: WindowChanges
    seen: int
    reports_at: int


class _Built(Struct, frozen=True):
    """What an update publishes: changed and ended events, the snapshot, and the reports that the publisher read.

    `events` are packed; their links are in `published`.
    """

    reports: list[Report]
    events: dict[str, bytes]
    published: dict[str, _PublishedEvent]
    ended: EventChanges
    snapshot: NewsSnapshot


class _Writer(Struct, frozen=True):
    """Writes what a source mode publishes after a time, at one revision of one transaction."""

    connection: Transaction
    pool: SourceMode
    after: str
    number: int

    async def write(
        self, kind: store.Kind, before: Mapping[str, Story | Entity] | None, published: Sequence[Published]
    ) -> None:
        """Upsert changed items; delete items that are no longer published, unless they only expired.

        `before` is None if this process does not know what was published.
        """
        source = store.PUBLISHED[kind]
        now = {item.id for item in published}
        if before is None:
            listed = await events_store.ids_after(self.connection, source, self.pool, self.after)
        else:
            listed = {identity for identity in before.keys() - now if compact(before[identity].last_seen) > self.after}
        await events_store.remove_at(self.connection, source, self.pool, sorted(listed - now), self.number)
        changed = [item for item in published if before is None or before.get(item.id) != item]
        for start in range(0, len(changed), ROWS_PER_WRITE):
            rows = [
                source.row(self.pool, it.id, compact(it.last_seen), msgspec.json.encode(it))
                for it in changed[start : start + ROWS_PER_WRITE]
            ]
            await events_store.write_at(self.connection, source.table, rows, self.number)


class Publisher:
    """Publishes events, stories and entities of `pools`. Only the process that runs background tasks has one."""

    def __init__(
        self, database: Database, retention_days: int, pools: Sequence[SourceMode] = ("provider", "local")
    ) -> None:
        self._database = database
        self._pools = pools
        self._retention = timedelta(days=retention_days)
        self._states: dict[SourceMode, _ModeState] = {}
        self._published_at = 0
        self._unsaved: set[SourceMode] = set()

    async def run(self) -> None:
        """Publish whenever reports, articles or fatalities change, until cancelled."""
        while True:
            try:
                for pool in self._pools:
                    await self.update(pool)
                await self.save_state()
            except Problem as problem:
                log.warning("publishing failed", detail=problem.detail)
            await asyncio.sleep(CHECK_EVERY_SECONDS)

    async def publish_stored(self, folder: Path) -> None:
        """Publish what is stored but unpublished at startup, one process at a time."""
        async with self._database.turn("first-edition", folder):
            for pool in self._pools:
                await read_stored_pages(self._database, pool)
                await self.update(pool)
            await self.save_state()

    def builder(self, pool: SourceMode) -> StoryBuilder | None:
        """The story builder of a source mode, None before its first update."""
        state = self._states.get(pool)
        return state.builder if state else None

    async def update(self, pool: SourceMode) -> None:
        """Publish a source mode again if its inputs changed."""
        try:
            await self._update(pool)
        except BaseException:
            # The state may differ from what is stored: start again from the saved state.
            self._states.pop(pool, None)
            raise

    async def _update(self, pool: SourceMode) -> None:
        async with self._database.reading() as connection:
            seen = sum(await events_store.input_revisions(connection))
            if await revision(connection, _marker(pool)) == seen:
                return
            newest = await events_store.newest_slot(connection, pool)
        if newest is not None:
            await self._resolve_history(pool, newest.slot)
        async with self._database.reading() as connection:
            seen = sum(await events_store.input_revisions(connection))
            update = await self._read_changes(connection, pool, seen)
        if update is None:
            async with self._database.writing() as connection:
                await set_revision(connection, _marker(pool), seen)
            return
        built = await asyncio.to_thread(_build, update)
        await self._publish(pool, update, built)
        stories, entities = len(built.snapshot.stories), len(built.snapshot.entities)
        log.info("published", pool=pool, events=len(update.state.events.events), stories=stories, entities=entities)
        self._unsaved.add(pool)

    async def save_state(self) -> None:
        """Save the state for the next process, after publishing, so that readers do not wait for it."""
        for pool in list(self._unsaved):
            if state := self._states.get(pool):
                packed = await asyncio.to_thread(_dump_state, state)
                async with self._database.writing() as connection:
                    await upsert(connection, store.builder_state, [{"pool": pool, "memory": packed}])
            self._unsaved.discard(pool)

    async def _resolve_history(self, pool: SourceMode, newest: str) -> None:
        """Resolve all stored reports again, in order of time, if some that changed are older than the window."""
        after = slot_before(newest, event_set.WINDOW)
        async with self._database.reading() as connection:
            resolved_at = await revision(connection, _resolved(pool))
            oldest = await events_store.oldest_change(connection, events_store.REPORTS, pool, resolved_at)
            number = await revision(connection, REPORTS_FEED)
        if oldest is None or oldest > after:
            return
        self._states.pop(pool, None)
        events, built, end = EventSet(), set[str](), ""
        while True:
            async with self._database.reading() as connection:
                first = await events_store.first_after(connection, events_store.REPORTS, pool, end)
                if first is None:
                    break
                begin, end = end, slot_before(first, -STEP)
                rows = events_store.rows_between(connection, events_store.REPORTS, pool, begin, end)
                packed = [body async for some in rows for *_, body in some]
            changes = await asyncio.to_thread(_resolve, events, packed, slot_before(first, RETENTION))
            async with self._database.writing() as connection:
                written = map(events.packed_events.read, changes.changed.values())
                await _write_events(connection, pool, written, changes, end)
            built = (built | changes.changed.keys()) - changes.removed
        async with self._database.writing() as connection:
            at = await events_store.bump_revision(connection, EVENTS_FEED)
            stored = await events_store.ids_after(connection, events_store.EVENTS, pool, "")
            await events_store.remove_at(connection, events_store.EVENTS, pool, sorted(stored - built), at)
            saved = _saved_state(await store.memory(connection, pool))
            state = _SavedState(report.VERSION, saved.stories if saved else b"", events.dump_state())
            await upsert(connection, store.builder_state, [{"pool": pool, "memory": msgspec.msgpack.encode(state)}])
            await set_revision(connection, _resolved(pool), number)
        log.info("history resolved", pool=pool, events=len(built))

    async def _read_changes(self, connection: Transaction, pool: SourceMode, seen: int) -> _Update | None:
        """The changes of a source mode since its last update, None without changes."""
        newest = await events_store.newest_slot(connection, pool)
        if newest is None:
            return None
        as_of = slot_time(newest.slot)
        assert as_of is not None, "slots name a time"
        state = await self._load_state(connection, pool, as_of)
        changes = await state.window.sync(connection, pool, as_of)
        if not changes.has_changes and as_of == state.as_of:
            return None
        return _Update(state, as_of, changes, seen, await revision(connection, REPORTS_FEED))

    async def _load_state(self, connection: Transaction, pool: SourceMode, as_of: datetime) -> _ModeState:
        """The state of a source mode; a new one if another process published, or if the stored data became older."""
        if await revision(connection, NEWS_FEED) != self._published_at:
            self._states.clear()
            self._published_at = await revision(connection, NEWS_FEED)
        state = self._states.get(pool)
        if state is None or (state.as_of and as_of < state.as_of):
            saved = _saved_state(await store.memory(connection, pool))
            events = EventSet(saved.events if saved else None)
            rows = events_store.rows_after(connection, events_store.EVENTS, pool, compact(as_of - RETENTION))
            live = [body async for some in rows for event_id, _, body in some if not saved or event_id in events]
            stored = [msgspec.json.decode(body, type=StoredEvent) for body in live]
            ids = [one.id for event in stored for one in event.reports]
            reports = await events_store.bodies_by_id(connection, events_store.REPORTS, pool, ids)
            events.restore(stored if saved else (), reports)
            builder = StoryBuilder(saved.stories if saved else None)
            published = {event.id: _published(event) for event in stored}
            self._states[pool] = state = _ModeState(PublisherWindow(events), events, builder, published)
        return state

    async def _publish(self, pool: SourceMode, update: _Update, built: _Built) -> None:
        state, as_of, snapshot = update.state, update.as_of, built.snapshot
        async with self._database.writing(lock="ingest") as connection:
            are_read = await self._write_reports(connection, pool, built.reports, update.reports_at)
            await _write_events(connection, pool, _linked(state.events, built), built.ended, compact(as_of))
            await events_store.set_published_until(connection, pool, as_of)
            number = await events_store.bump_revision(connection, NEWS_FEED)
            writer = _Writer(connection, pool, compact(as_of - timedelta(hours=PUBLISHED_HOURS)), number)
            await writer.write("story", state.published.get("story"), snapshot.stories)
            await writer.write("entity", state.published.get("entity"), snapshot.entities)
            await store.write_successors(connection, pool, "merged", dict(snapshot.merged), compact(as_of))
            old, is_seen = compact(as_of - self._retention), self._retention < events_store.WIDEST_WINDOW
            await store.delete_news_before(connection, pool, old, number, is_seen=is_seen)
            for source in (events_store.EVENTS, *store.PUBLISHED.values()):
                widest = compact(as_of - events_store.WIDEST_WINDOW)
                await events_store.forget_removed(connection, source, pool, widest)
            # Writing reports is one more revision of the reports, already included here.
            await set_revision(connection, _marker(pool), update.seen + are_read)
            await set_revision(connection, _resolved(pool), update.reports_at + are_read)
        state.published_events |= built.published
        for event_id in state.published_events.keys() - state.events.events.keys():
            del state.published_events[event_id]
        state.published = {
            "story": {story.id: story for story in snapshot.stories},
            "entity": {entity.id: entity for entity in snapshot.entities},
        }
        state.as_of = as_of
        self._published_at = number if number == self._published_at + 1 else self._published_at

    async def _write_reports(
        self, connection: Transaction, pool: SourceMode, reports: Sequence[Report], reports_at: int
    ) -> bool:
        """Write the reports that the publisher read, except those that were ingested again meanwhile."""
        if not reports:
            return False
        later = events_store.rows_changed_since(connection, events_store.REPORTS, pool, reports_at)
        ingested = {report_id async for rows in later for report_id, *_ in rows}
        number = await events_store.bump_revision(connection, REPORTS_FEED)
        rows = [report_row(pool, report) for report in reports if report.id not in ingested]
        await events_store.write_at(connection, events_store.event_report, rows, number)
        return True


def _marker(pool: SourceMode) -> str:
    return f"news:{pool}"


def _resolved(pool: SourceMode) -> str:
    return f"resolved:{pool}"


def _saved_state(packed: bytes | None) -> _SavedState | None:
    try:
        saved = msgspec.msgpack.decode(packed, type=_SavedState) if packed else None
    except msgspec.MsgspecError:
        # The state of a version before reports.
        return None
    return saved if saved and saved.version == report.VERSION else None


def _dump_state(state: _ModeState) -> bytes:
    return msgspec.msgpack.encode(_SavedState(report.VERSION, state.builder.dump_state(), state.events.dump_state()))


async def _write_events(
    connection: Transaction, pool: SourceMode, events: Iterable[StoredEvent], ended: EventChanges, as_of: str
) -> None:
    """Write changed events, delete those that ended, and record the successors of merged ids, at a new revision."""
    number = await events_store.bump_revision(connection, EVENTS_FEED)
    remaining = iter(events)
    while listed := list(islice(remaining, ROWS_PER_WRITE)):
        rows = [
            events_store.EVENTS.row(pool, it.id, min(compact(it.last_reported_at), as_of), msgspec.json.encode(it))
            for it in listed
        ]
        await events_store.write_at(connection, events_store.event, rows, number)
    await events_store.remove_at(connection, events_store.EVENTS, pool, sorted(ended.removed), number)
    await store.write_successors(connection, pool, "merged", ended.merged, as_of)
    await store.write_successors(connection, pool, "split", ended.split, as_of)


def _resolve(events: EventSet, bodies: Sequence[bytes], before: str) -> EventChanges:
    moment, packed = slot_time(before), events.packed.pack(bodies)
    assert moment is not None, "slots name a time"
    return events.update(zip(map(events.packed.read, packed), packed, strict=True), moment)


def _build(update: _Update) -> _Built:
    """Resolve the changes, add their pages to the stories, and link the events to their stories."""
    started = clock.seconds()
    state, changes, as_of = update.state, update.changes, update.as_of
    events, packed = state.events, state.events.packed
    read = [one for one in read_reports(changes.pages) if isinstance(one, Report)]
    again = {one.id for one in read}
    stored = ((report, body) for body in changes.reports if (report := packed.read(body)).id not in again)
    own = zip(read, packed.pack(list(map(msgspec.json.encode, read))), strict=True)
    pages: list[ReportedArticle] = []
    tidy = return_free_memory if len(changes.reports) >= MANY_REPORTS else lambda: None
    tidy()
    ended = events.update(_with_pages(chain(stored, own), pages), as_of - RETENTION)
    tidy()
    state.builder.add([*changes.articles, *pages])
    state.builder.expire(as_of)
    tidy()
    counted = {event_id: with_fatalities(it, state.window.fatalities) for event_id, it in events.events.items()}
    snapshot = state.builder.snapshot(as_of, counted, events.articles())
    built = _Built(read, {}, {}, ended, snapshot)
    for event_id in events.events:
        _link(event_id, snapshot.links[event_id], state, built)
    tidy()
    log.debug("built", reports=len(pages), events=len(built.events), seconds=round(clock.seconds() - started, 3))
    return built


def _with_pages(
    reports: Iterable[tuple[Report, bytes]], pages: list[ReportedArticle]
) -> Iterator[tuple[Report, bytes]]:
    """The reports; the page of each is added to `pages`, so that no report is read or held twice."""
    for one, packed in reports:
        pages.append(page_of_report(one))
        yield one, packed


def _link(event_id: str, links: EventLinks, state: _ModeState, built: _Built) -> None:
    """Add an event to what is built, with its story and entities, if anything in it changed.

    It keeps the links that it had before if its articles are in no story any more.
    """
    before, event = state.published_events.get(event_id), built.ended.changed.get(event_id)
    story_id, entities = links.story_id, links.entities
    if story_id is None and before:
        story_id, entities = before.story_id, before.entities
    if event is None and before and (before.story_id, before.entities) == (story_id, entities):
        return
    event = event or state.events.build(event_id)
    assert event is not None, "only events with a record are linked"
    published = _PublishedEvent(_digest(state.events.packed_events.unpack(event)), story_id, entities)
    if published != before:
        built.events[event_id], built.published[event_id] = event, published


def _linked(events: EventSet, built: _Built) -> Iterator[StoredEvent]:
    """The events to write, with their stories and entities."""
    for event_id, packed in built.events.items():
        links = built.published[event_id]
        yield replace(events.packed_events.read(packed), story_id=links.story_id, entities=links.entities)


def _published(event: StoredEvent) -> _PublishedEvent:
    bare = replace(event, story_id=None, entities=())
    return _PublishedEvent(_digest(msgspec.json.encode(bare)), event.story_id, event.entities)


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()
