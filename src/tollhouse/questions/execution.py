"""Runs queries over the rows of a service, column by column, so that a million rows take milliseconds."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tollhouse.questions.query import (
    AllOf,
    Among,
    AnyOf,
    Call,
    Compare,
    Condition,
    Exists,
    Figure,
    Groups,
    List,
    Measure,
    Not,
    Open,
    Order,
    Query,
    Related,
    Rows,
    Scalar,
    Share,
    Test,
    operands,
)
from tollhouse.questions.vocabulary import CallResult, Dataset

Mask: TypeAlias = NDArray[np.bool_]
Places: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.float64]

_WORD = re.compile(r"\w+")
DAY_SECONDS = 86_400
# A superlative names this many equals at most.
MOST_EQUALS = 25
# Of more rows than these, only so many are brought into an order.
MOST_SORTED = 1_000
# How many rows of a group support what is said of it.
MOST_EVIDENCE = 100
# How many conditions on one attribute are kept as masks.
MOST_TESTS = 64


class Side(Struct, frozen=True):
    """One group or side of an answer: its name, its measure (None where no row has a value), and its rows' places."""

    name: str
    value: float | None
    places: Places


class Result(Struct, frozen=True):
    """What a query selected.

    `places` are indices into the rows of `kind`, in the answer's order; `total` counts them before the limit. `value`
    is the number asked for: 1 and 0 for yes and no, percent for a share. Of a share that asks whether every row is in
    it, `places` are the rows that are not, or all where it is so.
    """

    query: Query
    kind: str = ""
    places: Places = np.empty(0, np.int64)
    total: int = 0
    value: float | None = None
    sides: tuple[Side, ...] = ()
    called: CallResult | None = None


class _Column(Struct, frozen=True):
    """Values of an attribute: value `i` belongs to row `row[i]`. `code` numbers the distinct `values`.

    `number` holds numbers, or seconds since 1970 for times; it is empty for keywords. `is_single`: each row has exactly
    one value, so that `row` counts up.
    """

    row: Places
    code: NDArray[Any]
    values: tuple[Scalar | datetime, ...]
    number: Numbers
    is_single: bool

    def having(self, codes: Sequence[int]) -> Mask:
        """Which values are one of these."""
        chosen = np.zeros(len(self.values), bool)
        chosen[list(codes)] = True
        hits: Mask = chosen[self.code]
        return hits


def _of_numbers(numbers: NDArray[Any]) -> _Column:
    """One number of each row, of those that have one."""
    row = np.flatnonzero(np.isfinite(numbers))
    known = numbers[row].astype(float)
    distinct, code = np.unique(known, return_inverse=True)
    return _Column(row, code.astype(np.int64), tuple(distinct.tolist()), known, is_single=len(row) == len(numbers))


class _Links(Struct, frozen=True):
    """The links of a relation, as places of their ends."""

    source: Places
    target: Places
    links: tuple[Any, ...]


