"""What a catalogue can be asked, and what it answers."""

from typing import Any

from msgspec import Struct
from msgspec import field as member

from tollhouse.catalogue.items import bound, comparable
from tollhouse.catalogue.schema import RANGED, Field, Schema
from tollhouse.errors import invalid_parameter

MAX_LIMIT = 1_000
MAX_OFFSET = 10_000
MAX_VALUES = 100

Value = str | int | float | bool


class Range(Struct, frozen=True):
    """Both ends belong to it; None leaves an end open. Of a money field in its currency's unit, not in cents."""

    minimum: int | float | str | None = None
    maximum: int | float | str | None = None


class CatalogueQuery(Struct, frozen=True):
    """`text` None asks for everything; `any_of` and `between` are by field, and all of them must hold.

    With few items that have every word of the text, those that lack some follow, unless `every_word` forbids it.
    `sort` is a field's name, with `-` in front for the largest first; "" is relevance where there is text, and the id
    elsewhere. Items without the value come last either way, and equals follow their ids. `fields` None shows all.
    """

    text: str | None = None
    every_word: bool = False
    any_of: dict[str, tuple[Value, ...]] = {}
    between: dict[str, Range] = {}
    facets: tuple[str, ...] = ()
    sort: str = ""
    offset: int = 0
    limit: int = 20
    fields: tuple[str, ...] | None = None

    def check(self, schema: Schema) -> None:
        """Raises Problem `invalid-parameter` for what this schema does not offer; `parameter` is the field's name."""
        for name, values in self.any_of.items():
            _check_offered(schema, name, name, "filtered")
            _check_values(schema.by_name[name], values)
        for name, ends in self.between.items():
            _check_offered(schema, name, name, "filtered")
            _check_ends(schema.by_name[name], ends)
        for name in self.facets:
            _check_offered(schema, "facets", name, "faceted")
        if self.sort:
            _check_offered(schema, "sort", self.sort.removeprefix("-"), "sorted")
        for name in self.fields or ():
            if name not in schema.exported:
                raise invalid_parameter("fields", f"There is no field {name[:60]!r}.", list(schema.exported))
        self._check_page()

    def _check_page(self) -> None:
        if not 0 <= self.limit <= MAX_LIMIT:
            raise invalid_parameter("limit", f"The limit lies in 0..{MAX_LIMIT}.")
        if not 0 <= self.offset <= MAX_OFFSET:
            raise invalid_parameter("offset", f"The offset lies in 0..{MAX_OFFSET}.")


class ValueCount(Struct, frozen=True):
    """How many items have this value, spelt as most of them spell it."""

    value: Value
    count: int


class HistogramBucket(Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """Items from `from` to below `to`."""

    start: float
    end: float
    count: int


class NumberFacet(Struct, frozen=True):
    """The range of a number: None and no bars where no item has one. Bars without items stand between others too."""

    min: float | None
    max: float | None
    histogram: list[HistogramBucket]


Facet = list[ValueCount] | NumberFacet


class SearchResult(Struct, frozen=True):
    """`total` is exact, each facet is counted without its own filter.

    `corrected` are mistyped words and what they were taken for.
    """

    total: int
    items: list[dict[str, Any]]
    facets: dict[str, Facet] = member(default_factory=dict)
    corrected: dict[str, str] = member(default_factory=dict)


class Suggestion(Struct, frozen=True, omit_defaults=True):
    """What the text may become: an item's title with its `id`, or a value of `field` with how many have it."""

    text: str
    id: str | None = None
    field: str | None = None
    count: int | None = None


def _check_offered(schema: Schema, parameter: str, name: str, ability: str) -> None:
    known = schema.by_name.get(name)
    if known is None or not getattr(known, ability):
        offered = [each.name for each in schema.by_name.values() if getattr(each, ability)]
        raise invalid_parameter(parameter, f"{name[:60]!r} cannot be {ability}.", offered)


def _check_values(field: Field, values: tuple[Value, ...]) -> None:
    if not 0 < len(values) <= MAX_VALUES:
        raise invalid_parameter(field.name, f"From 1 to {MAX_VALUES} values may be given.")
    for value in values:
        try:
            comparable(field.type, value)
        except ValueError as fault:
            raise invalid_parameter(field.name, f"The value {fault}.") from None


def _check_ends(field: Field, ends: Range) -> None:
    if field.type not in RANGED:
        raise invalid_parameter(field.name, f"{field.name} has no minimum and maximum.")
    for end in (ends.minimum, ends.maximum):
        try:
            _ = None if end is None else bound(field.type, end, is_minimum=True)
        except ValueError as fault:
            raise invalid_parameter(field.name, f"The bound {fault}.") from None
