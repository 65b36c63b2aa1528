"""What a query finds: filters, exact totals, and one page in a stable order."""

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from msgspec import Struct
from tantivy import Occur
from tantivy import Query as IndexQuery

from tollhouse.catalogue import columns
from tollhouse.catalogue.index import Hit, View
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.matching import Match
from tollhouse.catalogue.query import Between, Query, Value
from tollhouse.catalogue.schema import Field
from tollhouse.catalogue.values import bound, comparable

# More items of one score come in the order of the index's segments, and by id only within each.
MOST_EQUALS = 1_000
# So many are read along with a page, lest a second search be needed for them.
SOME_EQUALS = 100
EVERYTHING = IndexQuery.all_query()


class Conditions(Struct, frozen=True):
    """A query as the index takes it: what the text means, the same scored, and one filter for each field."""

    view: View
    meant: IndexQuery
    scored: IndexQuery
    filters: dict[str, IndexQuery]

    def without(self, name: str | None) -> IndexQuery:
        """All conditions but the filter on one field, unscored."""
        return _narrowed(self.meant, [query for field, query in self.filters.items() if field != name])

    @property
    def is_none(self) -> bool:
        """Whether every item matches."""
        return self.meant is EVERYTHING and not self.filters

    def count(self) -> int:
        """How many items match."""
        return len(self.view) if self.is_none else self.view.count(self.all)

    @property
    def all(self) -> IndexQuery:
        """All conditions, unscored."""
        return self.without(None)

    @property
    def ranked(self) -> IndexQuery:
        """All conditions, scored by the text."""
        return _narrowed(self.scored, list(self.filters.values()))


def conditions(view: View, query: Query, match: Match | None) -> Conditions:
    """The conditions of a checked query, whose text means `match`."""
    filters: dict[str, IndexQuery] = {}
    for name in {**query.any_of, **query.between}:
        field = view.schema.by_name[name]
        parts = []
        if name in query.any_of:
            parts.append(_any_of(view, field, query.any_of[name]))
        if name in query.between:
            parts.append(_between(view, field, query.between[name]))
        filters[name] = IndexQuery.boolean_query([(Occur.Must, part) for part in parts])
    meant, scored = (match.meant, match.scored) if match else (EVERYTHING, EVERYTHING)
    return Conditions(view, meant, scored, filters)


def page(where: Conditions, query: Query) -> tuple[int, list[Item]]:
    """How many items match, and those of the page."""
    view, until = where.view, query.offset + query.limit
    if not query.limit:
        return where.count(), []
    if query.sort or query.text is None:
        total = where.count()
        return total, _by_column(view, where.all, query) if query.offset < total else []
    total, hits = _by_score(view, where.ranked, until)
    return total, [view.item(address) for address in _ordered(view, hits, query.offset, until)]


def best(view: View, matching: IndexQuery, limit: int) -> list[Item]:
    """The items of the highest scores, equals by id."""
    _, hits = _by_score(view, matching, limit)
    return [view.item(address) for address in _ordered(view, hits, 0, limit)]


def every(where: Conditions) -> Iterator[Item]:
    """Every matching item, by id."""
    view, matching = where.view, where.all
    total = view.count(matching)
    for _, address in view.first(matching, "id", total) if total else ():
        yield view.item(address)


def _by_score(view: View, matching: IndexQuery, until: int) -> tuple[int, list[Hit]]:
    """The best hits, and with them the equals of the last one where some of those may have smaller ids."""
    if view.is_one_segment:
        return view.best(matching, until)
    total, hits = view.best(matching, until + SOME_EQUALS)
    if total > len(hits) and hits[-1][0] == hits[until - 1][0]:
        return view.best(matching, until + MOST_EQUALS + 1)
    return total, hits


def _by_column(view: View, matching: IndexQuery, query: Query) -> list[Item]:
    """A page ordered by a field. Equals that the page cuts through are looked up by their value, in the order of id."""
    name = query.sort.removeprefix("-") or "id"
    is_descending = query.sort.startswith("-")
    field = view.schema.by_name[name]
    column = columns.order_column(name, is_descending=is_descending)
    backwards = is_descending and field.type in ("keyword", "keywords")
    until = query.offset + query.limit
    hits = view.first(matching, column, until + 1, backwards=backwards)
    found: list[Item] = []
    at = 0
    for value, equals in groupby(hits, key=itemgetter(0)):
        group = list(equals)
        start, end = max(query.offset - at, 0), until - at
        if start < len(group) and end > 0:
            is_whole = at >= query.offset and at + len(group) <= until
            if not is_whole and len(group) > 1:
                same = columns.equal(view.columns, field.type, column, value)
                both = IndexQuery.boolean_query([(Occur.Must, matching), (Occur.Must, same)])
                found += [view.item(address) for _, address in view.first(both, "id", end)[start:]]
            else:
                found += [view.item(address) for address in _ordered(view, group, start, end)]
        at += len(group)
    return found


def _ordered(view: View, hits: Sequence[Hit], start: int, end: int) -> Iterator[Any]:
    """The addresses from `start` to `end` of hits whose equals, unless they are too many, are put in order of id."""
    at = 0
    for _, equals in groupby(hits, key=itemgetter(0)):
        group = [address for _, address in equals]
        if at < end and at + len(group) > start:
            in_order = _by_id(view, group) if len(group) <= MOST_EQUALS else iter(group)
            yield from islice(in_order, max(start - at, 0), end - at)
        at += len(group)


def _by_id(view: View, equals: Sequence[Any]) -> Iterator[Any]:
    """Rows of one segment lie by id already; those of several are merged, reading no more ids than are needed."""
    segments: dict[int, list[Any]] = {}
    for address in equals:
        segments.setdefault(address.segment_ord, []).append(address)
    runs = [sorted(each, key=lambda address: address.doc) for each in segments.values()]
    return iter(runs[0]) if len(runs) == 1 else heapq.merge(*runs, key=lambda address: view.item(address)["id"])


def _narrowed(query: IndexQuery, filters: Sequence[IndexQuery]) -> IndexQuery:
    if not filters:
        return query
    unscored = [(Occur.Must, IndexQuery.const_score_query(each, 0.0)) for each in filters]
    return IndexQuery.boolean_query([(Occur.Must, query), *unscored])


def _any_of(view: View, field: Field, values: Sequence[Value]) -> IndexQuery:
    column = columns.value_column(field) if field.name != "id" else "id"
    found = [value if field.name == "id" else comparable(field.type, value) for value in values]
    wanted = [columns.equal(view.columns, field.type, column, value) for value in found]
    return wanted[0] if len(wanted) == 1 else IndexQuery.boolean_query([(Occur.Should, each) for each in wanted])


def _between(view: View, field: Field, ends: Between) -> IndexQuery:
    low = None if ends.minimum is None else bound(field.type, ends.minimum, is_minimum=True)
    high = None if ends.maximum is None else bound(field.type, ends.maximum, is_minimum=False)
    if low is None and high is None:
        return IndexQuery.all_query()
    return columns.between(view.columns, field.type, columns.value_column(field), low, high)
