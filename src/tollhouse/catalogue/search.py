"""Searches in the index: filters, exact totals, one page in a stable order, and the items similar to one."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from msgspec import Struct
from tantivy import Occur
from tantivy import Query as IndexQuery

from tollhouse.catalogue import index
from tollhouse.catalogue.cursors import FIRST, read_cursor, write_cursor
from tollhouse.catalogue.index import Hit, View
from tollhouse.catalogue.items import Comparable, Item, bound, comparable, comparable_values
from tollhouse.catalogue.query import CatalogueQuery, Clause, Range, Value
from tollhouse.catalogue.reranking import RERANKED, reranked
from tollhouse.catalogue.schema import RANGED, Field
from tollhouse.catalogue.scoring import Ranking, all_of, any_of
from tollhouse.catalogue.term_matching import Match, Matcher
from tollhouse.catalogue.tokens import query_words

# Above this many items of one score, they are ordered by segment, and by id only within a segment.
MAX_SORTED_TIES = 1_000
# This many ties are read with a page, to save a second search. In a large catalogue a second search is slower than
# reading more.
READ_TIES, LARGE = 100, 100_000
# A choice is searched if it has this many rows per requested item, and not more than this share of the matches.
MIN_ROWS_PER_ITEM, MAX_SHARE = 50, 1.5
# This many times more rows of a sample are read than needed on average.
SPARE = 4
EVERYTHING = IndexQuery.all_query()

# Inclusive; None is an open end.
Interval = tuple[float | None, float | None]

# Numbers that differ by at most this share are similar.
SIMILAR_NUMBER_SHARE = 0.2


class Conditions(Struct, frozen=True):
    """A query for the index: the matches of the text, their ranking, and one filter per field.

    `intervals` are the filters that are only a range of one number. `heads` are those of `Match`.
    """

    view: View
    matches: IndexQuery
    ranking: Ranking
    filters: dict[str, IndexQuery]
    intervals: dict[str, Interval]
    heads: frozenset[str]

    def without(self, name: str | None) -> IndexQuery:
        """All conditions except the filter on one field, unscored."""
        return _narrowed(self.matches, [query for field, query in self.filters.items() if field != name])

    @property
    def is_none(self) -> bool:
        return self.matches is EVERYTHING and not self.filters

    def count(self) -> int:
        return len(self.view) if self.is_none else self.view.count(self.all)

    @property
    def all(self) -> IndexQuery:
        """All conditions, unscored."""
        return self.without(None)

    def ranked(self, scored: IndexQuery) -> IndexQuery:
        """The scored items that pass all filters."""
        return _narrowed(scored, list(self.filters.values()))


def build_conditions(view: View, query: CatalogueQuery, match: Match | None) -> Conditions:
    """The conditions of a validated query with the given matches of its text."""
    parts: dict[str, list[IndexQuery]] = {}
    for name, values in query.any_of.items():
        parts[name] = [_any_of(view, view.schema.by_name[name], values)]
    intervals = {name: _interval(view.schema.by_name[name], ends) for name, ends in query.between.items()}
    for name, interval in intervals.items():
        parts.setdefault(name, []).append(_within(view, view.schema.by_name[name], interval))
    for number, group in enumerate(query.where):
        names = {clause.field for clause in group}
        own = names.pop() if len(names) == 1 else f"group {number}"
        parts.setdefault(own, []).append(any_of([_clause(view, clause) for clause in group]))
    filters = {name: all_of(queries) for name, queries in parts.items()}
    intervals = {name: interval for name, interval in intervals.items() if len(parts[name]) == 1}
    if match is None:
        return Conditions(view, EVERYTHING, Ranking(EVERYTHING), filters, intervals, frozenset())
    return Conditions(view, match.matches, match.ranking, filters, intervals, match.heads)


def read_page(where: Conditions, query: CatalogueQuery, total: int | None = None) -> tuple[int, list[Item], str | None]:
    """The number of matches (`total` if it is known), the items of the page, and the cursor of the next page."""
    view, until = where.view, query.offset + query.limit
    if query.limit and query.text is not None and not query.sort:
        return *_most_relevant(where, until, total, query.offset), None
    total = where.count() if total is None else total
    if not query.limit or query.offset >= total:
        return total, [], None
    return total, *_by_column(view, where.all, query)


def best_matches(view: View, matching: IndexQuery, limit: int) -> list[Item]:
    """The items with the highest scores, ties by id."""
    _, hits = _by_score(view, matching, limit)
    return [view.item(address) for address in _ordered(view, hits, 0, limit)]


def all_matches(where: Conditions) -> Iterator[Item]:
    view, matching = where.view, where.all
    total = view.count(matching)
    for _, address in view.first(matching, "id", total) if total else ():
        yield view.item(address)


def _most_relevant(where: Conditions, until: int, total: int | None, offset: int) -> tuple[int, list[Item]]:
    """The number of matches, and the items from `offset` to `until`, products before their accessories."""
    view, reads = where.view, max(until, RERANKED)
    if offset >= RERANKED or not where.heads:
        total, hits = _ranked(where, until, total)
        return total, [view.item(address) for address in _ordered(view, hits, offset, until)]
    total, hits = _ranked(where, reads, total)
    items = [view.item(address) for address in _ordered(view, hits, 0, reads)]
    scores = [score for score, _ in hits[:RERANKED]]
    best = reranked(view, where.heads, scores, items[:RERANKED])
    return total, [*best, *items[RERANKED:]][offset:until]


def _ranked(where: Conditions, until: int, total: int | None) -> tuple[int, list[Hit]]:
    """The number of matches, and the best of them."""
    choice = where.ranking.choice
    if choice:
        total = where.count() if total is None else total
        hits = _among_few(where, where.ranking, choice, until, total)
        if hits:
            return total, hits
    return _by_score(where.view, where.ranked(where.ranking.scored), until)


def _among_few(
    where: Conditions, ranking: Ranking, choice: Callable[[int], IndexQuery], until: int, total: int
) -> list[Hit]:
    """The best of all items, found in a small choice of them; empty if no small choice is certain to have them."""
    sizes = range(until * MIN_ROWS_PER_ITEM, int(total * MAX_SHARE))
    number = next((number for number, rows in enumerate(ranking.rows) if rows in sizes), None)
    while number is not None:
        _, hits = _by_score(where.view, where.ranked(choice(number)), until)
        if len(hits) < until:
            return []
        least = hits[until - 1][0]
        if least > ranking.rests[number]:
            return hits
        # A larger choice cannot have lower best scores.
        larger = zip(ranking.rows, ranking.rests, strict=True)
        number = next((number for number, (rows, rest) in enumerate(larger) if rest < least and rows in sizes), None)
    return []


def _by_score(view: View, matching: IndexQuery, until: int) -> tuple[int, list[Hit]]:
    """The best hits, with all ties of the last one if some of them may have smaller ids."""
    if view.is_one_segment:
        return view.best(matching, until)
    most = until + MAX_SORTED_TIES + 1
    limit = most if len(view) > LARGE else until + READ_TIES
    total, hits = view.best(matching, limit)
    if limit < most and total > len(hits) and hits[-1][0] == hits[until - 1][0]:
        return view.best(matching, most)
    return total, hits


def _by_column(view: View, matching: IndexQuery, query: CatalogueQuery) -> tuple[list[Item], str | None]:
    """A page ordered by a field, and the cursor of the next if the query has one.

    Ties across the end of a page are searched by their value, ordered by id.
    """
    name = query.sort.removeprefix("-") or "id"
    is_descending = query.sort.startswith("-")
    field = view.schema.by_name[name]
    column = index.order_column(name, is_descending=is_descending)
    backwards = is_descending and field.type in ("keyword", "keywords")
    if query.cursor not in ("", FIRST):
        after = _after(view, field, column, read_cursor(query.cursor, field), backwards=backwards)
        matching = all_of([matching, after])
    until = query.offset + query.limit
    many = until + READ_TIES
    hits = _by_sample(view, matching, field, column, many) or view.first(matching, column, many, backwards=backwards)
    items: list[Item] = []
    at = 0
    for value, ties in groupby(hits, key=itemgetter(0)):
        group = list(ties)
        start, end = max(query.offset - at, 0), until - at
        if start < len(group) and end > 0:
            # There may be more ties of the last value than were read.
            is_whole = at + len(group) < len(hits) or len(hits) < many
            if len(group) > READ_TIES or not is_whole:
                same = index.equal(view.columns, field.type, column, value)
                both = IndexQuery.boolean_query([(Occur.Must, matching), (Occur.Must, same)])
                items += [view.item(address) for _, address in view.first(both, "id", end)[start:]]
            else:
                items += [view.item(address) for address in _ordered(view, group, start, end)]
        at += len(group)
    if not query.cursor or len(hits) <= until:
        return items, None
    return items, write_cursor(hits[until - 1][0], index.text_place(items[-1]["id"]))


def _after(view: View, field: Field, column: str, place: tuple[Comparable, str], *, backwards: bool) -> IndexQuery:
    """Rows after a place in an order: those with later values, and those with the same value and a later id."""
    value, identity = place
    parts = [view.beyond(field, column, value, backwards=backwards)]
    if column != "id":
        later = view.beyond(view.schema.by_name["id"], "id", identity)
        parts.append(all_of([index.equal(view.columns, field.type, column, value), later]))
    return any_of(parts)


def _by_sample(view: View, matching: IndexQuery, field: Field, column: str, limit: int) -> list[Hit]:
    """The first rows by a column, read only below a bound that is estimated from a sample.

    Empty if there is no such bound, or if it would not be faster.
    """
    if len(view) <= LARGE or field.type not in RANGED:
        return []
    some = IndexQuery.boolean_query([(Occur.Must, matching), (Occur.Must, view.sample)])
    enough = SPARE * (1 + limit // index.SAMPLED)
    reaching = view.first(some, column, enough)
    if len(reaching) < enough:
        return []
    below = index.between(view.columns, field.type, column, None, reaching[-1][0])
    hits = view.first(IndexQuery.boolean_query([(Occur.Must, matching), (Occur.Must, below)]), column, limit)
    return hits if len(hits) == limit else []


def _ordered(view: View, hits: Sequence[Hit], start: int, end: int) -> Iterator[Any]:
    """The addresses from `start` to `end`, with ties ordered by id unless there are too many."""
    at = 0
    for _, equals in groupby(hits, key=itemgetter(0)):
        group = [address for _, address in equals]
        if at < end and at + len(group) > start:
            in_order = _by_id(view, group) if len(group) <= MAX_SORTED_TIES else iter(group)
            yield from islice(in_order, max(start - at, 0), end - at)
        at += len(group)


def _by_id(view: View, equals: Sequence[Any]) -> Iterator[Any]:
    """Rows ordered by id. Segments are sorted already; several are merged, reading only the ids needed."""
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


def _clause(view: View, clause: Clause) -> IndexQuery:
    if not clause.field:
        texts = [text for text in map(str, clause.values) if query_words(text)]
        having = any_of([_has_words(view, index.STEMS, text) for text in texts])
    elif clause.words:
        having = _has_words(view, index.stems_column(clause.field), clause.words)
    elif clause.ends is None:
        having = _any_of(view, view.schema.by_name[clause.field], clause.values)
    else:
        field = view.schema.by_name[clause.field]
        having = _within(view, field, _interval(field, clause.ends))
    if not clause.negated:
        return having
    return IndexQuery.boolean_query([(Occur.Must, EVERYTHING), (Occur.MustNot, having)])


def _has_words(view: View, column: str, text: str) -> IndexQuery:
    return all_of([index.equal(view.columns, "text", column, word.stem) for word in query_words(text)])


def _interval(field: Field, ends: Range) -> Interval:
    low = None if ends.minimum is None else bound(field.type, ends.minimum, is_minimum=True)
    high = None if ends.maximum is None else bound(field.type, ends.maximum, is_minimum=False)
    return low, high


def _within(view: View, field: Field, interval: Interval) -> IndexQuery:
    if interval == (None, None):
        return EVERYTHING
    return index.between(view.columns, field.type, index.value_column(field), *interval)


def _any_of(view: View, field: Field, values: Sequence[Value]) -> IndexQuery:
    column = index.value_column(field) if field.name != "id" else "id"
    compared = [
        index.text_place(str(value)) if field.name == "id" else comparable(field.type, value) for value in values
    ]
    return any_of([index.equal(view.columns, field.type, column, value) for value in compared])


def get_item(view: View, identity: str) -> Item | None:
    _, hits = view.best(_this(view, identity), 1)
    return view.item(hits[0][1]) if hits else None


def find_similar(view: View, matcher: Matcher, identity: str, limit: int) -> list[Item]:
    """The items most similar to this one; empty for an unknown id."""
    item = get_item(view, identity)
    if item is None or limit <= 0:
        return []
    similar = [(Occur.Should, query) for query in _similarity_queries(view, matcher, item)]
    if not similar:
        return []
    others = IndexQuery.boolean_query([*similar, (Occur.MustNot, _this(view, identity))])
    return best_matches(view, others, limit)


def _similarity_queries(view: View, matcher: Matcher, item: Item) -> Iterator[IndexQuery]:
    words = query_words(str(item.get(view.schema.title, "")))
    for stemmed in dict.fromkeys(word.stem for word in words):
        yield matcher.score(stemmed)
    for name, weight in view.schema.alike.items():
        field = view.schema.by_name[name]
        for value in comparable_values(view.schema, item, name) if field.filtered else ():
            yield IndexQuery.boost_query(_alike(view, field, value), weight)


def _alike(view: View, field: Field, value: Comparable) -> IndexQuery:
    column = index.value_column(field)
    if isinstance(value, str) or field.type not in RANGED or field.type == "timestamp":
        return IndexQuery.const_score_query(index.equal(view.columns, field.type, column, value), 1.0)
    low, high = sorted((value * (1 - SIMILAR_NUMBER_SHARE), value * (1 + SIMILAR_NUMBER_SHARE)))
    ends = (low, high) if field.type == "number" else (round(low), round(high))
    return IndexQuery.const_score_query(index.between(view.columns, field.type, column, *ends), 1.0)


def _this(view: View, identity: str) -> IndexQuery:
    return IndexQuery.term_query(view.columns, "id", index.text_place(identity), index_option="basic")
