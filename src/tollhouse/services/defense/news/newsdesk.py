"""Keeps the told stories and entities in step with what is stored: the newsroom's only way to the database."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.event import EventRecord
from tollhouse.services.defense.events_stored import COUNTED_BACK, Counted, by_country, with_fatalities
from tollhouse.services.defense.ingest.slots import Pool, compact, slot_time
from tollhouse.services.defense.links import article_id
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.news.newsroom import TOLD_HOURS, Edition, Newsroom
from tollhouse.services.defense.news.pages import packed_article
from tollhouse.services.defense.news.reported import Reported, reported_by_event
from tollhouse.services.defense.store import ARTICLES_FEED, EVENTS_FEED, FATALITIES_FEED, NEWS_FEED
from tollhouse.services.defense.stories.cluster import WINDOW
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database, Transaction

log = logger("news")

CHECK_EVERY_SECONDS = 1.0

Told = TypeVar("Told", Story, Entity)
Kept = EventRecord | Reported
Read = TypeVar("Read", EventRecord, Reported)


class _Stored(Struct):
    """What the database holds of the clustering window."""

    as_of: datetime
    events: dict[str, EventRecord]
    reports: list[Reported]


class Newsdesk:
    """One process's newsroom; only the one that does the background work, or is alone, has one."""

    def __init__(self, database: Database, retention_days: int) -> None:
        self._database = database
        self._retention = timedelta(days=retention_days)
        self._rooms: dict[Pool, Newsroom] = {}
        self._digests: dict[str, bytes] = {}
        self._unremembered: set[Pool] = set()
        self._read: dict[Pool, dict[bytes, Kept]] = {}

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

    async def first_edition(self, folder: Path) -> None:
        """Tell what is stored already, one process at a time: for a start that finds untold events."""
        async with self._database.turn("first-edition", folder):
            for pool in ("provider", "local"):
                await self.update(pool)
            await self.remember()

    def room(self, pool: Pool) -> Newsroom | None:
        """The pool's newsroom, once it has told anything."""
        return self._rooms.get(pool)

    async def update(self, pool: Pool) -> None:
        """Tell the pool's news anew if it has changed since they were last told."""
        async with self._database.reading() as connection:
            seen = await _seen(connection)
            if await events_store.revision(connection, _marker(pool)) == seen:
                return
            stored = await self._stored(connection, pool)
            room = self._rooms.get(pool) or Newsroom(await store.memory(connection, pool))
        if stored is None:
            await self._mark(pool, seen)
            return
        self._rooms[pool] = room
        fresh = await asyncio.to_thread(_not_reported, stored)
        edition = await asyncio.to_thread(_tell, room, [*stored.reports, *fresh], stored)
        try:
            await self._publish(pool, stored.as_of, fresh, edition, seen)
        except BaseException:
            # What this process believes to be told is not: begin again from what is remembered.
            self._rooms.pop(pool)
            self._digests.clear()
            raise
        log.info("news told", pool=pool, stories=len(edition.stories), entities=len(edition.entities))
        self._unremembered.add(pool)

    async def remember(self) -> None:
        """Keep what the newsrooms know, for the next process: after the news are out, because nobody waits for it."""
        for pool in list(self._unremembered):
            if room := self._rooms.get(pool):
                memory = await asyncio.to_thread(room.remembered)
                async with self._database.writing() as connection:
                    await store.write_memory(connection, pool, memory)
            self._unremembered.discard(pool)

    async def _stored(self, connection: Transaction, pool: Pool) -> _Stored | None:
        newest = await events_store.newest_slot(connection, pool)
        if newest is None:
            return None
        as_of = slot_time(newest.slot)
        assert as_of is not None, "a slot's name is a moment"
        since = compact(as_of - WINDOW)
        events = await events_store.records_between(connection, pool, since, newest.slot)
        articles = await store.articles_since(connection, pool, since)
        counted = await events_store.fatalities_since(connection, (as_of - WINDOW - COUNTED_BACK).date().isoformat())
        return await asyncio.to_thread(self._decoded, pool, as_of, events, articles, by_country(counted))

    def _decoded(
        self, pool: Pool, as_of: datetime, events: Iterable[bytes], articles: Iterable[bytes], counted: Counted
    ) -> _Stored:
        """Only what has changed since the last time is decoded."""
        before: dict[bytes, Kept] = self._read.get(pool, {})
        now: dict[bytes, Kept] = {}
        records = [_once(before, now, packed, EventRecord) for packed in events]
        reports = [_once(before, now, packed, Reported) for packed in articles]
        self._read[pool] = now
        return _Stored(as_of, {record.id: with_fatalities(record, counted) for record in records}, reports)

    async def _publish(
        self, pool: Pool, as_of: datetime, fresh: Sequence[Reported], edition: Edition, seen: int
    ) -> None:
        moment = compact(as_of)
        async with self._database.writing(lock="news") as connection:
            await store.write_articles(connection, [packed_article(pool, report) for report in fresh])
            changed = await self._write(connection, "story", pool, as_of, edition.stories)
            told = {event_id: story.id for story in changed for event_id in story.event_ids}
            await store.write_stories_of_events(connection, pool, told)
            await self._write(connection, "entity", pool, as_of, edition.entities)
            for kind, pairs in (("merged", edition.merged), ("split", edition.split)):
                await store.write_successors(connection, pool, kind, dict(pairs), moment)
            await store.forget_before(connection, pool, compact(as_of - self._retention))
            await events_store.set_revision(connection, _marker(pool), seen)
            await events_store.bump_revision(connection, NEWS_FEED)

    async def _write(
        self, connection: Transaction, kind: store.Kind, pool: Pool, as_of: datetime, told: Sequence[Told]
    ) -> list[Told]:
        """Write what is told otherwise than before, and drop what is no longer told; answers with the former."""
        changed = [(item, row) for item in told if (row := self._changed(pool, item))]
        await store.write_told(connection, kind, [row for _, row in changed])
        since = compact(as_of - timedelta(hours=TOLD_HOURS))
        listed = await store.told_ids_since(connection, kind, pool, since)
        await store.remove_told(connection, kind, pool, sorted(set(listed) - {item.id for item in told}))
        return [item for item, _ in changed]

    def _changed(self, pool: Pool, item: Story | Entity) -> dict[str, object] | None:
        body = msgspec.json.encode(item)
        digest = blake2b(body, digest_size=8).digest()
        key = f"{pool} {item.id}"
        if self._digests.get(key) == digest:
            return None
        self._digests[key] = digest
        return {"pool": pool, "id": item.id, "last_seen": compact(item.last_seen), "body": body}

    async def _mark(self, pool: Pool, seen: int) -> None:
        async with self._database.writing() as connection:
            await events_store.set_revision(connection, _marker(pool), seen)


