"""Stored events of any span as the feed serves them, read in portions: what is counted over more than one window."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter

import msgspec
from msgspec import Struct

from tollhouse.services.defense import store
from tollhouse.services.defense.events.event import read_record
from tollhouse.services.defense.events.query import Entry
from tollhouse.services.defense.events.snapshot import (
    COUNTED_BACK,
    Counted,
    StoryOfEvent,
    by_country,
    weighed,
    with_fatalities,
)
from tollhouse.services.defense.ingest.batches import SourceMode, compact, slot_time
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.store import Rows
from tollhouse.storage.database import Transaction

# Stories are last seen when their youngest article was published, which may be long before its event was reported.
STORIES_BACK = timedelta(hours=48)


class ToldStory(StoryOfEvent, frozen=True, gc=False):
    """Of a story as stored, what its events are weighed by and which entities it names."""

    entities: list[str] = msgspec.field(default_factory=list)


Told = Mapping[str, ToldStory]


class Served(Struct, frozen=True):
    """The pool that the feed serves, and the end of its window."""

    pool: SourceMode
    newest: str

    @property
    def as_of(self) -> datetime:
        """The end of the window."""
        moment = slot_time(self.newest)
        assert moment is not None, "a slot's name is a moment"
        return moment


async def served(connection: Transaction, *, recorded: bool | None) -> Served | None:
    """What the feed serves now: the provider's once there is any, unless recordings are wanted. None with nothing."""
    pools: tuple[SourceMode, ...] = ("local",) if recorded else ("provider", "local")
    for pool in pools:
        newest = await store.newest_slot(connection, pool)
        if newest is not None:
            return Served(pool, newest.slot)
    return None


async def entries_after(
    connection: Transaction, pool: SourceMode, after: datetime, told: Told
) -> AsyncIterator[list[tuple[str, Entry]]]:
    """The events last reported after that moment with their ids, some thousands at a time, in no promised order."""
    day = (after - COUNTED_BACK).date().isoformat()
    counted = by_country(await store.fatalities_since(connection, day))
    async for rows in store.rows_after(connection, store.EVENTS, pool, compact(after)):
        yield await asyncio.to_thread(_entries, rows, told, counted)


async def stories_after(connection: Transaction, pool: SourceMode, after: datetime) -> dict[str, ToldStory]:
    """The story of each event reported after that moment, where there is one."""
    stories: list[ToldStory] = []
    async for rows in store.rows_after(connection, news.PUBLISHED["story"], pool, compact(after - STORIES_BACK)):
        stories += await asyncio.to_thread(_stories, [body for _, _, body in rows])
    return told_by(stories)


def told_by(stories: Iterable[ToldStory]) -> dict[str, ToldStory]:
    """The story of each event: the last by its id where several tell it, as the feed has it."""
    in_order = sorted(stories, key=attrgetter("id"))
    return {event_id: story for story in in_order for event_id in story.event_ids}


def story_of(packed: bytes) -> ToldStory:
    """One stored story."""
    return msgspec.json.decode(packed, type=ToldStory)


def entry_of(packed: bytes, told: Told, counted: Counted) -> Entry:
    """One stored event as its story and the counts of the dead make it."""
    record = read_record(packed)
    event, _ = weighed(with_fatalities(record, counted), told)
    return Entry(event, record.country_code, record.last_reported_at)


def _stories(bodies: Sequence[bytes]) -> list[ToldStory]:
    return [story_of(body) for body in bodies]


def _entries(rows: Rows, told: Told, counted: Counted) -> list[tuple[str, Entry]]:
    return [(identity, entry_of(body, told, counted)) for identity, _, body in rows]
