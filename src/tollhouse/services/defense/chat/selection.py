"""The events and stories that pass a query's filters."""

from collections.abc import Callable

from msgspec.structs import replace

from tollhouse.services.defense.chat.query_types import EVERYTHING, Filters
from tollhouse.services.defense.chat.snapshot import PARTS_OF_THE_WORLD, Snapshot
from tollhouse.services.defense.chat.story_index import stems
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.events.filter import EventTest, event_tests
from tollhouse.services.defense.stories.story import Story

StoryTest = Callable[[Story], bool]


def select_events(snapshot: Snapshot, filters: Filters) -> list[Event]:
    """The events that pass every filter, in the feed's order."""
    entity = snapshot.entity_by_id.get(filters.entity or "")
    tests: list[EventTest] = event_tests(filters, frozenset(entity.story_ids if entity else ()))
    if filters.subcategory:
        tests.append(lambda entry: entry.event.subcategory == filters.subcategory)
    if filters.countries:
        tests.append(lambda entry: entry.event.geo.country in filters.countries)
    if filters.world:
        tests.append(lambda entry: PARTS_OF_THE_WORLD.get(entry.event.geo.country) == filters.world)
    if filters.day:
        tests.append(lambda entry: entry.event.event_date == filters.day)
    if filters.until:
        until = filters.until
        tests.append(lambda entry: entry.reported_at <= until)
    if filters.words:
        words = {word for text in filters.words for word in stems(text)}
        tests.append(lambda entry: words <= set(stems(entry.event.title)))
    return [entry.event for entry in snapshot.entries if all(test(entry) for test in tests)]


def select_stories(snapshot: Snapshot, filters: Filters) -> list[Story]:
    """The stories that pass every filter, most significant first; words may be in title, summary or headlines."""
    tests: list[StoryTest] = []
    if filters.category:
        tests.append(lambda story: story.category == filters.category)
    if filters.countries:
        tests.append(lambda story: any(name in story.countries for name in filters.countries))
    if filters.world:
        tests.append(lambda story: any(PARTS_OF_THE_WORLD.get(name) == filters.world for name in story.countries))
    if filters.since:
        since = filters.since
        tests.append(lambda story: story.last_seen > since)
    if filters.until:
        until = filters.until
        tests.append(lambda story: story.first_seen <= until)
    if filters.words:
        ids = set(snapshot.texts.holding_all(filters.words))
        tests.append(lambda story: story.id in ids)
    if filters.entity:
        tests.append(lambda story: filters.entity in story.entities)
    rest = replace(filters, category=None, countries=(), world=None, since=None, until=None, words=(), entity=None)
    if rest != EVERYTHING:
        # A story has no such member of its own: it passes when one of its events does.
        story_ids = {event.story_id for event in select_events(snapshot, filters)}
        tests.append(lambda story: story.id in story_ids)
    return [story for story in snapshot.holdings.stories if all(test(story) for test in tests)]
