"""Stored events as the feed serves them: with the source count of their story and the deaths that providers count."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense import store
from tollhouse.services.defense.events.event import Event, EventEntry, EventRecord, read_record
from tollhouse.services.defense.events.sync import RowChanges, SyncedRows
from tollhouse.services.defense.ingest.batches import SourceMode, compact, slot_time
from tollhouse.services.defense.ingest.scores import to_event
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.providers.fatalities import FatalityRecord, match_fatalities
from tollhouse.storage.database import Transaction

# Fatality records of events that the feed's two windows may hold.
FATALITIES_BACK = timedelta(days=5)
# A story is last seen when its youngest article was published, which may be long before its event was reported.
STORIES_BACK = timedelta(hours=48)
# An entity's successor may itself have been merged into another.
MOST_SUCCESSIONS = 20

ENTITY_PREFIX = "entity_"

Item = TypeVar("Item")
FatalitiesByCountry = dict[str, list[FatalityRecord]]


class EventStory(Struct, frozen=True, gc=False):
    """The members of a stored story that its events need."""

    id: str
    source_count: int
    event_ids: list[str]
    entities: list[str] = msgspec.field(default_factory=list)


StoryByEvent = Mapping[str, EventStory]


class _EntityNames(Struct, frozen=True, gc=False):
    id: str
    name: str
    aliases: list[str] = []


class ServedPool(Struct, frozen=True):
    """The pool that the feed serves, and its newest slot."""

    pool: SourceMode
    newest: str

    @property
    def as_of(self) -> datetime:
        """The end of the window."""
        moment = slot_time(self.newest)
        assert moment is not None, "a slot is named by its time"
        return moment


async def served_pool(connection: Transaction, *, recorded: bool | None) -> ServedPool | None:
    """The pool to serve: the provider's once it has a slot, unless `recorded`. None when nothing is stored."""
    pools: tuple[SourceMode, ...] = ("local",) if recorded else ("provider", "local")
    for pool in pools:
        newest = await store.newest_slot(connection, pool)
        if newest is not None:
            return ServedPool(pool, newest.slot)
    return None


class SyncedEvents(Generic[Item]):
    """The served events of a pool after a moment, as `build` makes them, in `items` by id; syncs read what changed.

    If a sync or its transaction fails, call `clear`.
    """

    def __init__(self, build: Callable[[EventEntry], Item]) -> None:
        self._stories: SyncedRows[EventStory] = SyncedRows(news.PUBLISHED["story"], read_story)
        self._events: SyncedRows[Item] = SyncedRows(store.EVENTS, lambda packed: build(self.entry(packed)))
        self.clear()

    def clear(self) -> None:
        self._stories.clear()
        self._events.clear()
        self._story_by_event: dict[str, EventStory] = {}
        self._fatalities: FatalitiesByCountry = {}
        self._fatalities_at: tuple[int, str] | None = None

    @property
    def items(self) -> Mapping[str, Item]:
        return self._events.items

    @property
    def stories(self) -> Collection[EventStory]:
        return self._stories.items.values()

    def slot(self, event_id: str) -> str:
        """The slot in which an event was last reported."""
        return self._events.moment(event_id)

    def entry(self, packed: bytes) -> EventEntry:
        """A stored event as served now."""
        return build_entry(packed, self._story_by_event, self._fatalities)

    async def sync(self, connection: Transaction, served: ServedPool, after: str) -> RowChanges:
        """Hold the events reported after that slot, as the connection's snapshot has them."""
        held = set(self.items)
        day = (served.as_of - FATALITIES_BACK).date().isoformat()
        position = (await store.revision(connection, store.FATALITIES_FEED), day)
        if position != self._fatalities_at:
            fatalities = fatalities_by_country(await store.fatalities_since(connection, day))
            if fatalities != self._fatalities:
                # Any event may now have other deaths.
                self._events.clear()
            self._fatalities, self._fatalities_at = fatalities, position
        await self._stories.sync(connection, served.pool, after)
        before, self._story_by_event = self._story_by_event, story_by_event(self.stories)
        changes = await self._events.sync(connection, served.pool, after)
        reweighted = _reweighted(before, self._story_by_event) - changes.changed
        await self._events.reload(connection, served.pool, reweighted)
        return RowChanges(changes.changed | (reweighted & self.items.keys()), held - self.items.keys())


