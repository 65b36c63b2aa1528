"""Publish stories and entities: read what changed, build the stories again, and write the differences."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.article import article_id
from tollhouse.services.defense.events.event import EventRecord, read_record
from tollhouse.services.defense.events.history import (
    FATALITIES_BACK,
    FatalitiesByCountry,
    fatalities_by_country,
    with_fatalities,
)
from tollhouse.services.defense.events.sync import SyncedRows
from tollhouse.services.defense.ingest.batches import SourceMode, compact, slot_time
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.news.reported_article import ReportedArticle, report_event_page, store_reports
from tollhouse.services.defense.news.story_builder import PUBLISHED_HOURS, NewsSnapshot, StoryBuilder
from tollhouse.services.defense.store import NEWS_FEED, revision, set_revision
from tollhouse.services.defense.stories.clusterer import WINDOW
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database, Transaction

_NO_REASONS: dict[str, str] = {}
_NO_ROWS: list[str] = []


class WindowChanges(Struct, frozen=True):
    """Changes in the window: new or changed articles, and whether events or fatalities changed too."""

    reports: list[ReportedArticle]
    has_changes: bool


class ClusteringWindow:
    """The events and articles of one source mode in the clustering window. Discard it after a failed sync."""

    def __init__(self) -> None:
        self._events: SyncedRows[EventRecord] = SyncedRows(events_store.EVENTS, self._record)
        self._articles_at: int | None = None
        self._counted: FatalitiesByCountry = {}
        self._counted_at: tuple[int, str] | None = None
        self._linked: set[str] = set()
        self._unlinked: set[str] = set()

    @property
    def events(self) -> Mapping[str, EventRecord]:
        """The events by id, without row ids and reasons, which stories do not use."""
        return self._events.items

    @property
    def articles_at(self) -> int:
        """The revision up to which articles were read."""
        return self._articles_at or 0

    async def sync(self, connection: Transaction, pool: SourceMode, as_of: datetime) -> WindowChanges:
        """Read what changed in the 36 hours up to `as_of`."""
        after = compact(as_of - WINDOW)
        has_new_fatalities = await self._sync_fatalities(
            connection, (as_of - WINDOW - FATALITIES_BACK).date().isoformat()
        )
        events = await self._events.sync(connection, pool, after)
        self._unlinked = (self._unlinked | events.changed) - events.removed
        reports = await self._sync_articles(connection, pool, after)
        self._link(reports)
        return WindowChanges(reports, has_new_fatalities or bool(reports or events.changed or events.removed))

    def unreported(
        self, newest: str, reports: Iterable[ReportedArticle], builder: StoryBuilder
    ) -> list[ReportedArticle]:
        """The pages of events up to a slot that neither these reports nor the builder's link to their event."""
        here = {report.article.id: report for report in reports}
        pages = []
        for identity in sorted(self._unlinked):
            if self._events.moment(identity) <= newest:
                page = article_id(self.events[identity].url)
                known = here.get(page) or builder.report(page)
                pages.append(known.linked_to(identity) if known else report_event_page(self.events[identity]))
        return pages

    def skip_own_revision(self, reports: Iterable[ReportedArticle], number: int) -> None:
        """Record reports that the publisher wrote itself at a revision, so that they are not read again."""
        self._link(reports)
        if number == self.articles_at + 1:
            self._articles_at = number

    def _link(self, reports: Iterable[ReportedArticle]) -> None:
        self._linked.update(report.event_id for report in reports if report.event_id)
        self._linked &= self.events.keys()
        self._unlinked -= self._linked

    async def _sync_articles(self, connection: Transaction, pool: SourceMode, after: str) -> list[ReportedArticle]:
        before, self._articles_at = self._articles_at, await revision(connection, events_store.ARTICLES_FEED)
        if before is None:
            changes = events_store.rows_after(connection, store.ARTICLES, pool, after)
        else:
            changes = events_store.rows_changed_since(connection, store.ARTICLES, pool, before)
        reports = []
        async for rows in changes:
            reports += [msgspec.json.decode(body, type=ReportedArticle) for _, moment, body in rows if moment > after]
        return reports

    async def _sync_fatalities(self, connection: Transaction, day: str) -> bool:
        """Read fatality records again if they changed; whether they did."""
        number = await revision(connection, events_store.FATALITIES_FEED)
        if (number, day) == self._counted_at:
            return False
        before, self._counted_at = self._counted, (number, day)
        self._counted = fatalities_by_country(await events_store.fatalities_since(connection, day))
        if before == self._counted:
            return False
        self._events.clear()
        return True

    def _record(self, packed: bytes) -> EventRecord:
        record = with_fatalities(read_record(packed), self._counted)
        return replace(record, reasons=_NO_REASONS, row_ids=_NO_ROWS)