class Tables:
    """The columns, links and word indexes of one dataset, each made when it is first used."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.kinds = {kind.name: kind for kind in dataset.declaration.kinds}
        self.relations = {relation.name: relation for relation in dataset.declaration.relations}
        self._columns: dict[tuple[str, str], _Column] = {}
        self._links: dict[str, _Links] = {}
        self._words: dict[str, dict[str, Places]] = {}
        self._places: dict[str, dict[str, int]] = {}
        self._are_days: dict[tuple[str, str], bool] = {}
        self._amounts: dict[tuple[str, str], Numbers] = {}
        self._tests: dict[tuple[str, Test], Mask] = {}

    def run(self, query: Query) -> Result:
        """The result of a query.

        Raises KeyError for a kind, attribute, relation or operation that is not declared, and for an operation on
        no row.
        """
        return cast("Callable[[Tables, Query], Result]", _RUNNERS[type(query)])(self, query)

    def size(self, kind: str) -> int:
        return len(self.dataset.rows(kind))

    def place_of(self, kind: str, identity: str) -> int | None:
        """The place of the row with this id."""
        if kind not in self._places:
            self._places[kind] = {self.dataset.id(kind, row): i for i, row in enumerate(self.dataset.rows(kind))}
        return self._places[kind].get(identity)

    def passing(self, rows: Rows, *, is_listed: bool = True) -> Places:
        """The places of the rows that pass, without limit: in their order where they are listed, or few."""
        passes = self.mask(rows.kind, rows.where)
        if rows.of is not None:
            called = self.run(rows.of)
            passes = passes & (self._at(rows.kind, called.places) if called.kind == rows.kind else False)
        places = np.flatnonzero(passes)
        order = rows.order
        if order is None and (usual := self.kinds[rows.kind].usual_order) and (is_listed or len(places) <= MOST_SORTED):
            order = Order(usual.removeprefix("-"), descending=usual.startswith("-"))
        return self._sorted(rows, places, order) if order else places

    def select(self, rows: Rows, *, is_listed: bool = True) -> tuple[Places, int]:
        """The places of the rows that are asked for, and how many pass without the limit."""
        places = self.passing(rows, is_listed=is_listed)
        chosen = places[rows.skip :] if rows.limit is None else places[rows.skip : rows.skip + rows.limit]
        if rows.limit == 1 and rows.order and len(chosen):
            amounts = self.amounts(rows.kind, rows.order.by)
            rest = places[rows.skip + 1 : rows.skip + MOST_EQUALS]
            chosen = np.concatenate([chosen, rest[amounts[rest] == amounts[chosen[0]]]])
        if rows.order and rows.limit is not None:
            # What has no value is neither the most nor the least.
            chosen = chosen[~np.isnan(self.amounts(rows.kind, rows.order.by)[chosen])]
        return chosen, len(places)

    def _sorted(self, rows: Rows, places: Places, order: Order) -> Places:
        """In their order; of very many rows just the first ones, which are all that an answer shows."""
        amounts = self.amounts(rows.kind, order.by)[places]
        keys = np.where(np.isnan(amounts), np.inf, -amounts if order.descending else amounts)
        shown = rows.skip + (rows.limit or 0) + MOST_SORTED
        if len(places) <= 2 * shown:
            return places[np.argsort(keys, kind="stable")]
        last = np.partition(keys, shown)[shown]
        leading = np.flatnonzero(keys <= last)
        leading = leading[np.argsort(keys[leading], kind="stable")][:shown]
        rest = np.ones(len(places), bool)
        rest[leading] = False
        return np.concatenate([places[leading], places[rest]])

    def amounts(self, kind: str, attribute: str) -> Numbers:
        """One number of each row to order by, NaN without one; keywords are numbered alphabetically."""
        at = kind, attribute
        if at not in self._amounts:
            self._amounts[at] = self._as_amounts(kind, attribute)
        return self._amounts[at]

    def are_days(self, kind: str, attribute: str) -> bool:
        """Whether all times of an attribute are days, without an hour."""
        at = kind, attribute
        if at not in self._are_days:
            self._are_days[at] = not np.any(self.column(kind, attribute).number % DAY_SECONDS)
        return self._are_days[at]

    def _as_amounts(self, kind: str, attribute: str) -> Numbers:
        column = self.column(kind, attribute)
        if len(column.number) and column.is_single:
            return column.number
        result = np.full(self.size(kind), np.nan)
        if len(column.number):
            result[column.row[::-1]] = column.number[::-1]
        else:
            ranks = (
                np.argsort(np.argsort([fold(str(value)) for value in column.values])) if column.values else column.code
            )
            result[column.row[::-1]] = np.asarray(ranks)[column.code[::-1]]
        return result

    def mask(self, kind: str, condition: Condition) -> Mask:  # noqa: PLR0911
        """Which rows pass."""
        if isinstance(condition, AllOf):
            if not condition.of:
                return np.ones(self.size(kind), bool)
            result = self.mask(kind, condition.of[0])
            for part in condition.of[1:]:
                result = result & self.mask(kind, part)
            return result
        if isinstance(condition, AnyOf):
            result = np.zeros(self.size(kind), bool)
            for part in condition.of:
                result |= self.mask(kind, part)
            return result
        if isinstance(condition, Not):
            return ~self.mask(kind, condition.of)
        if isinstance(condition, Related):
            return self._related(kind, condition)
        if isinstance(condition, Among):
            return self._at(kind, self.select(condition.rows)[0])
        return self._tested(kind, condition)

    def _at(self, kind: str, places: Places) -> Mask:
        """The rows at these places."""
        result = np.zeros(self.size(kind), bool)
        result[places] = True
        return result

    def _tested(self, kind: str, test: Test) -> Mask:
        """Which rows pass; the newest tests are kept, because the questions of a conversation share them."""
        at = kind, test
        mask = self._tests.pop(at, None)
        if mask is None:
            mask = self._containing(kind, test) if test.comparison == "contains" else self._compared(kind, test)
            while len(self._tests) >= MOST_TESTS:
                del self._tests[next(iter(self._tests))]
        self._tests[at] = mask
        return mask

    def _compared(self, kind: str, test: Test) -> Mask:
        if test.attribute == "id" and test.comparison == "is":
            result = np.zeros(self.size(kind), bool)
            places = (self.place_of(kind, str(value)) for value in test.values)
            result[[place for place in places if place is not None]] = True
            return result
        if test.of_row:
            place = self.place_of(kind, test.of_row)
            value = np.nan if place is None else self.amounts(kind, test.attribute)[place]
            if np.isnan(value):
                return np.zeros(self.size(kind), bool)
            test = Test(test.attribute, test.comparison, (float(value),))
        column = self.column(kind, test.attribute)
        return self._of_rows(kind, column, _hits(column, test))

    def _of_rows(self, kind: str, column: _Column, hits: Mask) -> Mask:
        """Which rows have one of the values."""
        if column.is_single:
            return hits
        result = np.zeros(self.size(kind), bool)
        result[column.row[hits]] = True
        return result

    def _containing(self, kind: str, test: Test) -> Mask:
        result = np.zeros(self.size(kind), bool)
        if test.attribute not in ("", "text"):
            column = self.column(kind, test.attribute)
            passing = [code for code, value in enumerate(column.values) if _link_passes((value,), test)]
            return self._of_rows(kind, column, column.having(passing))
        index = self.words(kind)
        empty = np.empty(0, np.int64)
        for value in test.values:
            complete: Mask | None = None
            for word in words_of(str(value)):
                one = np.zeros(self.size(kind), bool)
                one[index.get(word, empty)] = True
                complete = one if complete is None else complete & one
            if complete is not None:
                result |= complete
        return result

    def _related(self, kind: str, condition: Related) -> Mask:
        self._links_of(kind, condition.relation, is_source=condition.outgoing)
        links, hit = self._linked(condition)
        near, far = self._ends(condition, links)
        relation = self.relations[condition.relation]
        other = relation.target if condition.outgoing else relation.source
        passes = self.mask(other, condition.to)
        if condition.every or condition.at_least is not None or condition.at_most is not None:
            return self._counted(condition, near, far, hit & passes[far], int(passes.sum()))
        result = named = np.zeros(self.size(kind), bool)
        if condition.transitive and isinstance(condition.to, Test) and condition.to.attribute == "id" and kind == other:
            # Nothing depends on itself, even where a ring of links leads back to it.
            named = passes
        result = result.copy()
        while True:
            fresh = near[hit & passes[far]]
            if result[fresh].all():
                return result & ~named
            result[fresh] = True
            if not condition.transitive or kind != other:
                return result & ~named
            passes = passes | result

    def _counted(self, condition: Related, near: Places, far: Places, hit: Mask, every: int) -> Mask:
        """Which rows a relation joins with so many different rows; `every` is how many there are."""
        relation = self.relations[condition.relation]
        kind = relation.source if condition.outgoing else relation.target
        pairs = np.unique(np.stack([near[hit], far[hit]]), axis=1)
        counts = np.bincount(pairs[0], minlength=self.size(kind))
        at_least = max(1, every) if condition.every else condition.at_least or 0
        at_most = np.inf if condition.at_most is None else condition.at_most
        result: Mask = (counts >= at_least) & (counts <= at_most)
        return result

    def _linked(self, condition: Related) -> tuple[_Links, Mask]:
        """The relation's links, and which of them the condition's own tests let through."""
        links = self.links(condition.relation)
        if self.relations[condition.relation].symmetric:
            both = np.concatenate([links.source, links.target]), np.concatenate([links.target, links.source])
            links = _Links(*both, links.links + links.links)
        hit = np.ones(len(links.links), bool)
        for test in condition.link:
            values = [tuple(self.dataset.link_values(condition.relation, link, test.attribute)) for link in links.links]
            hit &= np.array([_link_passes(each, test) for each in values], bool)
        return links, hit

    @staticmethod
    def _ends(condition: Related, links: _Links) -> tuple[Places, Places]:
        return (links.source, links.target) if condition.outgoing else (links.target, links.source)

    def links_behind(self, places: Places, condition: Condition) -> list[tuple[str, Any]]:
        """The links by which these rows pass the condition, with their relation's name; none for a negation."""
        if isinstance(condition, AllOf | AnyOf):
            return [link for part in condition.of for link in self.links_behind(places, part)]
        if not isinstance(condition, Related):
            return []
        links, hit = self._linked(condition)
        near, far = self._ends(condition, links)
        relation = self.relations[condition.relation]
        other = relation.target if condition.outgoing else relation.source
        passes = self.mask(other, condition.to)
        if condition.transitive:
            passes = passes | self._related(other, condition)
        hit = hit & np.isin(near, places) & passes[far]
        return [(condition.relation, links.links[i]) for i in np.flatnonzero(hit)]

    def column(self, kind: str, attribute: str) -> _Column:
        """The values of an attribute; "RELATION.in", "RELATION.out" and "ATTRIBUTE.values" are numbers of them.

        Those of a computed attribute are numbers too.
        """
        at = kind, attribute
        if at not in self._columns:
            name, _, side = attribute.partition(".")
            if operands(attribute)[1]:
                self._columns[at] = _of_numbers(self._computed(kind, *operands(attribute)))
            elif side in ("in", "out") and name in self.relations:
                self._columns[at] = self._linked_rows(kind, name, side)
            elif side == "values":
                rows = self.column(kind, name).row
                self._columns[at] = _of_numbers(np.bincount(rows, minlength=self.size(kind)))
            else:
                self._columns[at] = self._read(kind, attribute)
        return self._columns[at]

    def _read(self, kind: str, attribute: str) -> _Column:
        read = self.dataset.values
        if attribute == "id":
            values: list[tuple[Scalar | datetime, ...]] = [
                (self.dataset.id(kind, row),) for row in self.dataset.rows(kind)
            ]
        else:
            if attribute not in {declared.name for declared in self.kinds[kind].attributes}:
                raise KeyError(attribute)
            values = [tuple(read(kind, row, attribute)) for row in self.dataset.rows(kind)]
        lengths = np.fromiter((len(each) for each in values), np.int64, len(values))
        flat = [value for each in values for value in each]
        codes = {value: code for code, value in enumerate(dict.fromkeys(flat))}
        rows = np.repeat(np.arange(len(values)), lengths)
        code = np.fromiter((codes[value] for value in flat), np.int64, len(flat))
        numbers = [_as_number(value) for value in codes]
        known = np.array(numbers, float)[code] if numbers and None not in numbers else np.empty(0)
        return _Column(
            rows, code.astype(np.min_scalar_type(len(codes))), tuple(codes), known, bool((lengths == 1).all())
        )

    def _linked_rows(self, kind: str, relation: str, side: str) -> _Column:
        links = self._links_of(kind, relation, is_source=side == "out")
        near, far = (links.source, links.target) if side == "out" else (links.target, links.source)
        pairs = np.unique(np.stack([near, far]), axis=1)
        return _of_numbers(np.bincount(pairs[0], minlength=self.size(kind)))

    def _computed(self, kind: str, first: str, operator: str, second: str) -> Numbers:
        """A number of each row, NaN or infinite without one."""
        amounts = self.amounts(kind, first)
        if operator == "%":
            return 100 * amounts / np.nansum(amounts)
        other = float(second) if second[:1].isdigit() else self.amounts(kind, second)
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Numbers = amounts - other if operator == "-" else amounts / other
        return result

    def _links_of(self, kind: str, relation: str, *, is_source: bool) -> _Links:
        """The relation's links. Raises KeyError where rows of the kind are not its sources, or its targets."""
        declared = self.relations[relation]
        if kind != (declared.source if is_source else declared.target):
            raise KeyError(relation)
        return self.links(relation)

    def links(self, relation: str) -> _Links:
        if relation not in self._links:
            declared = self.relations[relation]
            ends_and_links = [
                (source, self.place_of(declared.target, self.dataset.id(declared.target, target)), link)
                for source, row in enumerate(self.dataset.rows(declared.source))
                for target, link in self.dataset.related(relation, row)
            ]
            ends = [(source, target, link) for source, target, link in ends_and_links if target is not None]
            self._links[relation] = _Links(
                np.array([source for source, _, _ in ends], np.int64),
                np.array([target for _, target, _ in ends], np.int64),
                tuple(link for _, _, link in ends),
            )
        return self._links[relation]

    def words(self, kind: str) -> dict[str, Places]:
        """The places of the rows that have a word in their text, by word."""
        if kind not in self._words:
            texts = self.dataset.texts(kind)
            places: dict[str, list[int]] = {}
            for place, row in enumerate(self.dataset.rows(kind)):
                for word in set(words_of(texts.get(self.dataset.id(kind, row), ""))):
                    places.setdefault(word, []).append(place)
            self._words[kind] = {word: np.array(having, np.int64) for word, having in places.items()}
        return self._words[kind]

    def measured(self, kind: str, places: Places, measure: Measure) -> float | None:
        """The measure of these rows; None where none of them has a value, and for a sum 0."""
        if measure.function == "count" or measure.attribute is None:
            return float(len(places))
        amounts = self.amounts(kind, measure.attribute)[places]
        if measure.base is not None:
            earlier = self.amounts(kind, measure.base)[places]
            both = ~np.isnan(amounts + earlier)
            base = float(earlier[both].sum())
            change = float(amounts[both].sum()) - base
            if measure.function in ("increase", "decrease"):
                change = 100 * change / base if base else math.nan
            change = change if measure.function in ("increase", "more") else -change
            return None if math.isnan(change) or not both.any() else change
        known = amounts[~np.isnan(amounts)]
        if not len(known):
            return 0.0 if measure.function == "sum" else None
        return float(_FUNCTIONS[measure.function](known))

    @cached_property
    def knows_words(self) -> frozenset[str]:
        """Every word of the texts."""
        return frozenset(word for kind in self.kinds for word in self.words(kind))


