"""Schema of a catalogue: its fields, and how each is searched, filtered, counted and sorted."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from msgspec import Struct

FieldType = Literal["text", "keyword", "keywords", "integer", "number", "money", "boolean", "timestamp", "json"]

CURRENT_PRICE = "current_price"
DISCOUNT = "discount"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_DERIVED = {"id", CURRENT_PRICE, DISCOUNT}
_SEARCHED = {"text", "keyword", "keywords"}
_FILTERED = {"keyword", "keywords", "integer", "number", "money", "boolean", "timestamp"}
_FACETED = {"keyword", "keywords", "boolean", "integer", "number", "money"}
_SORTED = {"keyword", "integer", "number", "money", "boolean", "timestamp"}
RANGED = frozenset({"integer", "number", "money", "timestamp"})


class Field(Struct, frozen=True, forbid_unknown_fields=True):
    """One member of an item. `keywords` is a list of keywords; `json` is stored without interpretation.

    A `weight` above 0 makes the field searchable with that weight. `filtered` allows filters by whole value in any
    case, and ranges for numbers and timestamps. A field that is not `exported` is indexed but never shown. `money` is
    a JSON number with decimals, `timestamp` is RFC 3339 text with an offset.
    """

    name: str
    type: FieldType
    weight: float = 0.0
    filtered: bool = False
    faceted: bool = False
    sorted: bool = False
    exported: bool = True
    required: bool = False


class Schema(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The declaration of a catalogue. Every item also has an `id` of 1 to 200 characters.

    With `price` (and `sale_price`) there are two derived fields to filter, count and sort by: `current_price`, the sale
    price or else the price, and `discount`, the share off in 0..1. The database sets `created` and `updated`.
    `synonyms` are groups of words or phrases with the same meaning. `alike` are the fields that make items similar,
    with their weights beside the words of the title. Raises ValueError for an inconsistent declaration.
    """

    fields: tuple[Field, ...]
    title: str = "title"
    price: str | None = None
    sale_price: str | None = None
    created: str | None = None
    updated: str | None = None
    synonyms: tuple[tuple[str, ...], ...] = ()
    alike: dict[str, float] = {}

    def __post_init__(self) -> None:
        for error in self._errors():
            raise ValueError(error)

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Every field that a query may name: declared fields, `id`, and fields derived from the price."""
        derived = [Field("id", "keyword", filtered=True, sorted=True, required=True)]
        if self.price:
            derived.append(Field(CURRENT_PRICE, "money", filtered=True, faceted=True, sorted=True, exported=False))
            derived.append(Field(DISCOUNT, "number", filtered=True, sorted=True, exported=False))
        return {field.name: field for field in (*derived, *self.fields)}

    @cached_property
    def searched(self) -> tuple[Field, ...]:
        """The searchable fields, the highest weight first."""
        return tuple(sorted((f for f in self.fields if f.weight > 0), key=lambda field: -field.weight))

    @cached_property
    def compared(self) -> tuple[Field, ...]:
        """The fields to filter, count or sort by."""
        return tuple(field for field in self.by_name.values() if field.filtered or field.faceted or field.sorted)

    @cached_property
    def exported(self) -> tuple[str, ...]:
        """The names of the visible members, `id` first."""
        return ("id", *(field.name for field in self.fields if field.exported))

    def _errors(self) -> Iterator[str]:
        names = [field.name for field in self.fields]
        yield from (f"field {name} is declared twice" for name in {n for n in names if names.count(n) > 1})
        for field in self.fields:
            yield from _field_errors(field)
        types = {field.name: field.type for field in self.by_name.values()}
        required: list[tuple[str | None, set[str]]] = [
            (self.title, {"text", "keyword"}),
            (self.price, {"money"}),
            (self.sale_price, {"money"}),
            (self.created, {"timestamp"}),
            (self.updated, {"timestamp"}),
            *((name, _FILTERED) for name in self.alike),
        ]
        for name, allowed in required:
            if name is not None and types.get(name) not in allowed:
                yield f"a field {name} is required, of type {' or '.join(sorted(allowed))}"
        if self.sale_price and not self.price:
            yield "sale_price requires price"


def _field_errors(field: Field) -> Iterator[str]:
    if not _NAME.fullmatch(field.name) or field.name in _DERIVED:
        yield f"{field.name!r} is not a valid field name: use lower case, and not {', '.join(sorted(_DERIVED))}"
    claims = [
        (field.weight != 0, _SEARCHED, "searched"),
        (field.filtered, _FILTERED, "filtered"),
        (field.faceted, _FACETED, "counted"),
        (field.sorted, _SORTED, "sorted by"),
    ]
    for is_claimed, allowed, word in claims:
        if is_claimed and field.type not in allowed:
            yield f"field {field.name} of type {field.type} cannot be {word}"
    if not 0 <= field.weight <= 1000:
        yield f"the weight of field {field.name} must be between 0 and 1000"
