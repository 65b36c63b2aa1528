"""Points, facet counts and the time histogram of the events feed, against counting one event at a time."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import get_args

import pytest
from msgspec.structs import replace

from tollhouse.services.defense.countries import find_country
from tollhouse.services.defense.events.event import Category, Event, EventEntry, Geo, Metrics, SeverityTier
from tollhouse.services.defense.events.filter import event_tests
from tollhouse.services.defense.events.overview import FACETS, point_columns, slot_end
from tollhouse.services.defense.events.pages import EventsQuery, EventWindow, PointsQuery

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
WORDS = ("rocket", "strike", "talks", "border", "march")
PLACES = (("Kenya", "Nairobi"), ("Kenya", ""), ("Sudan", "Khartoum"), ("Ukraine", "Kharkiv"), ("", ""))


def entry(number: int, chance: Random) -> EventEntry:
    country, region = chance.choice(PLACES)
    found = find_country(country)
    moment = NOON - timedelta(seconds=chance.randrange(86_400))
    event = Event(
        f"conflict_{number:016x}", " ".join(chance.sample(WORDS, 2)), moment.date(),
        chance.choice(get_args(Category)), "",
        Geo(country, region, chance.uniform(-80, 80), chance.uniform(-180, 180)), 0,
        Metrics(round(chance.random(), 4), chance.choice(get_args(SeverityTier)), round(chance.random(), 4)),
        ["https://news.example/1"], chance.randrange(1, 9), None, "not_reported", "url",
    )  # fmt: skip
    named = tuple(chance.sample(("entity_a", "entity_b"), chance.randrange(3)))
    return EventEntry(event, found.alpha2 if found else "", moment, chance.random() < 0.9, named)


@pytest.fixture(scope="module")
def window() -> EventWindow:
    chance = Random(5)
    return EventWindow([entry(number, chance) for number in range(600)], NOON, "recorded")


VALUE = {
    "category": lambda one: one.event.category,
    "severity_tier": lambda one: one.event.metrics.severity_tier,
    "country": lambda one: one.event.geo.country,
    "region": lambda one: one.event.geo.region,
}
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
def test_facets_count_events_under_every_other_filter(window, query):
    def passing(**changes: datetime | None) -> list[EventEntry]:
        tests = event_tests(replace(query, **changes), ENTITIES)
        return [one for one in window.entries if all(test(one) for test in tests)]

    facets = window.masks(query, ENTITIES).facets(",".join(FACETS))
    assert list(facets) == list(FACETS)
    for name, value in VALUE.items():
        counted = Counter(map(value, passing(**{name: None})))
        counted.pop("", None)
        assert {one.value: one.count for one in facets[name]} == counted
        assert [one.count for one in facets[name]] == sorted(counted.values(), reverse=True)
    for one in facets["reported_at"]:
        end = datetime.fromisoformat(one.value)
        assert one.count == len(passing(since=end - timedelta(minutes=15), until=end))
    assert sum(one.count for one in facets["reported_at"]) == len(passing(since=None, until=None))


@pytest.mark.parametrize("query", QUERIES)
def test_points_are_the_events_of_the_feed_in_their_order(window, query):
    columns, places = point_columns(window.masks(query, ENTITIES).matching())
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
    assert slot_end(NOON) == NOON
    assert slot_end(NOON + timedelta(seconds=1)) == NOON + timedelta(minutes=15)