_FUNCTIONS: dict[str, Callable[[Numbers], Any]] = {
    "sum": np.sum,
    "average": np.mean,
    "median": np.median,
    "smallest": np.min,
    "largest": np.max,
}


def _list(tables: Tables, query: List) -> Result:
    places, total = tables.select(query.rows)
    return Result(query, query.rows.kind, places, total)


def _figure(tables: Tables, query: Figure) -> Result:
    places, total = tables.select(query.rows, is_listed=False)
    return Result(query, query.rows.kind, places, total, tables.measured(query.rows.kind, places, query.measure))


def _exists(tables: Tables, query: Exists) -> Result:
    places, total = tables.select(query.rows)
    return Result(query, query.rows.kind, places, total, float(total > 0))


def _groups(tables: Tables, query: Groups) -> Result:
    kind = query.rows.kind
    places, total = tables.select(query.rows, is_listed=False)
    column = tables.column(kind, query.by)
    hits = _values_of(tables, kind, column, places)
    if query.without is not None or query.also is not None:
        hits = hits[_remaining(tables, query, column)[column.code[hits]]]
        places = places[np.isin(places, column.row[hits])]
        total = len(places)
    codes = column.code[hits]
    rows = column.row[hits]
    values = _by_code(tables, query, rows, codes, len(column.values))
    low, high = query.at_least or -np.inf, np.inf if query.at_most is None else query.at_most
    passing = ~np.isnan(values) & (values >= low) & (values <= high)
    for bound, compares in ((query.above, np.greater), (query.below, np.less), (query.equal, np.equal)):
        if bound is not None:
            figure = tables.measured(kind, tables.select(bound, is_listed=False)[0], query.measure)
            passing &= compares(values, np.nan if figure is None else figure)
    names = {code: tables.dataset.display(query.by, column.values[code]) for code in np.flatnonzero(passing).tolist()}
    ordered = sorted(names, key=lambda code: (-values[code] if query.descending else values[code], names[code]))
    shown = ordered[query.skip :] if query.limit is None else ordered[query.skip : query.skip + query.limit]
    if query.limit == 1 and shown:
        shown = [code for code in ordered[query.skip :] if values[code] == values[shown[0]]][:MOST_EQUALS]
    sides = tuple(
        Side(names[code], float(values[code]), rows[np.flatnonzero(codes == code)[:MOST_EVIDENCE]])
        for code in shown[:MOST_SORTED]
    )
    value = float(len(names)) if query.counts else None
    if query.limit == 1 and sides:
        value = sides[0].value
    if query.mean:
        value = float(values[shown].mean()) if shown else None
    return Result(query, kind, places, total, value, sides)


