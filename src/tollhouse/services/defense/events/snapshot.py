"""The stored events of the last 24 hours and of the 24 before, and how their stories weigh them."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from operator import attrgetter

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense import store
from tollhouse.services.defense.brief.live_events import Coverage
from tollhouse.services.defense.events.event import Event, EventRecord, read_record
from tollhouse.services.defense.events.query import Entry
from tollhouse.services.defense.events.sync import SyncedRows
from tollhouse.services.defense.events.window import WINDOW_HOURS
from tollhouse.services.defense.ingest.batches import SourceMode, slot_before, slot_time
from tollhouse.services.defense.ingest.scores import to_event
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.providers.fatalities import FatalityRecord, match_fatalities
from tollhouse.services.defense.store import FATALITIES_FEED, revision
from tollhouse.storage.database import Transaction

# The provider publishes every 15 minutes.
SLOTS_PER_DAY = 96
# Records of events that the two windows may hold.
COUNTED_BACK = timedelta(days=5)

Counted = dict[str, list[FatalityRecord]]


class StoryOfEvent(Struct, frozen=True, gc=False):
    """Of a story as stored, what its events need: other members are passed over."""

    id: str
    source_count: int
    event_ids: list[str]


class Windows(Struct, frozen=True):
    """What a pool tells of the 24 hours up to `as_of`, and of the 24 before."""

    as_of: datetime
    entries: list[Entry]
    previous: list[Event]
    coverage: Coverage


class FollowedEvents:
    """The events of both windows as their stories weigh them; only what changed since the last look is read.

    After a look that failed, or whose transaction did, `forget`.
    """

    def __init__(self) -> None:
        self._stories: SyncedRows[StoryOfEvent] = SyncedRows(news.PUBLISHED["story"], _story)
        self._events: SyncedRows[Entry] = SyncedRows(store.EVENTS, self._entry)
        self.forget()

    def forget(self) -> None:
        """Hold nothing."""
        self._stories.clear()
        self._events.clear()
        self._told: dict[str, StoryOfEvent] = {}
        self._counted: Counted = {}
        self._counted_at: tuple[int, str] | None = None

    async def look(self, connection: Transaction, pool: SourceMode, newest: str) -> Windows:
        """Both windows of a pool whose newest slot that is."""
        as_of = slot_time(newest)
        assert as_of is not None, "a slot's name is a moment"
        begin = slot_before(newest, timedelta(hours=WINDOW_HOURS))
        before = slot_before(newest, timedelta(hours=2 * WINDOW_HOURS))
        await self._look_at_deaths(connection, (as_of - COUNTED_BACK).date().isoformat())
        await self._stories.sync(connection, pool, before)
        told_before, self._told = self._told, told_by(self._stories.items.values())
        changed = await self._events.sync(connection, pool, before)
        weighed_anew = _told_otherwise(told_before, self._told) - changed.changed
        await self._events.reload(connection, pool, weighed_anew)
        coverage = Coverage(
            len(await store.slots_between(connection, pool, begin, newest)) / SLOTS_PER_DAY,
            len(await store.slots_between(connection, pool, before, begin)) / SLOTS_PER_DAY,
        )
        return await asyncio.to_thread(self._windows, as_of, coverage, (before, begin, newest))

    async def _look_at_deaths(self, connection: Transaction, day: str) -> None:
        number = await revision(connection, FATALITIES_FEED)
        if (number, day) == self._counted_at:
            return
        counted = by_country(await store.fatalities_since(connection, day))
        if counted != self._counted:
            # Any event may now have other deaths.
            self._events.clear()
        self._counted, self._counted_at = counted, (number, day)

    def _entry(self, packed: bytes) -> Entry:
        record = read_record(packed)
        event, _ = weighed(with_fatalities(record, self._counted), self._told)
        return Entry(event, record.country_code, record.last_reported_at)

    def _windows(self, as_of: datetime, coverage: Coverage, bounds: tuple[str, str, str]) -> Windows:
        before, begin, newest = bounds
        entries, previous = [], []
        for identity, entry in self._events.items.items():
            slot = self._events.moment(identity)
            if begin < slot <= newest:
                entries.append(entry)
            elif before < slot <= begin:
                previous.append(entry.event)
        return Windows(as_of, entries, previous, coverage)


def told_by(stories: Iterable[StoryOfEvent]) -> dict[str, StoryOfEvent]:
    """The story of each event: the last by its id where several tell it."""
    in_order = sorted(stories, key=attrgetter("id"))
    return {event_id: story for story in in_order for event_id in story.event_ids}


def by_event(stories: Iterable[bytes]) -> dict[str, StoryOfEvent]:
    """The same of packed stories."""
    return told_by(map(_story, stories))


def by_country(packed: Iterable[bytes]) -> Counted:
    """What providers counted, by country."""
    counted: Counted = {}
    for record in (msgspec.json.decode(body, type=FatalityRecord) for body in packed):
        counted.setdefault(record.country, []).append(record)
    return counted


def with_fatalities(record: EventRecord, counted: Counted) -> EventRecord:
    """The event with the figure of those who count, where one of their records clearly speaks of it."""
    match = match_fatalities(record, counted.get(record.country_code, ()))
    if match is None:
        return record
    why = f"{match.provider} record {match.id} counts {match.best} (between {match.low} and {match.high})"
    reasons = {**record.reasons, "fatalities": why}
    return replace(record, fatalities=match.best, fatalities_basis=match.provider, reasons=reasons)


def weighed(record: EventRecord, told: Mapping[str, StoryOfEvent]) -> tuple[Event, int]:
    """The event as its story weighs it, and how many voices tell it; before it is in a story, the provider's count."""
    story = told.get(record.id)
    heard = story.source_count if story else record.publishers
    return to_event(record, heard, story.id if story else None), heard


def _story(packed: bytes) -> StoryOfEvent:
    return msgspec.json.decode(packed, type=StoryOfEvent)


def _told_otherwise(before: Mapping[str, StoryOfEvent], now: Mapping[str, StoryOfEvent]) -> set[str]:
    """The events that another story tells, or that theirs weighs otherwise."""
    changed = {identity for identity, story in now.items() if not _weighs_alike(story, before.get(identity))}
    return changed | (before.keys() - now.keys())


def _weighs_alike(one: StoryOfEvent, other: StoryOfEvent | None) -> bool:
    return one is other or (other is not None and (one.id, one.source_count) == (other.id, other.source_count))
