"""Queries to a catalogue, and their results."""

from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec import field as member

from tollhouse.catalogue.cursors import FIRST, read_cursor
from tollhouse.catalogue.items import bound, comparable
from tollhouse.catalogue.schema import RANGED, Field, Schema
from tollhouse.errors import invalid_parameter

MAX_LIMIT = 1_000
MAX_OFFSET = 10_000
MAX_VALUES = 100

Value = str | int | float | bool


class Range(Struct, frozen=True):
    """An inclusive range; None leaves an end open. Money is in the currency's unit, not in cents."""

    minimum: int | float | str | None = None
    maximum: int | float | str | None = None


class Clause(Struct, frozen=True):
    """A condition on a field: one of `values`, or within `ends`, or its text has all `words`.

    Without a field: a searched text has a value's words. `negated`: the items for which that does not hold, those
    without a value included.
    """

    field: str = ""
    values: tuple[Value, ...] = ()
    ends: Range | None = None
    negated: bool = False
    words: str = ""


class CatalogueQuery(Struct, frozen=True):
    """`text` None matches everything. `any_of`, `between` and `where` are filters; all of them must match.

    `any_of` and `between` are by field. Each group in `where` needs one of its clauses to hold; a group on one field
    is a filter of that field. If few items have every word of the text, items with some of the words follow, unless
    `every_word` is set. `sort` is a field's name, with a leading `-` for descending order; "" is relevance with a text,
    else the id. Items without a value come last in both orders, equal ones in order of id. `cursor` is "*" for a first
    page, and then the `next_cursor` of each page; orders by relevance have none.
    """

    text: str | None = None
    every_word: bool = False
    any_of: dict[str, tuple[Value, ...]] = {}
    between: dict[str, Range] = {}
    where: tuple[tuple[Clause, ...], ...] = ()
    facets: tuple[str, ...] = ()
    sort: str = ""
    offset: int = 0
    limit: int = 20
    cursor: str = ""

    def check(self, schema: Schema) -> None:
        """Validate against a schema. Raises Problem `invalid-parameter` with the field's name as `parameter`."""
        for name, values in self.any_of.items():
            _check_offered(schema, name, name, "filtered")
            _check_values(schema.by_name[name], values)
        for name, ends in self.between.items():
            _check_offered(schema, name, name, "filtered")
            _check_range(schema.by_name[name], ends)
        for clause in chain.from_iterable(self.where):
            _check_clause(schema, clause)
        for name in self.facets:
            _check_offered(schema, "facets", name, "faceted")
        if self.sort:
            _check_offered(schema, "sort", self.sort.removeprefix("-"), "sorted")
        self._check_page(schema)

    def _check_page(self, schema: Schema) -> None:
        if not 0 <= self.limit <= MAX_LIMIT:
            raise invalid_parameter("limit", f"`limit` must be between 0 and {MAX_LIMIT}.")
        if not 0 <= self.offset <= MAX_OFFSET:
            raise invalid_parameter("offset", f"`offset` must be between 0 and {MAX_OFFSET}.")
        if not self.cursor:
            return
        if self.text is not None and not self.sort:
            raise invalid_parameter("cursor", "A `cursor` needs an order other than relevance: name a `sort`.")
        if self.offset:
            raise invalid_parameter("offset", "`offset` cannot be combined with `cursor`.")
        if self.cursor != FIRST:
            read_cursor(self.cursor, schema.by_name[self.sort.removeprefix("-") or "id"])


class ValueCount(Struct, frozen=True):
    """The number of items with this value, in its most frequent spelling."""

    value: Value
    count: int


class HistogramBucket(Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """The number of items from `from` up to, but not including, `to`."""

    start: float
    end: float
    count: int


class Bar(Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """The number of items from `from` up to, but not including, `to`: numbers as items show them, or RFC 3339 times."""

    start: float | str
    end: float | str
    count: int


class Distribution(Struct, frozen=True):
    """The matching items by a number or a time: how many there are, how many have no value, and bars of the others.

    `unit` is the width of the bars of times: `hour`, `day`, `month`, `year`, `decade` or `century`.
    """

    total: int
    missing: int
    bars: list[Bar]
    unit: str | None = None


class NumberFacet(Struct, frozen=True):
    """Range and histogram of a number. Without values, `min` and `max` are None and the histogram is empty."""

    min: float | None
    max: float | None
    histogram: list[HistogramBucket]


Facet = list[ValueCount] | NumberFacet


class SearchResult(Struct, frozen=True):
    """One page. `total` is exact; each facet is counted without its own filter. `corrected` are typos by word.

    `next_cursor` is None on the last page, and where the query has no `cursor`.
    """

    total: int
    items: list[dict[str, Any]]
    facets: dict[str, Facet] = member(default_factory=dict)
    corrected: dict[str, str] = member(default_factory=dict)
    next_cursor: str | None = None


class Suggestion(Struct, frozen=True, omit_defaults=True):
    """A completion: an item's title with its `id`, or a value of `field` with the number of items that have it."""

    text: str
    id: str | None = None
    field: str | None = None
    count: int | None = None


def _check_offered(schema: Schema, parameter: str, name: str, ability: str) -> None:
    known = schema.by_name.get(name)
    if known is None or not getattr(known, ability):
        offered = [each.name for each in schema.by_name.values() if getattr(each, ability)]
        raise invalid_parameter(parameter, f"Field {name[:60]!r} cannot be {ability}.", offered)


def _check_clause(schema: Schema, clause: Clause) -> None:
    if not clause.field:
        return
    if clause.words:
        if clause.field not in {field.name for field in schema.searched}:
            raise invalid_parameter(clause.field, f"Field {clause.field[:60]!r} cannot be searched.")
        return
    _check_offered(schema, clause.field, clause.field, "filtered")
    if clause.ends is None:
        _check_values(schema.by_name[clause.field], clause.values)
    else:
        _check_range(schema.by_name[clause.field], clause.ends)


def _check_values(field: Field, values: tuple[Value, ...]) -> None:
    if not 0 < len(values) <= MAX_VALUES:
        raise invalid_parameter(field.name, f"`{field.name}` must have 1 to {MAX_VALUES} values.")
    for value in values:
        try:
            comparable(field.type, value)
        except ValueError as error:
            raise invalid_parameter(field.name, f"A value of `{field.name}` {error}.") from None


def _check_range(field: Field, ends: Range) -> None:
    if field.type not in RANGED:
        raise invalid_parameter(field.name, f"`{field.name}` has no range.")
    for end in (ends.minimum, ends.maximum):
        try:
            _ = None if end is None else bound(field.type, end, is_minimum=True)
        except ValueError as error:
            raise invalid_parameter(field.name, f"A bound of `{field.name}` {error}.") from None