def _values_of(tables: Tables, kind: str, column: _Column, places: Places) -> Places:
    """The places in a column of the values that these rows have."""
    chosen = np.zeros(tables.size(kind), bool)
    chosen[places] = True
    return np.flatnonzero(chosen if column.is_single else chosen[column.row])


def _remaining(tables: Tables, query: Groups, column: _Column) -> Mask:
    """Which groups rows of `also` have and rows of `without` do not have."""
    remaining = np.ones(len(column.values), bool)
    for others, is_wanted in ((query.also, True), (query.without, False)):
        if others is not None:
            theirs = tables.column(others.kind, query.by)
            hits = _values_of(tables, others.kind, theirs, tables.select(others, is_listed=False)[0])
            having = {theirs.values[code] for code in np.unique(theirs.code[hits]).tolist()}
            remaining &= np.array([(value in having) == is_wanted for value in column.values], bool)
    return remaining


def _by_code(tables: Tables, query: Groups, rows: Places, codes: NDArray[Any], size: int) -> Numbers:
    """The measure of each group, NaN for groups without a row or without a value."""
    counts = np.bincount(codes, minlength=size).astype(float)
    counts[counts == 0] = np.nan
    measure = query.measure
    if measure.function == "count" or measure.attribute is None:
        return counts
    amounts = tables.amounts(query.rows.kind, measure.attribute)[rows]
    known = ~np.isnan(amounts)
    if measure.function in ("sum", "average"):
        number = np.bincount(codes[known], minlength=size).astype(float)
        number[number == 0] = np.nan
        total = np.bincount(codes[known], amounts[known], minlength=size) + 0 * number
        return cast("Numbers", total / number if measure.function == "average" else total)
    result = np.full(size, np.nan)
    for code in np.unique(codes[known]):
        result[code] = _FUNCTIONS[measure.function](amounts[known & (codes == code)])
    return result


