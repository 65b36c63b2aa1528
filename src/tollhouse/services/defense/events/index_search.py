"""Searches in the index of events: filters, totals, pages by position, facets and columns.

Nothing here reads every row of a large window. A page is read from the first buckets of its order, as many as probably
have enough matches. Above EXACT_ROWS, a total stops at MOST_COUNTED, which is then counted in a sample that certainly
reaches it, and facets of more than EXACT_MATCHES events are counted in a sample and multiplied.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from math import log
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct
from tantivy import FieldType, Occur, Order, Query, Searcher

from tollhouse.services.defense.events import index_rows
from tollhouse.services.defense.events.event import EventEntry
from tollhouse.services.defense.events.filter import RULES, BoundingBox, EventFilter
from tollhouse.services.defense.events.index_rows import ORDERS, PARTS, RELEVANT, Sort, bucket, order_column
from tollhouse.services.defense.paging import Position, TotalRelation, position

# The condition of `since` and `until`.
REPORTED = "reported"

EXACT_ROWS = 100_000
MOST_COUNTED = 10_000
EXACT_MATCHES = 100_000
# Rows of the sample that says how many matches to expect.
ESTIMATE_ROWS = 4_096
# Matches that a sample for facets has at least, on average.
SAMPLED_MATCHES = 50_000
# A sample is counted if this many times the needed matches are expected in it.
SURE = 1.5
# Buckets of an order are read until this many times the needed matches are expected in them.
SPARE = 2
FEWEST_ROWS = 512
GROWTH = 4
# Reading more than this share of the rows by terms is slower than reading all.
MOST_SHARE = 0.25
MOST_TERMS = 600
# Read beyond a page, since equal positions are ordered by whole ids.
READ_AHEAD = 4
# tantivy's limit of buckets per request.
MAX_BUCKETS = 65_000

_decoder = msgspec.json.Decoder(EventEntry)


class Total(Struct, frozen=True):
    """A number of events; with the relation `gte` there may be more."""

    value: int
    relation: TotalRelation = "eq"


class EventPage(Struct, frozen=True):
    """A page: its events in order, and whether others follow."""

    entries: list[EventEntry]
    has_more: bool


class ValueCounts(Struct, frozen=True):
    """How many events have each value. `share` is the share of the events that were counted."""

    counts: dict[Any, int]
    share: float


class EventView:
    """An immutable snapshot of the index of the window. Safe for use by several threads."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._columns = index_rows.columns()
        # What was read once.
        self._places: dict[int, tuple[str, str]] = {}
        self._naming: dict[str, int] = {}

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def term(self, column: str, text: str) -> Query:
        return Query.term_query(self._columns, column, text, index_option="basic")

    def query(self, conditions: Collection[Query]) -> Query:
        """The rows that meet all conditions, read by the one that fewest rows meet."""
        return _all(conditions)

    def conditions(self, filters: EventFilter, entities: Collection[str] = ()) -> dict[str, Query]:
        """One query for each filter that is given. `entities` are the ids that `filters.entity` denotes.

        That of `since` and `until` is REPORTED. Raises Problem `invalid-parameter`.
        """
        given = {name: RULES[name].read(value) for name in RULES if (value := getattr(filters, name)) is not None}
        queries = {name: self._filter(name, value) for name, value in given.items() if name not in ("since", "until")}
        if filters.since is not None or filters.until is not None:
            queries[REPORTED] = self._reported(given.get("since"), given.get("until"))
        if filters.entity is not None:
            queries["entity"] = _any([self.term("entities", one) for one in sorted(entities)])
        if filters.relevance is None:
            queries["relevance"] = self.term("relevance", RELEVANT)
        return queries

    def total(self, conditions: Collection[Query]) -> Total:
        """The number of matching events, counted up to MOST_COUNTED in a large window."""
        if len(self) > EXACT_ROWS:
            expected = self._estimate(conditions)
            for part in reversed(PARTS):
                if expected / part >= SURE * MOST_COUNTED:
                    if self.count_exactly([*conditions, self._part(part)]) >= MOST_COUNTED:
                        return Total(MOST_COUNTED, "gte")
                    break
        return Total(self.count_exactly(conditions))

    def count_exactly(self, conditions: Collection[Query]) -> int:
        return count_rows(self._searcher, self.query(conditions))

    def page(
        self,
        conditions: Collection[Query],
        sort: Sort,
        limit: int,
        after: tuple[int, str] | None = None,
        *,
        filters: EventFilter | None = None,
    ) -> EventPage:
        """The first events of an order that match, after the value and the digits of a cursor.

        `filters` are those that the conditions have.
        """
        matching, terms = [*conditions], self._terms_in_order(sort, after, filters)
        if after is not None:
            key = ORDERS[sort].key(*after)
            matching.append(Query.range_query(self._columns, order_column(sort), FieldType.Integer, None, key))
        expected, number = self._estimate(matching), limit + 1 + READ_AHEAD
        while True:
            hits, is_all = self._first(matching, sort, number, terms, expected)
            # Further rows may have the same key as the last one.
            certain = hits if is_all else [hit for hit in hits if hit[0] != hits[-1][0]]
            placed = sorted(
                ((entry_position(entry, sort), entry) for entry in (self.entry(address) for _, address in certain)),
                key=itemgetter(0),
            )
            if after is not None:
                placed = [one for one in placed if one[0] > (-after[0], after[1])]
            if is_all or len(placed) > limit:
                return EventPage([entry for _, entry in placed[:limit]], len(placed) > limit)
            number *= 2

    def value_counts(
        self, conditions: Mapping[str, Query], columns: Mapping[str, Collection[str]], *, is_exact: bool = False
    ) -> dict[str, ValueCounts]:
        """How many matching events have each value of the columns. Each column comes with the filters to ignore.

        Very many are counted in a sample, unless `is_exact`.
        """
        passes: dict[tuple[str, ...], list[str]] = {}
        for column, ignored in columns.items():
            passes.setdefault(tuple(name for name in ignored if name in conditions), []).append(column)
        counts: dict[str, ValueCounts] = {}
        for ignored, names in passes.items():
            matching = [query for name, query in conditions.items() if name not in ignored]
            part = 1 if is_exact else self._sample_part(matching)
            request = {
                name: {"terms": {"field": name, "size": MAX_BUCKETS, "segment_size": MAX_BUCKETS}} for name in names
            }
            if part > 1:
                matching.append(self._part(part))
            result = self._searcher.aggregate(self.query(matching), request)
            for name in names:
                values = {each["key"]: int(each["doc_count"]) * part for each in result[name]["buckets"]}
                counts[name] = ValueCounts(values, 1 / part)
        return counts

    def largest(self, conditions: Collection[Query], column: str) -> int | None:
        """The largest whole number in a column of the matching events."""
        hits = self._search(conditions, column, 1)
        return int(hits[0][0]) if hits else None

    def columns_of(self, conditions: Collection[Query], limit: int, names: Iterable[str]) -> dict[str, list[Any]]:
        """The values in numeric columns of the most significant matching events, in the order of pages."""
        hits = self._search(conditions, order_column("significance"), limit)
        ids = numbers(self._searcher, "id_number", [address for _, address in hits])
        in_order = sorted(zip(hits, ids, strict=True), key=lambda one: (-one[0][0], one[1]))
        addresses = [address for (_, address), _ in in_order]
        return {name: self._searcher.fast_field_values(name, addresses) for name in names}

    def place(self, number: int) -> tuple[str, str]:
        """The country and region with a place number, which an event has."""
        known = self._places.get(number)
        if known is None:
            matching = [Query.range_query(self._columns, "place", FieldType.Integer, number, number)]
            geo = self.entry(self._search(matching, "place", 1)[0][1]).event.geo
            known = self._places[number] = geo.country, geo.region
        return known

    def get(self, event_id: str) -> EventEntry | None:
        hits: Any = self._searcher.search(self.term("id", event_id), 1, count=False).hits
        return self.entry(hits[0][1]) if hits else None

    def term_counts(self, conditions: Collection[Query], column: str) -> dict[str, int]:
        """How many matching events have each term of a column."""
        return dict(self._searcher.terms_with_prefix(column, "", self.query(conditions)))

    def count_naming(self, entity: str) -> int:
        """How many relevant events name an entity."""
        known = self._naming.get(entity)
        if known is None:
            matching = [self.term("entities", entity), self.term("relevance", RELEVANT)]
            known = self._naming[entity] = self.count_exactly(matching)
        return known

    def naming(self, entities: Collection[str], rare: int, limit: int) -> list[EventEntry]:
        """Relevant events that name several of some entities, or one that at most `rare` events name.

        At most `limit`, those with the rarest names in common.
        """
        weights = {one: log(1 + len(self) / (1 + self.count_naming(one))) ** 2 for one in sorted(set(entities))}
        terms = {
            one: Query.boost_query(Query.const_score_query(self.term("entities", one), 1.0), weight)
            for one, weight in weights.items()
        }
        scored = [(Occur.Should, term) for term in terms.values()]
        either = [(Occur.Should, term) for one, term in terms.items() if self.count_naming(one) <= rare]
        if len(scored) > 1:
            either.append((Occur.Should, Query.boolean_query(scored, minimum_number_should_match=2)))
        if not either:
            return []
        relevant = Query.const_score_query(self.term("relevance", RELEVANT), 0.0)
        matching = Query.boolean_query([(Occur.Must, Query.boolean_query(either)), (Occur.Must, relevant)])
        hits: Any = self._searcher.search(matching, limit, count=False).hits
        return [self.entry(address) for _, address in hits]

    def entry(self, address: Any) -> EventEntry:
        body: Any = self._searcher.doc(address).get_first("body")
        return _decoder.decode(body)

    def _filter(self, name: str, value: Any) -> Query:
        """The query of a filter for a value that its rule has read."""
        if name == "bbox":
            return self._inside(value)
        if name == "q":
            return _all([self.term("words", word) for word in sorted(value)]) if value else Query.empty_query()
        if name == "min_confidence":
            exact = Query.range_query(self._columns, "confidence", FieldType.Float, value, None)
            return self._narrowed(exact, self._terms_between("confidence", index_rows.confidence_bucket(value), None))
        if name == "min_sources":
            exact = Query.range_query(self._columns, "sources", FieldType.Integer, value, None)
            return self._narrowed(exact, self._terms_between("sources", index_rows.sources_bucket(value), None))
        column = {"country": "country_code", "region": "region_key"}.get(name, name)
        return self.term(column, value)

    def _reported(self, since: datetime | None, until: datetime | None) -> Query:
        low = None if since is None else index_rows.microseconds(since) + 1
        high = None if until is None else index_rows.microseconds(until)
        if low is not None and high is not None and low > high:
            return Query.empty_query()
        first, last = (None if one is None else index_rows.minute_bucket(one) for one in (since, until))
        exact = Query.range_query(self._columns, "reported_at", FieldType.Integer, low, high)
        return self._narrowed(exact, self._terms_between("recent", first, last))

    def _inside(self, bbox: BoundingBox) -> Query:
        west, south, east, north = bbox
        south, north = sorted((south, north))
        spans = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
        latitudes = Query.range_query(self._columns, "latitude", FieldType.Float, south, north)
        longitudes = [Query.range_query(self._columns, "longitude", FieldType.Float, *span) for span in spans]
        terms: list[str] = []
        for begin, end in spans:
            (first, bottom), (last, top) = index_rows.cell(begin, south), index_rows.cell(end, north)
            for column in range(first, last + 1):
                terms += [bucket("cell", index_rows.cell_number(column, row)) for row in range(bottom, top + 1)]
        known = dict(self.buckets["cell"])
        return self._narrowed(_all([latitudes, _any(longitudes)]), [(one, known[one]) for one in terms if one in known])

    def _terms_between(self, name: str, first: int | None, last: int | None) -> list[tuple[str, int]]:
        """The buckets with numbers from one to another, and how many rows have them."""
        low = bucket(name, first or 0)
        high = bucket(name, 10**15 - 1 if last is None else last)
        return [one for one in self.buckets[name] if low <= one[0] <= high]

    def _narrowed(self, exact: Query, terms: Sequence[tuple[str, int]]) -> Query:
        """An exact condition, read by terms that all its rows have, if these are few in a large window."""
        rows = sum(count for _, count in terms)
        if len(self) <= EXACT_ROWS or len(terms) > MOST_TERMS or rows > MOST_SHARE * len(self):
            return exact
        return _all([_any([self.term("buckets", term) for term, _ in terms]), exact])

    @cached_property
    def buckets(self) -> dict[str, list[tuple[str, int]]]:
        """Every bucket by name, in the order of its terms, with its number of rows, removed ones included."""
        names = (*ORDERS, "confidence", "sources", "cell")
        return {name: sorted(self._searcher.terms_with_prefix("buckets", f"{name}:")) for name in names}

    def _part(self, part: int) -> Query:
        return self.term("parts", str(part))

    def _estimate(self, conditions: Collection[Query]) -> float:
        """How many events probably match; that of a small window is not needed, and 0."""
        if len(self) <= EXACT_ROWS:
            return 0.0
        part = max((part for part in PARTS if len(self) / part >= ESTIMATE_ROWS), default=2)
        return float(part * self.count_exactly([*conditions, self._part(part)]))

    def _sample_part(self, conditions: Collection[Query]) -> int:
        """Every how many rows to count for facets: 1 is all."""
        expected = self._estimate(conditions)
        if expected <= EXACT_MATCHES:
            return 1
        return max((part for part in PARTS if expected / part >= SAMPLED_MATCHES), default=1)

    def _terms_in_order(
        self, sort: Sort, after: tuple[int, str] | None, filters: EventFilter | None
    ) -> list[tuple[str, int]]:
        """The buckets of an order that may have matches after a cursor, and how many rows have them."""
        bounds = [index_rows.sort_bucket(sort, *after)] if after else []
        first = None
        if sort == "recent" and filters and filters.until:
            bounds.append(index_rows.minute_bucket(RULES["until"].read(filters.until)))
        if sort == "recent" and filters and filters.since:
            first = index_rows.minute_bucket(RULES["since"].read(filters.since))
        return self._terms_between(sort, first, min(bounds, default=None))[::-1]

    def _first(
        self, conditions: Collection[Query], sort: Sort, number: int, terms: list[tuple[str, int]], expected: float
    ) -> tuple[list[Any], bool]:
        """The first matching rows of an order, at most `number`, and whether there are no others."""
        if len(self) > EXACT_ROWS:
            reading = max(FEWEST_ROWS, SPARE * number * len(self) / max(expected, 1.0))
            reading = min(reading, sum(count for _, count in terms))
            while reading <= MOST_SHARE * len(self):
                chosen = _enough(terms, reading)
                if len(chosen) > MOST_TERMS:
                    break
                hits = self._search(
                    [_any([self.term("buckets", term) for term in chosen]), *conditions], order_column(sort), number
                )
                if len(hits) == number or len(chosen) == len(terms):
                    return hits, len(hits) < number
                reading *= GROWTH
        hits = self._search(conditions, order_column(sort), number)
        return hits, len(hits) < number

    def _search(self, conditions: Collection[Query], column: str, limit: int) -> list[Any]:
        """The rows with the largest numbers in a column, and those."""
        result: Any = self._searcher.search(
            self.query(conditions), limit, count=False, order_by_field=column, order=Order.Desc
        )
        return list(result.hits)


def count_rows(searcher: Searcher, query: Query) -> int:
    result: Any = searcher.search(query, 1, count=True)
    return int(result.count)


def numbers(searcher: Searcher, column: str, addresses: list[Any]) -> list[int]:
    """The whole numbers of rows in a column that all have."""
    values: Any = searcher.fast_field_values(column, addresses)
    return list(values)


def entry_position(entry: EventEntry, sort: Sort) -> Position:
    return position(index_rows.sort_value(entry, sort), entry.event.id)


def _enough(terms: Sequence[tuple[str, int]], rows: float) -> list[str]:
    """The first terms that together have this many rows."""
    chosen, sum_of_rows = [], 0
    for term, count in terms:
        chosen.append(term)
        sum_of_rows += count
        if sum_of_rows >= rows:
            break
    return chosen


def _all(queries: Collection[Query]) -> Query:
    if not queries:
        return Query.all_query()
    return Query.boolean_query([(Occur.Must, Query.const_score_query(query, 0.0)) for query in queries])


def _any(queries: Collection[Query]) -> Query:
    if not queries:
        return Query.empty_query()
    return Query.boolean_query([(Occur.Should, query) for query in queries])
