"""Story publisher."""

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
from tollhouse.services.defense.news.article_import import keep
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.news.reported_article import ReportedArticle, report_event_page
from tollhouse.services.defense.news.story_builder import PUBLISHED_HOURS, NewsSnapshot, StoryBuilder
from tollhouse.services.defense.store import (
    ARTICLES_FEED,
    EVENTS_FEED,
    FATALITIES_FEED,
    NEWS_FEED,
    WIDEST_WINDOW,
    bump_revision,
    revision,
    set_revision,
)
from tollhouse.services.defense.stories.clusterer import WINDOW
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database, Transaction

_NO_REASONS: dict[str, str] = {}
_NO_ROWS: list[str] = []


class Seen(Struct, frozen=True):
    """What a look found: articles that came or changed, and events that came, changed or left."""

    reports: list[ReportedArticle]
    is_another: bool


class ClusteringWindow:
    """One pool's events and articles of the clustering window. Of no use after a look that failed."""

    def __init__(self) -> None:
        self._events: SyncedRows[EventRecord] = SyncedRows(events_store.EVENTS, self._record)
        self._articles_at: int | None = None
        self._counted: FatalitiesByCountry = {}
        self._counted_at: tuple[int, str] | None = None
        self._linked: set[str] = set()
        self._unlinked: set[str] = set()

    @property
    def events(self) -> Mapping[str, EventRecord]:
        """The events by id, without their rows, and without reasons that no story is told from."""
        return self._events.items

    @property
    def articles_at(self) -> int:
        """The revision up to which articles were read."""
        return self._articles_at or 0

    async def look(self, connection: Transaction, pool: SourceMode, as_of: datetime) -> Seen:
        """Take in what changed in the 36 hours up to `as_of`."""
        after = compact(as_of - WINDOW)
        counted_anew = await self._look_at_deaths(connection, (as_of - WINDOW - FATALITIES_BACK).date().isoformat())
        events = await self._events.sync(connection, pool, after)
        self._unlinked = (self._unlinked | events.changed) - events.removed
        reports = await self._look_at_articles(connection, pool, after)
        self._link(reports)
        return Seen(reports, counted_anew or bool(reports or events.changed or events.removed))

    def unreported(self, newest: str, reports: Iterable[ReportedArticle], room: StoryBuilder) -> list[ReportedArticle]:
        """The pages of events up to the slot `newest` that neither these nor the room's reports link to their event."""
        here = {report.article.id: report for report in reports}
        pages = []
        for identity in sorted(self._unlinked):
            if self._events.moment(identity) <= newest:
                page = article_id(self.events[identity].url)
                known = here.get(page) or room.report(page)
                pages.append(known.linked_to(identity) if known else report_event_page(self.events[identity]))
        return pages

    def wrote(self, reports: Iterable[ReportedArticle], number: int) -> None:
        """Say that the desk itself stored these at that revision of the articles, if any had to be."""
        self._link(reports)
        if number == self.articles_at + 1:
            self._articles_at = number

    def _link(self, reports: Iterable[ReportedArticle]) -> None:
        self._linked.update(report.event_id for report in reports if report.event_id)
        self._linked &= self.events.keys()
        self._unlinked -= self._linked

    async def _look_at_articles(self, connection: Transaction, pool: SourceMode, after: str) -> list[ReportedArticle]:
        before, self._articles_at = self._articles_at, await events_store.revision(connection, ARTICLES_FEED)
        if before is None:
            found = events_store.rows_after(connection, store.ARTICLES, pool, after)
        else:
            found = events_store.rows_changed_since(connection, store.ARTICLES, pool, before)
        reports = []
        async for rows in found:
            reports += [msgspec.json.decode(body, type=ReportedArticle) for _, moment, body in rows if moment > after]
        return reports

    async def _look_at_deaths(self, connection: Transaction, day: str) -> bool:
        """Whether others are counted than before."""
        number = await events_store.revision(connection, FATALITIES_FEED)
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
# A day's stories packed all at once would weigh as much as they do unpacked.
WRITTEN_AT_ONCE = 1_000

