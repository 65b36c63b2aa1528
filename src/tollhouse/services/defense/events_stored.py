"""The stored events of the last 24 hours and of the 24 before, and how their stories weigh them."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense import store
from tollhouse.services.defense.brief.live import Coverage
from tollhouse.services.defense.event import Event, EventRecord
from tollhouse.services.defense.events_query import Entry
from tollhouse.services.defense.events_window import WINDOW_HOURS
from tollhouse.services.defense.ingest.scores import to_event
from tollhouse.services.defense.ingest.slots import Pool, slot_before, slot_time
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.providers.fatalities import FatalityRecord, match_fatalities
from tollhouse.storage.database import Transaction

# The provider publishes every 15 minutes.
SLOTS_PER_DAY = 96
# Records of events that the two windows may hold.
COUNTED_BACK = timedelta(days=5)

Counted = dict[str, list[FatalityRecord]]


class StoryOfEvent(Struct, frozen=True):
    """Of a story as stored, what its events need: other members are passed over."""

    id: str
    source_count: int
    event_ids: list[str]


class StoredWindows(Struct, frozen=True):
    """Packed records of the two windows, and the packed stories that tell them."""

    as_of: datetime
    window: list[bytes]
    previous: list[bytes]
    stories: list[bytes]
    fatalities: list[bytes]
    coverage: Coverage

    def read(self) -> tuple[list[Entry], list[Event]]:
        """The window's entries, and the events of the 24 hours before."""
        told, counted = by_event(self.stories), by_country(self.fatalities)
        entries = []
        for record in map(_record, self.window):
            event, _ = weighed(with_fatalities(record, counted), told)
            entries.append(Entry(event, record.country_code, record.last_reported_at))
        return entries, [weighed(with_fatalities(record, counted), told)[0] for record in map(_record, self.previous)]


async def stored_windows(connection: Transaction, pool: Pool, newest: str) -> StoredWindows:
    """Both windows of a pool whose newest slot that is."""
    as_of = slot_time(newest)
    assert as_of is not None, "a slot's name is a moment"
    begin = slot_before(newest, timedelta(hours=WINDOW_HOURS))
    before = slot_before(newest, timedelta(hours=2 * WINDOW_HOURS))
    return StoredWindows(
        as_of,
        await store.records_between(connection, pool, begin, newest),
        await store.records_between(connection, pool, before, begin),
        await news.told_since(connection, "story", pool, before),
        await store.fatalities_since(connection, (as_of - COUNTED_BACK).date().isoformat()),
        Coverage(
            len(await store.slots_between(connection, pool, begin, newest)) / SLOTS_PER_DAY,
            len(await store.slots_between(connection, pool, before, begin)) / SLOTS_PER_DAY,
        ),
    )


def by_event(stories: list[bytes]) -> dict[str, StoryOfEvent]:
    """The story of each event."""
    read = (msgspec.json.decode(packed, type=StoryOfEvent) for packed in stories)
    return {event_id: story for story in read for event_id in story.event_ids}


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


def _record(packed: bytes) -> EventRecord:
    return msgspec.json.decode(packed, type=EventRecord)
