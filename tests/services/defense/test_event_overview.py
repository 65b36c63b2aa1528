"""Points of the events feed, and facet counts, against counting one event at a time."""

from datetime import datetime, timedelta
from random import Random
from typing import get_args

import pytest
from msgspec.structs import replace

from tests.services.defense.brute_events import NOON, made_entry, passing
from tests.services.defense.served import index_entries
from tollhouse.services.defense.events.event import Category, EventEntry, SeverityTier
from tollhouse.services.defense.events.index_rows import slot_end, slot_number
from tollhouse.services.defense.events.pages import EventsQuery, EventWindow, PointsQuery, count_facets, point_columns


@pytest.fixture(scope="module")
def entries() -> list[EventEntry]:
    chance = Random(5)
    return [made_entry(number, chance) for number in range(600)]


@pytest.fixture(scope="module")
def window(entries) -> EventWindow:
    return EventWindow(index_entries(entries), NOON, "recorded")


QUERIES = (
    PointsQuery(),
    PointsQuery(country="KE", severity_tier="high"),
    PointsQuery(category="Battles", country="sudan", q="rocket", min_sources=2),
    PointsQuery(since=NOON - timedelta(hours=6), until=NOON - timedelta(hours=2), severity_tier="low"),
    PointsQuery(bbox=(120.0, -60.0, -120.0, 60.0), entity="Atlantic Alliance", relevance="all"),
    PointsQuery(region="NAIROBI", min_confidence=0.4, category="Protests"),
    PointsQuery(q="nothing"),
)
ENTITIES = frozenset({"entity_a"})


@pytest.mark.parametrize("query", QUERIES)
def test_each_quarter_of_an_hour_counts_the_events_between_its_ends(window, entries, query):
    def count(**changes: datetime | None) -> int:
        return len(passing(entries, replace(query, **changes), ENTITIES))

    facets, _ = count_facets(window.view, window.view.conditions(query, ENTITIES), "reported_at")
    for one in facets["reported_at"]:
        end = datetime.fromisoformat(one.value)
        assert one.count == count(since=end - timedelta(minutes=15), until=end)
    assert sum(one.count for one in facets["reported_at"]) == count(since=None, until=None)


@pytest.mark.parametrize("query", QUERIES)
def test_points_are_the_events_of_the_feed_in_their_order(window, query):
    columns, places = point_columns(window.view, window.view.conditions(query, ENTITIES).values())
    fields = {name: getattr(query, name) for name in query.__struct_fields__}
    listed, cursor = [], None
    while True:
        page = window.page(EventsQuery(**fields, limit=100, cursor=cursor), ENTITIES)
        listed += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert columns.id == [event.id for event in listed]
    assert {len(getattr(columns, name)) for name in columns.__struct_fields__} == {len(listed)}
    for at, event in enumerate(listed):
        assert (columns.longitude[at], columns.latitude[at]) == (
            round(event.geo.longitude, 4), round(event.geo.latitude, 4),
        )  # fmt: skip
        assert (places[columns.place[at]].country, places[columns.place[at]].region) == (
            event.geo.country, event.geo.region,
        )  # fmt: skip
        assert get_args(Category)[columns.category[at]] == event.category
        assert get_args(SeverityTier)[columns.severity_tier[at]] == event.metrics.severity_tier


def test_full_quarter_of_an_hour_ends_the_quarter_before_it():
    assert slot_end(slot_number(NOON)) == NOON
    assert slot_end(slot_number(NOON + timedelta(seconds=1))) == NOON + timedelta(minutes=15)