Told = TypeVar("Told", Story, Entity)


class _Desk(Struct):
    """What this process knows of one pool: its window, its newsroom, and what it last told, by kind and id."""

    window: ClusteringWindow
    room: StoryBuilder
    as_of: datetime | None = None
    told: dict[store.Kind, Mapping[str, Story | Entity]] = {}


class _Look(Struct, frozen=True):
    """What a desk found up to `as_of`: the articles that came or changed; `seen` is the number of all it looked at."""

    desk: _Desk
    as_of: datetime
    reports: Sequence[ReportedArticle]
    seen: int


class _Edit(Struct, frozen=True):
    """A transaction that writes at one revision what a pool tells after the moment `after`."""

    connection: Transaction
    pool: SourceMode
    after: str
    number: int

    async def write(
        self, kind: store.Kind, before: Mapping[str, Story | Entity] | None, told: Sequence[Told]
    ) -> list[Told]:
        """Write what is told otherwise than before, drop what is no longer told; answers with the former.

        What only grew too old is not dropped. `before` is None for who does not know what was told.
        """
        now = {item.id for item in told}
        if before is None:
            listed = await events_store.ids_after(self.connection, store.PUBLISHED[kind], self.pool, self.after)
        else:
            listed = {identity for identity in before.keys() - now if compact(before[identity].last_seen) > self.after}
        await store.remove_published(self.connection, kind, self.pool, sorted(listed - now), self.number)
        changed = [item for item in told if before is None or before.get(item.id) != item]
        for start in range(0, len(changed), WRITTEN_AT_ONCE):
            rows = [_row(self.pool, item) for item in changed[start : start + WRITTEN_AT_ONCE]]
            await store.write_published(self.connection, kind, rows, self.number)
        return changed