async def _seen(connection: Transaction) -> int:
    """One number for everything that news are made of."""
    return sum(
        [await events_store.revision(connection, feed) for feed in (EVENTS_FEED, ARTICLES_FEED, FATALITIES_FEED)]
    )


def _marker(pool: Pool) -> str:
    return f"news:{pool}"


def _once(before: Mapping[bytes, Kept], now: dict[bytes, Kept], packed: bytes, kind: type[Read]) -> Read:
    digest = blake2b(packed, digest_size=12).digest()
    known = before.get(digest)
    found = known if isinstance(known, kind) else msgspec.json.decode(packed, type=kind)
    now[digest] = found
    return found


def _not_reported(stored: _Stored) -> list[Reported]:
    """The pages of events that no stored article links to its event yet."""
    linked = {report.event_id for report in stored.reports}
    by_page: Mapping[str, Reported] = {report.article.id: report for report in stored.reports}
    fresh = []
    for record in stored.events.values():
        if record.id not in linked:
            known = by_page.get(article_id(record.url))
            fresh.append(known.linked_to(record.id) if known else reported_by_event(record))
    return fresh


def _tell(room: Newsroom, reports: Sequence[Reported], stored: _Stored) -> Edition:
    begun = clock.seconds()
    taken = room.take(reports)
    room.expire(stored.as_of)
    edition = room.edition(stored.as_of, stored.events)
    log.debug("edition made", taken=taken, seconds=round(clock.seconds() - begun, 3))
    return edition
