"""The index of events: the same pages, totals and facets as testing every event, in small and large windows."""

from pathlib import Path
from random import Random

import pytest

from tests.services.defense.brute_events import (
    ENTITIES,
    FACETS,
    NOON,
    brute_facet,
    brute_page,
    made_entry,
    made_filters,
    passing,
    place,
)
from tests.services.defense.served import index_entries
from tollhouse.services.defense.chat.snapshot import load_recorded
from tollhouse.services.defense.events import index_search
from tollhouse.services.defense.events.event import EventEntry
from tollhouse.services.defense.events.pages import EventsQuery, EventWindow, count_facets

SORTS = ("significance", "recent", "fatalities")


@pytest.fixture(scope="module")
def entries() -> list[EventEntry]:
    chance = Random(5)
    made = {entry.event.id: entry for entry in (made_entry(number, chance) for number in range(3_000))}
    return list(made.values())


@pytest.fixture(scope="module")
def window(entries) -> EventWindow:
    return EventWindow(index_entries(entries), NOON, "recorded")


@pytest.fixture(params=["small", "large"])
def as_size(request, monkeypatch) -> str:
    """A window is searched as a large one is: by buckets, and counted by samples."""
    if request.param == "large":
        monkeypatch.setattr(index_search, "EXACT_ROWS", 100)
        monkeypatch.setattr(index_search, "FEWEST_ROWS", 16)
    return request.param


def query_of(chance: Random, entries: list[EventEntry]) -> tuple[EventsQuery, frozenset[str]]:
    sort, cursor = chance.choice(SORTS), None
    if chance.random() < 0.4:
        value, digits = place(chance.choice(entries), sort)
        cursor = chance.choice((f"{-value}-{digits}", f"{-value}-{chance.getrandbits(64):016x}", f"{10**13}-{digits}"))
    query = EventsQuery(**made_filters(chance), sort=sort, cursor=cursor, limit=chance.choice((1, 7, 20, 100)))
    return query, frozenset(chance.sample(ENTITIES, chance.randrange(3)))


@pytest.mark.parametrize("seed", range(6))
def test_pages_are_those_of_testing_every_event(window, entries, as_size, seed):
    chance = Random(seed)
    for _ in range(60):
        query, entities = query_of(chance, entries)
        page = window.page(query, entities)
        events, total, cursor = brute_page(entries, query, entities)
        assert (page.items, page.total, page.next_cursor) == (events, total, cursor), query
        assert page.total_relation == "eq"


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("limit", [1, 13])
def test_pages_hold_every_event_once_in_order(window, entries, as_size, sort, limit):
    listed, cursor = [], None
    while True:
        page = window.page(EventsQuery(sort=sort, limit=limit, cursor=cursor, q="rocket"))
        listed += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    matching = passing(entries, EventsQuery(q="rocket"), frozenset())
    assert listed == [entry.event for entry in sorted(matching, key=lambda entry: place(entry, sort))]


@pytest.mark.parametrize("seed", range(4))
def test_facets_are_those_of_testing_every_event(window, entries, as_size, seed):
    chance = Random(seed)
    for _ in range(50):
        query, entities = query_of(chance, entries)
        names = chance.sample(sorted(FACETS), chance.randrange(1, 4))
        facets, share = count_facets(window.view, window.view.conditions(query, entities), ",".join(names))
        assert share == 1
        assert list(facets) == names
        for name in names:
            assert [(one.value, one.count) for one in facets[name]] == brute_facet(entries, query, entities, name)


def test_count_of_many_stops_and_says_so(window, entries, monkeypatch):
    monkeypatch.setattr(index_search, "EXACT_ROWS", 100)
    monkeypatch.setattr(index_search, "MOST_COUNTED", 200)
    relations = set()
    for seed in range(200):
        query, entities = query_of(Random(seed), entries)
        page, total = window.page(query, entities), brute_page(entries, query, entities)[1]
        relations.add(page.total_relation)
        assert page.total == total if page.total_relation == "eq" else (200 == page.total <= total)
    assert relations == {"eq", "gte"}


def test_facets_of_very_many_are_estimated_and_say_so(window, entries, monkeypatch):
    monkeypatch.setattr(index_search, "EXACT_ROWS", 100)
    monkeypatch.setattr(index_search, "EXACT_MATCHES", 1_000)
    monkeypatch.setattr(index_search, "SAMPLED_MATCHES", 500)
    conditions = window.view.conditions(EventsQuery())
    facets, share = count_facets(window.view, conditions, "category,country")
    assert 1 / 8 <= share < 1
    for name, values in facets.items():
        exact = dict(brute_facet(entries, EventsQuery(), frozenset(), name))
        assert {one.value for one in values} == exact.keys()
        for one in values:
            assert one.count % (1 / share) == 0
            assert 0.7 * exact[one.value] < one.count < 1.4 * exact[one.value]
    few = window.view.conditions(EventsQuery(category="Battles", country="KE"))
    assert count_facets(window.view, few, "region")[1] == 1


async def test_pages_of_the_recording_are_those_of_testing_every_event(tmp_path: Path, monkeypatch):
    snapshot = await load_recorded(tmp_path)
    entries = list(snapshot.holdings.entries)
    assert len(entries) > 200
    window = EventWindow(index_entries(entries), snapshot.holdings.as_of, "recorded")
    chance = Random(1)
    words = [word for entry in chance.sample(entries, 200) for word in entry.event.title.split()]
    named = [one for entry in entries for one in entry.entities]
    for turn in range(400):
        monkeypatch.setattr(index_search, "EXACT_ROWS", 100 if turn % 2 else 10**9)
        like = chance.choice(entries)
        value, digits = place(like, (sort := chance.choice(SORTS)))
        choices = {
            "country": like.country_code or "ET",
            "region": like.event.geo.region or "Tigray",
            "category": like.event.category,
            "severity_tier": like.event.metrics.severity_tier,
            "min_confidence": like.event.metrics.confidence,
            "min_sources": like.event.source_count,
            "q": chance.choice(words)[:100],
            "since": like.reported_at,
            "until": like.reported_at,
            "bbox": (
                chance.uniform(-180, 180),
                chance.uniform(-90, 90),
                like.event.geo.longitude,
                like.event.geo.latitude,
            ),
            "entity": "an entity",
            "cursor": f"{-value}-{digits}",
        }
        filters = {name: choices[name] for name in chance.sample(sorted(choices), chance.randrange(1, 4))}
        query, entities = EventsQuery(**filters, sort=sort), frozenset({chance.choice(named)})
        page = window.page(query, entities)
        assert (page.items, page.total, page.next_cursor) == brute_page(entries, query, entities), query