def _compare(tables: Tables, query: Compare) -> Result:
    sides = []
    for rows in query.sides:
        places, _ = tables.select(rows, is_listed=False)
        sides.append(Side("", tables.measured(rows.kind, places, query.measure), places))
    difference = None
    if query.difference and len(sides) > 1 and sides[0].value is not None and sides[1].value is not None:
        difference = sides[0].value - sides[1].value
    if query.total:
        difference = sum(side.value or 0.0 for side in sides)
    first, *others = (side.value for side in sides)
    if query.is_yes_no and first is not None:
        known = [other for other in others if other is not None]
        holds = np.equal if query.equal else np.greater if query.descending else np.less
        difference = float(all(holds(first, other) for other in known))
    return Result(query, query.sides[0].kind, value=difference, sides=tuple(sides))


def _share(tables: Tables, query: Share) -> Result:
    (part, _), (whole, _) = (tables.select(rows, is_listed=False) for rows in (query.part, query.whole))
    if query.is_every:
        return _every(query, whole, np.isin(whole, part))
    share = 100 * len(part) / len(whole) if len(whole) else None
    sides = Side("", float(len(part)), part), Side("", float(len(whole)), whole)
    return Result(query, query.part.kind, part, len(part), share, sides)


def _every(query: Share, whole: Places, holds: Mask) -> Result:
    """Whether a condition holds for all rows: those for which it does not, or all of them."""
    sides = Side("", float(holds.sum()), whole[holds]), Side("", float(len(whole)), whole)
    is_so = bool(len(whole)) and bool(holds.all())
    shown = whole if is_so else whole[~holds]
    return Result(query, query.whole.kind, shown, len(shown), float(is_so), sides)


