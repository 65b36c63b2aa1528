"""Requests of the events feed read hardly more rows of a larger window: counted in rows, at three sizes.

The bounds above which a window is searched as a large one are lowered, so that thousands of events show it. Each
request has more matches than are counted; one with fewer reads as many rows as it has matches.
"""

from collections.abc import Collection
from datetime import timedelta
from math import log
from random import Random

import pytest
from msgspec.structs import replace
from tantivy import Query

from tests.services.defense.brute_events import NOON, made_entry
from tests.services.defense.served import index_entries
from tollhouse.services.defense.events import index_search
from tollhouse.services.defense.events.index_search import EventView, count_rows
from tollhouse.services.defense.events.pages import EventsQuery, EventWindow, count_facets

SIZES = (2_000, 8_000, 32_000)
MOST_EXPONENT = 0.3

QUERIES = {
    "all": EventsQuery(),
    "recent": EventsQuery(sort="recent"),
    "fatalities": EventsQuery(sort="fatalities"),
    "next page": EventsQuery(cursor="5000-8000000000000000"),
    "next recent page": EventsQuery(sort="recent", cursor="20260310000000-8000000000000000"),
    "relevance": EventsQuery(relevance="all"),
    "category": EventsQuery(category="Protests"),
    "country": EventsQuery(country="Kenya"),
    "region": EventsQuery(region="Kharkiv"),
    "tier": EventsQuery(severity_tier="high", sort="recent"),
    "confidence": EventsQuery(min_confidence=0.3),
    "sources": EventsQuery(min_sources=2, sort="fatalities"),
    "box": EventsQuery(bbox=(-150.0, -70.0, 150.0, 75.0)),
    "words": EventsQuery(q="rocket strike"),
    "since": EventsQuery(since=NOON - timedelta(hours=9)),
    "until": EventsQuery(until=NOON - timedelta(hours=9), sort="recent"),
    "three": EventsQuery(category="Battles", min_confidence=0.2, since=NOON - timedelta(hours=20), sort="fatalities"),
}


class CountingView(EventView):
    """Counts the rows that each search reads: those of the condition that fewest rows meet, as the engine reads."""

    def __init__(self, view: EventView) -> None:
        super().__init__(view._searcher)
        self.rows = 0
        self._counts: dict[int, int] = {}

    def query(self, conditions: Collection[Query]) -> Query:
        each = [count_rows(self._searcher, one) for one in conditions]
        self.rows += min(each, default=len(self))
        return super().query(conditions)


@pytest.fixture(scope="module")
def views() -> list[EventView]:
    chance = Random(3)
    entries = [made_entry(chance.getrandbits(64), chance) for _ in range(SIZES[-1])]
    return [index_entries(entries[:size]) for size in SIZES]


@pytest.fixture
def _as_large(monkeypatch) -> None:
    monkeypatch.setattr(index_search, "EXACT_ROWS", 1_000)
    monkeypatch.setattr(index_search, "ESTIMATE_ROWS", 100)
    monkeypatch.setattr(index_search, "MOST_COUNTED", 20)
    monkeypatch.setattr(index_search, "EXACT_MATCHES", 40)
    monkeypatch.setattr(index_search, "SAMPLED_MATCHES", 20)
    monkeypatch.setattr(index_search, "FEWEST_ROWS", 32)


def exponent(rows: list[int]) -> float:
    return log(rows[-1] / rows[0]) / log(SIZES[-1] / SIZES[0])


@pytest.mark.usefixtures("_as_large")
@pytest.mark.parametrize("name", QUERIES)
def test_rows_read_for_a_page_hardly_grow(views, name):
    rows = []
    for view in views:
        counting = CountingView(view)
        page = EventWindow(counting, NOON, "live").page(replace(QUERIES[name], limit=5))
        assert page.items
        rows.append(counting.rows)
    assert rows[-1] < SIZES[-1]
    assert exponent(rows) <= MOST_EXPONENT, rows


@pytest.mark.usefixtures("_as_large")
@pytest.mark.parametrize("name", QUERIES)
def test_rows_read_for_facets_hardly_grow(views, name):
    rows = []
    for view in views:
        counting = CountingView(view)
        query = replace(QUERIES[name], cursor=None)
        count_facets(counting, counting.conditions(query), "category,country,severity_tier,reported_at")
        rows.append(counting.rows)
    assert exponent(rows) <= MOST_EXPONENT, rows


def test_counting_of_rows_shows_a_search_that_reads_all(views):
    rows = []
    for view in views:
        counting = CountingView(view)
        EventWindow(counting, NOON, "live").page(QUERIES["confidence"])
        rows.append(counting.rows)
    assert exponent(rows) > 0.9, "without the lowered bounds these windows are small, and are read as a whole"
