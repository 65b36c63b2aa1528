"""The events of the last 24 hours, in memory, in every order the feed offers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Literal

from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.events.query import Entry, EventsQuery, Sort, predicates, resolved_country, sort_value
from tollhouse.services.defense.paging import Position, Slice, position, sliced

WINDOW_HOURS = 24

_WORD = re.compile(r"\w+")

Source = Literal["live", "recorded"]


class EventWindow:
    """An immutable view of one revision of the feed. `as_of` is the end of the window, None when it is empty."""

    def __init__(self, entries: Iterable[Entry], as_of: datetime | None, source: Source) -> None:
        self.as_of = as_of
        self.source = source
        self._entries: dict[Sort, list[Entry]] = {"significance": _ordered(entries, "significance")}
        self.events: Sequence[Event] = [entry.event for entry in self._entries["significance"]]

    def __len__(self) -> int:
        return len(self.events)

    def page(self, query: EventsQuery) -> Slice[Event]:
        """The events a query means. Raises Problem `invalid-parameter` for an unknown country."""
        found = sliced(list(self._matches(query)), lambda entry: _place(entry, query.sort), query.cursor, query.limit)
        return Slice([entry.event for entry in found.items], found.total, found.next_cursor)

    def _matches(self, query: EventsQuery) -> Iterator[Entry]:
        tests = predicates(query)
        if query.country is not None:
            code = resolved_country(query.country).alpha2
            tests.insert(0, lambda entry: entry.country_code == code)
        if query.q is not None:
            titled = self._titled(query.q)
            tests.insert(0, lambda entry: entry.event.id in titled)
        return (entry for entry in self._in_order(query.sort) if all(test(entry) for test in tests))

    def _in_order(self, sort: Sort) -> list[Entry]:
        if sort not in self._entries:
            self._entries[sort] = _ordered(self._entries["significance"], sort)
        return self._entries[sort]

    def _titled(self, text: str) -> set[str]:
        """The ids of the events whose title holds all these words."""
        words = _WORD.findall(text.casefold())
        found = [self._titles.get(word, set()) for word in words]
        return set.intersection(*found) if found else set()

    @cached_property
    def _titles(self) -> dict[str, set[str]]:
        index: dict[str, set[str]] = {}
        for event in self.events:
            for word in _WORD.findall(event.title.casefold()):
                index.setdefault(word, set()).add(event.id)
        return index


def _ordered(entries: Iterable[Entry], sort: Sort) -> list[Entry]:
    return sorted(entries, key=lambda entry: _place(entry, sort))


def _place(entry: Entry, sort: Sort) -> Position:
    return position(sort_value(entry, sort), entry.event.id)