async def entries_after(
    connection: Transaction, pool: SourceMode, after: datetime, stories: StoryByEvent
) -> AsyncIterator[list[tuple[str, EventEntry]]]:
    """The events last reported after that moment, with their ids, in batches of some thousands in no order."""
    day = (after - FATALITIES_BACK).date().isoformat()
    fatalities = fatalities_by_country(await store.fatalities_since(connection, day))
    async for rows in store.rows_after(connection, store.EVENTS, pool, compact(after)):
        yield await asyncio.to_thread(
            lambda batch: [(event_id, build_entry(body, stories, fatalities)) for event_id, _, body in batch], rows
        )


async def stories_after(connection: Transaction, pool: SourceMode, after: datetime) -> dict[str, EventStory]:
    """The story of each event reported after that moment, by event id."""
    stories: list[EventStory] = []
    async for rows in store.rows_after(connection, news.PUBLISHED["story"], pool, compact(after - STORIES_BACK)):
        stories += await asyncio.to_thread(list, map(read_story, [body for *_, body in rows]))
    return story_by_event(stories)


async def stories_naming(
    connection: Transaction, pool: SourceMode, texts: Collection[str], stories: Iterable[EventStory]
) -> dict[str, frozenset[str]]:
    """For each entity, given by its id, name or alias, the ids of those of `stories` that name it."""
    texts_by_entity: dict[str, list[str]] = {}
    for text, entity_ids in (await _entity_ids(connection, pool, texts)).items():
        for entity_id in entity_ids:
            texts_by_entity.setdefault(entity_id, []).append(text)
    ids: dict[str, set[str]] = {text: set() for text in texts}
    for story in stories if texts_by_entity else ():
        for entity_id in story.entities:
            for text in texts_by_entity.get(entity_id, ()):
                ids[text].add(story.id)
    return {text: frozenset(story_ids) for text, story_ids in ids.items()}


async def _entity_ids(connection: Transaction, pool: SourceMode, texts: Collection[str]) -> dict[str, set[str]]:
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
    return ids | await _entity_ids_by_name(connection, pool, [text for text in texts if text not in ids])


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


def read_story(packed: bytes) -> EventStory:
    return msgspec.json.decode(packed, type=EventStory)


def story_by_event(stories: Iterable[EventStory]) -> dict[str, EventStory]:
    """The story of each event; where several contain it, the last by id."""
    in_order = sorted(stories, key=attrgetter("id"))
    return {event_id: story for story in in_order for event_id in story.event_ids}


def build_entry(packed: bytes, stories: StoryByEvent, fatalities: FatalitiesByCountry) -> EventEntry:
    """A stored event as served."""
    record = read_record(packed)
    event = serve_record(with_fatalities(record, fatalities), stories)
    return EventEntry(event, record.country_code, record.last_reported_at)


def serve_record(record: EventRecord, stories: StoryByEvent) -> Event:
    """The event with its story's source count; before it is in a story, with the provider's publisher count."""
    story = stories.get(record.id)
    return to_event(record, story.source_count if story else record.publishers, story.id if story else None)


def with_fatalities(record: EventRecord, fatalities: FatalitiesByCountry) -> EventRecord:
    """The record with the deaths of the provider's fatality record that describes the same event, if one does."""
    match = match_fatalities(record, fatalities.get(record.country_code, ()))
    if match is None:
        return record
    why = f"{match.provider} record {match.id} counts {match.best} (between {match.low} and {match.high})"
    reasons = {**record.reasons, "fatalities": why}
    return replace(record, fatalities=match.best, fatalities_basis=match.provider, reasons=reasons)


def fatalities_by_country(packed: Iterable[bytes]) -> FatalitiesByCountry:
    """Fatality records by country code."""
    by_country: FatalitiesByCountry = {}
    for record in (msgspec.json.decode(body, type=FatalityRecord) for body in packed):
        by_country.setdefault(record.country, []).append(record)
    return by_country


def _reweighted(before: StoryByEvent, now: StoryByEvent) -> set[str]:
    """The events whose story is another one, or has another source count."""

    def weight(story: EventStory | None) -> tuple[str, int] | None:
        return (story.id, story.source_count) if story else None

    return {
        event_id for event_id in before.keys() | now.keys() if weight(before.get(event_id)) != weight(now.get(event_id))
    }
