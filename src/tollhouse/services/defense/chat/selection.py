"""Which events and stories a query means."""

from collections.abc import Callable

from tollhouse.services.defense.chat.query_types import Filters
from tollhouse.services.defense.chat.snapshot import PARTS_OF_THE_WORLD, Snapshot
from tollhouse.services.defense.chat.story_index import stems
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.stories.story import Story

EventTest = Callable[[Event], bool]
StoryTest = Callable[[Story], bool]


def events_meant(picture: Snapshot, filters: Filters) -> list[Event]:
    """The events that pass every filter, in the feed's order."""
    found = list(picture.events)
    for test in _event_tests(picture, filters):
        found = [event for event in found if test(event)]
    return found


def stories_meant(picture: Snapshot, filters: Filters) -> list[Story]:
    """The stories that pass every filter, most significant first; words stand in the title, summary or headlines."""
    found = list(picture.holdings.stories)
    for test in _story_tests(picture, filters):
        found = [story for story in found if test(story)]
    return found


def _event_tests(picture: Snapshot, filters: Filters) -> list[EventTest]:
    tests: list[EventTest] = []
    if filters.category:
        tests.append(lambda event: event.category == filters.category)
    if filters.subcategory:
        tests.append(lambda event: event.subcategory == filters.subcategory)
    if filters.severity_tier:
        tests.append(lambda event: event.metrics.severity_tier == filters.severity_tier)
    if filters.countries:
        tests.append(lambda event: event.geo.country in filters.countries)
    if filters.world:
        tests.append(lambda event: PARTS_OF_THE_WORLD.get(event.geo.country) == filters.world)
    if filters.region:
        tests.append(lambda event: event.geo.region == filters.region)
    if filters.day:
        tests.append(lambda event: event.event_date == filters.day)
    if filters.words:
        wanted = {word for text in filters.words for word in stems(text)}
        tests.append(lambda event: wanted <= set(stems(event.title)))
    if filters.entity:
        entity = picture.entity_by_id.get(filters.entity)
        told = set(entity.story_ids) if entity else set()
        tests.append(lambda event: event.story_id in told)
    return [*tests, *_time_tests(picture, filters)]


def _time_tests(picture: Snapshot, filters: Filters) -> list[EventTest]:
    tests: list[EventTest] = []
    reported, never = picture.reported_at, picture.begins
    if filters.since:
        since = filters.since
        tests.append(lambda event: reported.get(event.id, never) > since)
    if filters.until:
        until = filters.until
        tests.append(lambda event: reported.get(event.id, picture.as_of) <= until)
    return tests


def _story_tests(picture: Snapshot, filters: Filters) -> list[StoryTest]:
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
        holding = set(picture.texts.holding_all(filters.words))
        tests.append(lambda story: story.id in holding)
    if filters.entity:
        tests.append(lambda story: filters.entity in story.entities)
    if filters.region or filters.subcategory or filters.severity_tier or filters.day:
        # A story has none of these of its own: it is meant when one of its events is.
        told = {event.story_id for event in events_meant(picture, filters)}
        tests.append(lambda story: story.id in told)
    return tests
