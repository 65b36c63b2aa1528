"""The events of the last 24 hours, in memory, in every order the feed offers."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Literal

from msgspec import Struct

from tollhouse.services.defense.event import Event, EventRecord
from tollhouse.services.defense.events_query import Entry, EventsQuery, Sort, predicates, resolved_country, sort_value
from tollhouse.services.defense.ingest.scores import to_event

WINDOW_HOURS = 24

_WORD = re.compile(r"\w+")

Source = Literal["live", "recorded"]
Position = tuple[int, str]


class Page(Struct, frozen=True):
    """Some events of a query, how many there are in all, and where the next ones begin."""

    events: list[Event]
    total: int
    next_cursor: str | None


class EventWindow:
    """An immutable view of one revision of the feed. `as_of` is the end of the window, None when it is empty."""

    def __init__(self, records: Iterable[EventRecord], as_of: datetime | None, source: Source, revision: int) -> None:
        self.as_of = as_of
        self.source = source
        self.revision = revision
        entries = [
            Entry(to_event(record, record.publishers, None), record.country_code, record.last_reported_at)
            for record in records
        ]
        self._entries: dict[Sort, list[Entry]] = {"significance": _ordered(entries, "significance")}
        self.events: Sequence[Event] = [entry.event for entry in self._entries["significance"]]

    def __len__(self) -> int:
        return len(self.events)

    def page(self, query: EventsQuery) -> Page:
        """The events a query means. Raises Problem `invalid-parameter` for an unknown country."""
        matches = list(self._matches(query))
        start = self._start(matches, query)
        shown = matches[start : start + query.limit]
        more = start + query.limit < len(matches)
        cursor = _cursor(shown[-1], query.sort) if more and shown else None
        return Page([entry.event for entry in shown], len(matches), cursor)

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

    def _start(self, matches: Sequence[Entry], query: EventsQuery) -> int:
        if query.cursor is None:
            return 0
        value, _, digits = query.cursor.partition("-")
        after = (-int(value), f"conflict_{digits}")
        return bisect_right(matches, after, key=lambda entry: _position(entry, query.sort))

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
    return sorted(entries, key=lambda entry: _position(entry, sort))


def _position(entry: Entry, sort: Sort) -> Position:
    return -sort_value(entry, sort), entry.event.id


def _cursor(entry: Entry, sort: Sort) -> str:
    return f"{sort_value(entry, sort)}-{entry.event.id.removeprefix('conflict_')}"