def _call(tables: Tables, query: Call) -> Result:
    kind = next(one.kind for one in tables.dataset.declaration.operations if one.name == query.operation)
    sets = []
    for rows in query.rows:
        if kind is not None and rows.kind != kind:
            raise KeyError(query.operation)
        every = tables.dataset.rows(rows.kind)
        sets.append([every[place] for place in tables.select(rows)[0]])
    if not all(sets):
        raise KeyError(query.operation)
    called = tables.dataset.call(query.operation, sets, query.words, query.limit)
    places = [tables.place_of(called.kind, tables.dataset.id(called.kind, row)) for row in called.rows]
    known = np.array([place for place in places if place is not None], np.int64)
    value = float(len(known) > 0 and called.holds) if query.is_yes_no else called.value
    return Result(query, called.kind, known, len(known), value, called=called)


def _open(tables: Tables, query: Open) -> Result:
    places, total = tables.select(query.rows)
    return Result(query, query.rows.kind, places, total)


_RUNNERS: dict[type, Callable[[Tables, Any], Result]] = {
    List: _list,
    Figure: _figure,
    Exists: _exists,
    Groups: _groups,
    Compare: _compare,
    Share: _share,
    Call: _call,
    Open: _open,
}


def _hits(column: _Column, test: Test) -> Mask:
    """Which of a column's values pass."""
    if test.comparison == "known":
        return np.ones(len(column.row), bool)
    if test.comparison == "is":
        if len(column.number):
            return np.isin(
                column.number, [number for value in test.values if (number := _as_number(value)) is not None]
            )
        requested = {fold(str(value)) for value in test.values}
        codes = [code for code, value in enumerate(column.values) if fold(str(value)) in requested]
        return column.having(codes)
    limit = _as_limit(test.values[0])
    if limit is None or not len(column.number):
        return np.zeros(len(column.row), bool)
    return cast("Mask", _ORDERS[test.comparison](column.number, limit))