class StoryPublisher:
    """One process's newsroom; only the one that does the background work, or is alone, has one."""

    def __init__(self, database: Database, retention_days: int) -> None:
        self._database = database
        self._retention = timedelta(days=retention_days)
        self._desks: dict[SourceMode, _Desk] = {}
        self._told_at = 0
        self._unremembered: set[SourceMode] = set()

    async def work(self) -> None:
        """Tell the news anew whenever events or articles have changed, for ever."""
        while True:
            try:
                for pool in ("provider", "local"):
                    await self.update(pool)
                await self.remember()
            except Problem as problem:
                log.warning("news not told", detail=problem.detail)
            await asyncio.sleep(CHECK_EVERY_SECONDS)

    async def publish_stored(self, folder: Path) -> None:
        """Tell what is stored already, one process at a time: for a start that finds untold events."""
        async with self._database.turn("first-edition", folder):
            for pool in ("provider", "local"):
                await self.update(pool)
            await self.remember()

    def room(self, pool: SourceMode) -> StoryBuilder | None:
        """The pool's newsroom, once it has told anything."""
        desk = self._desks.get(pool)
        return desk.room if desk else None

    async def update(self, pool: SourceMode) -> None:
        """Tell the pool's news anew if it has changed since they were last told."""
        try:
            await self._update(pool)
        except BaseException:
            # What this process believes to be told is not: begin again from what is remembered.
            self._desks.pop(pool, None)
            raise

    async def _update(self, pool: SourceMode) -> None:
        async with self._database.reading() as connection:
            seen = await _seen(connection)
            if await revision(connection, _marker(pool)) == seen:
                return
            look = await self._look(connection, pool, seen)
        if look is None:
            await self._mark(pool, seen)
            return
        fresh, edition = await asyncio.to_thread(_tell, look)
        await self._publish(pool, look, fresh, edition)
        log.info("news told", pool=pool, stories=len(edition.stories), entities=len(edition.entities))
        self._unremembered.add(pool)

    async def remember(self) -> None:
        """Keep what the newsrooms know, for the next process: after the news are out, because nobody waits for it."""
        for pool in list(self._unremembered):
            if room := self.room(pool):
                memory = await asyncio.to_thread(room.remembered)
                async with self._database.writing() as connection:
                    await store.write_memory(connection, pool, memory)
            self._unremembered.discard(pool)

    async def _look(self, connection: Transaction, pool: SourceMode, seen: int) -> _Look | None:
        """What there is to tell anew of a pool; None where nothing changed."""
        newest = await events_store.newest_slot(connection, pool)
        if newest is None:
            return None
        as_of = slot_time(newest.slot)
        assert as_of is not None, "a slot's name is a moment"
        desk = await self._desk(connection, pool, as_of)
        found = await desk.window.look(connection, pool, as_of)
        return _Look(desk, as_of, found.reports, seen) if found.is_another or as_of != desk.as_of else None

    async def _desk(self, connection: Transaction, pool: SourceMode, as_of: datetime) -> _Desk:
        """The pool's desk; a new one where somebody else told the news or what is stored is older than what we know."""
        if await revision(connection, NEWS_FEED) != self._told_at:
            self._desks.clear()
            self._told_at = await revision(connection, NEWS_FEED)
        desk = self._desks.get(pool)
        if desk is None or (desk.as_of and as_of < desk.as_of):
            desk = self._desks[pool] = _Desk(ClusteringWindow(), StoryBuilder(await store.memory(connection, pool)))
        return desk

    async def _publish(
        self, pool: SourceMode, look: _Look, fresh: Sequence[ReportedArticle], edition: NewsSnapshot
    ) -> None:
        desk, as_of = look.desk, look.as_of
        async with self._database.writing(lock="articles") as connection:
            _, kept_at = await keep(connection, pool, fresh)
            number = await bump_revision(connection, NEWS_FEED)
            edit = _Edit(connection, pool, compact(as_of - timedelta(hours=PUBLISHED_HOURS)), number)
            changed = await edit.write("story", desk.told.get("story"), edition.stories)
            told = {event_id: story.id for story in changed for event_id in story.event_ids}
            await store.write_stories_of_events(connection, pool, told)
            await edit.write("entity", desk.told.get("entity"), edition.entities)
            for kind, pairs in (("merged", edition.merged), ("split", edition.split)):
                await store.write_successors(connection, pool, kind, dict(pairs), compact(as_of))
            old, is_seen = compact(as_of - self._retention), self._retention < WIDEST_WINDOW
            await store.delete_news_before(connection, pool, old, number, is_seen=is_seen)
            # Our own pages are one change of the articles that we know already.
            await set_revision(connection, _marker(pool), look.seen + bool(kept_at))
        desk.window.wrote(fresh, kept_at)
        desk.told = {"story": _by_id(edition.stories), "entity": _by_id(edition.entities)}
        desk.as_of = as_of
        self._told_at = number if number == self._told_at + 1 else self._told_at

    async def _mark(self, pool: SourceMode, seen: int) -> None:
        async with self._database.writing() as connection:
            await set_revision(connection, _marker(pool), seen)


async def _seen(connection: Transaction) -> int:
    """One number for everything that news are made of."""
    return sum([await revision(connection, feed) for feed in (EVENTS_FEED, ARTICLES_FEED, FATALITIES_FEED)])


def _marker(pool: SourceMode) -> str:
    return f"news:{pool}"


def _by_id(told: Sequence[Told]) -> dict[str, Told]:
    return {item.id: item for item in told}


def _row(pool: SourceMode, item: Story | Entity) -> dict[str, object]:
    return {"pool": pool, "id": item.id, "last_seen": compact(item.last_seen), "body": msgspec.json.encode(item)}


def _tell(look: _Look) -> tuple[list[ReportedArticle], NewsSnapshot]:
    """The pages of events that nobody reported yet, and the edition with them."""
    begun = clock.seconds()
    room, window = look.desk.room, look.desk.window
    fresh = window.unreported(compact(look.as_of), look.reports, room)
    taken = room.take([*look.reports, *fresh])
    room.expire(look.as_of)
    edition = room.edition(look.as_of, window.events)
    log.debug("edition made", taken=taken, seconds=round(clock.seconds() - begun, 3))
    return fresh, edition