log = logger("news")

CHECK_EVERY_SECONDS = 1.0
# Limits memory: a day's packed stories are as large as the unpacked ones.
ROWS_PER_WRITE = 1_000

Published = TypeVar("Published", Story, Entity)


class _ModeState(Struct):
    """State of one source mode in this process: window, story builder, and what it last published, by kind and id."""

    window: ClusteringWindow
    builder: StoryBuilder
    as_of: datetime | None = None
    published: dict[store.Kind, Mapping[str, Story | Entity]] = {}


class _Update(Struct, frozen=True):
    """Input of an update up to `as_of`: new or changed articles. `seen` is the total revision of all inputs."""

    state: _ModeState
    as_of: datetime
    reports: Sequence[ReportedArticle]
    seen: int


class _Writer(Struct, frozen=True):
    """Writes what a source mode publishes after a time, at one revision of one transaction."""

    connection: Transaction
    pool: SourceMode
    after: str
    number: int

    async def write(
        self, kind: store.Kind, before: Mapping[str, Story | Entity] | None, published: Sequence[Published]
    ) -> list[Published]:
        """Upsert changed items and return them; delete items that are no longer published, unless they only expired.

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
            rows: list[dict[str, object]] = [
                {"pool": self.pool, "id": it.id, "last_seen": compact(it.last_seen), "body": msgspec.json.encode(it)}
                for it in changed[start : start + ROWS_PER_WRITE]
            ]
            await events_store.write_at(self.connection, source.table, rows, self.number)
        return changed


class StoryPublisher:
    """Publishes stories and entities. Only the process that runs background tasks has one."""

    def __init__(self, database: Database, retention_days: int) -> None:
        self._database = database
        self._retention = timedelta(days=retention_days)
        self._states: dict[SourceMode, _ModeState] = {}
        self._published_at = 0
        self._unsaved: set[SourceMode] = set()

    async def run(self) -> None:
        """Publish whenever events, articles or fatalities change, until cancelled."""
        while True:
            try:
                for pool in ("provider", "local"):
                    await self.update(pool)
                await self.save_state()
            except Problem as problem:
                log.warning("publishing stories failed", detail=problem.detail)
            await asyncio.sleep(CHECK_EVERY_SECONDS)

    async def publish_stored(self, folder: Path) -> None:
        """Publish what is stored but unpublished at startup, one process at a time."""
        async with self._database.turn("first-edition", folder):
            for pool in ("provider", "local"):
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
            inputs = (events_store.EVENTS_FEED, events_store.ARTICLES_FEED, events_store.FATALITIES_FEED)
            seen = sum([await revision(connection, feed) for feed in inputs])
            if await revision(connection, _marker(pool)) == seen:
                return
            update = await self._read_changes(connection, pool, seen)
        if update is None:
            async with self._database.writing() as connection:
                await set_revision(connection, _marker(pool), seen)
            return
        added, snapshot = await asyncio.to_thread(_build, update)
        await self._publish(pool, update, added, snapshot)
        log.info("stories published", pool=pool, stories=len(snapshot.stories), entities=len(snapshot.entities))
        self._unsaved.add(pool)

    async def save_state(self) -> None:
        """Save the builders' state for the next process, after publishing, so that readers do not wait for it."""
        for pool in list(self._unsaved):
            if builder := self.builder(pool):
                state = await asyncio.to_thread(builder.dump_state)
                async with self._database.writing() as connection:
                    await store.write_memory(connection, pool, state)
            self._unsaved.discard(pool)

    async def _read_changes(self, connection: Transaction, pool: SourceMode, seen: int) -> _Update | None:
        """The changes of a source mode since its last update, None without changes."""
        newest = await events_store.newest_slot(connection, pool)
        if newest is None:
            return None
        as_of = slot_time(newest.slot)
        assert as_of is not None, "slots name a time"
        state = await self._load_state(connection, pool, as_of)
        changes = await state.window.sync(connection, pool, as_of)
        return _Update(state, as_of, changes.reports, seen) if changes.has_changes or as_of != state.as_of else None

    async def _load_state(self, connection: Transaction, pool: SourceMode, as_of: datetime) -> _ModeState:
        """The state of a source mode; a new one if another process published, or if the stored data became older."""
        if await revision(connection, NEWS_FEED) != self._published_at:
            self._states.clear()
            self._published_at = await revision(connection, NEWS_FEED)
        state = self._states.get(pool)
        if state is None or (state.as_of and as_of < state.as_of):
            state = self._states[pool] = _ModeState(
                ClusteringWindow(), StoryBuilder(await store.memory(connection, pool))
            )
        return state

    async def _publish(
        self, pool: SourceMode, update: _Update, added: Sequence[ReportedArticle], snapshot: NewsSnapshot
    ) -> None:
        state, as_of = update.state, update.as_of
        async with self._database.writing(lock="articles") as connection:
            _, kept_at = await store_reports(connection, pool, added)
            number = await events_store.bump_revision(connection, NEWS_FEED)
            writer = _Writer(connection, pool, compact(as_of - timedelta(hours=PUBLISHED_HOURS)), number)
            changed = await writer.write("story", state.published.get("story"), snapshot.stories)
            story_ids = {event_id: story.id for story in changed for event_id in story.event_ids}
            await store.write_stories_of_events(connection, pool, story_ids)
            await writer.write("entity", state.published.get("entity"), snapshot.entities)
            for kind, pairs in (("merged", snapshot.merged), ("split", snapshot.split)):
                await store.write_successors(connection, pool, kind, dict(pairs), compact(as_of))
            old, is_seen = compact(as_of - self._retention), self._retention < events_store.WIDEST_WINDOW
            await store.delete_news_before(connection, pool, old, number, is_seen=is_seen)
            # Writing the added pages is one more revision of the articles, already included here.
            await set_revision(connection, _marker(pool), update.seen + bool(kept_at))
        state.window.skip_own_revision(added, kept_at)
        state.published = {
            "story": {story.id: story for story in snapshot.stories},
            "entity": {entity.id: entity for entity in snapshot.entities},
        }
        state.as_of = as_of
        self._published_at = number if number == self._published_at + 1 else self._published_at


def _marker(pool: SourceMode) -> str:
    return f"news:{pool}"


def _build(update: _Update) -> tuple[list[ReportedArticle], NewsSnapshot]:
    """Add the changes to the builder; return the added pages of events and the new snapshot."""
    started = clock.seconds()
    builder, window = update.state.builder, update.state.window
    added = window.unreported(compact(update.as_of), update.reports, builder)
    count = builder.add([*update.reports, *added])
    builder.expire(update.as_of)
    snapshot = builder.snapshot(update.as_of, window.events)
    log.debug("stories built", articles=count, seconds=round(clock.seconds() - started, 3))
    return added, snapshot