_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "at_least": np.greater_equal,
    "above": np.greater,
    "at_most": np.less_equal,
    "below": np.less,
}


def _link_passes(values: Sequence[Scalar | datetime], test: Test) -> bool:
    """Whether a link passes; a text passes when it has all words of one of the test's values."""
    if test.comparison == "known":
        return bool(values)
    if test.comparison in _ORDERS:
        limit = _as_limit(test.values[0])
        numbers = [number for value in values if (number := _as_number(value)) is not None]
        return limit is not None and any(bool(_ORDERS[test.comparison](number, limit)) for number in numbers)
    requested = [set(words_of(str(value))) for value in test.values]
    return any(words <= set(words_of(str(value))) for words in requested for value in values)


def _as_number(value: Scalar | datetime) -> float | None:
    """A number, or the seconds since 1970 of a time; None for other text."""
    if isinstance(value, datetime):
        return value.timestamp()
    return float(value) if isinstance(value, int | float) else None


def _as_limit(value: Scalar) -> float | None:
    """The number that a test compares with; a time is text in a query."""
    try:
        return _as_number(datetime.fromisoformat(value) if isinstance(value, str) else value)
    except ValueError:
        return None


@lru_cache(maxsize=65_536)
def fold(text: str) -> str:
    """The text as values are compared: without case and accents, single spaces."""
    letters = unicodedata.normalize("NFKD", text).casefold()
    return " ".join("".join(letter for letter in letters if not unicodedata.combining(letter)).split())


@lru_cache(maxsize=65_536)
def words_of(text: str) -> tuple[str, ...]:
    """The words of a text as they are compared: folded, singular."""
    return tuple(singular(word) for word in _WORD.findall(fold(text).replace("'s", "").replace("\u2019s", "")))


@lru_cache(maxsize=65_536)
def singular(word: str) -> str:
    """An English word without its plural ending."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def every_test(condition: Condition) -> Iterable[Test]:
    """The tests in a condition on the rows themselves, also the negated ones."""
    if isinstance(condition, Test):
        yield condition
    elif isinstance(condition, AllOf | AnyOf):
        for part in condition.of:
            yield from every_test(part)
    elif isinstance(condition, Not):
        yield from every_test(condition.of)
