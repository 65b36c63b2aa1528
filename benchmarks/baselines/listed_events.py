"""The events of a window in a list in memory, as Tollhouse served them before it had an index: the baseline of scale.

Every event is tested for every page; each order is sorted, and the words of titles are indexed, when first requested.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec.structs import replace

from tollhouse.services.defense.events.event import Event, EventEntry
from tollhouse.services.defense.events.filter import EventFilter, EventTest, field_tests, title_words
from tollhouse.services.defense.events.index_rows import Sort
from tollhouse.services.defense.events.index_search import entry_position
from tollhouse.services.defense.events.pages import EventsQuery

FACETS = {
    "category": lambda entry: entry.event.category,
    "severity_tier": lambda entry: entry.event.metrics.severity_tier,
    "country": lambda entry: entry.event.geo.country,
}


class ListedEvents:
    def __init__(self, entries: Iterable[EventEntry]) -> None:
        self._entries: dict[Sort, list[EventEntry]] = {"significance": ordered(entries, "significance")}

    def page(self, query: EventsQuery) -> tuple[list[Event], int]:
        tests = list(self._tests(query).values())
        if query.sort not in self._entries:
            self._entries[query.sort] = ordered(self._entries["significance"], query.sort)
        matching = [entry for entry in self._entries[query.sort] if all(test(entry) for test in tests)]
        start = 0
        if query.cursor:
            value, _, digits = query.cursor.partition("-")
            start = bisect_right(matching, (-int(value), digits), key=lambda entry: entry_position(entry, query.sort))
        return [entry.event for entry in matching[start : start + query.limit]], len(matching)

    def facets(self, query: EventFilter, names: Sequence[str]) -> dict[str, Counter[str]]:
        entries, counted = self._entries["significance"], {}
        for name in names:
            tests = [test for field, test in self._tests(query).items() if field != name]
            counted[name] = Counter(FACETS[name](entry) for entry in entries if all(test(entry) for test in tests))
        return counted

    def _tests(self, filters: EventFilter) -> dict[str, EventTest]:
        tests = field_tests(replace(filters, q=None), frozenset())
        if filters.q is None:
            return tests
        ids = [self._ids_by_word.get(word, set()) for word in title_words(filters.q)]
        titled = set.intersection(*ids) if ids else set()
        return {"q": lambda entry: entry.event.id in titled, **tests}

    @cached_property
    def _ids_by_word(self) -> dict[str, set[str]]:
        index: dict[str, set[str]] = {}
        for event in (entry.event for entry in self._entries["significance"]):
            for word in title_words(event.title):
                index.setdefault(word, set()).add(event.id)
        return index


def ordered(entries: Iterable[EventEntry], sort: Sort) -> list[EventEntry]:
    return sorted(entries, key=lambda entry: entry_position(entry, sort))
