"""What a catalogue holds: its fields, and how each is searched, filtered, counted and ordered."""

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
    """One member of an item. `keywords` is a list of keywords; `json` is carried along and never looked into.

    `weight` above 0: its words are searched, and count that much. `filtered`: a whole value in any case, and a minimum
    and maximum where it is a number or a moment. `exported` is False for what is indexed and never shown.
    `money` is a number with decimals in JSON, `timestamp` RFC 3339 text with an offset.
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
    """A catalogue's declaration. Every item also has an `id`, text of 1 to 200 characters.

    With `price` (and `sale_price`) named, two fields more can be filtered, counted and ordered by: `current_price`, the
    sale price where there is one and the price elsewhere, and `discount`, the share off in 0..1. The store itself
    stamps `created` and `updated`. `synonyms` are groups of words or phrases that mean the same. `alike` says which
    fields make two items similar, and how much each counts beside the words of the title. Raises ValueError for a
    declaration that contradicts itself.
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
        for fault in self._faults():
            raise ValueError(fault)

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Every field that a query may name: the declared ones, `id`, and those derived of the price."""
        derived = [Field("id", "keyword", filtered=True, sorted=True, required=True)]
        if self.price:
            derived.append(Field(CURRENT_PRICE, "money", filtered=True, faceted=True, sorted=True, exported=False))
            derived.append(Field(DISCOUNT, "number", filtered=True, sorted=True, exported=False))
        return {field.name: field for field in (*derived, *self.fields)}

    @cached_property
    def searched(self) -> tuple[Field, ...]:
        """The fields whose words count, the weightiest first."""
        return tuple(sorted((f for f in self.fields if f.weight > 0), key=lambda field: -field.weight))

    @cached_property
    def compared(self) -> tuple[Field, ...]:
        """The fields that are filtered, counted or ordered by."""
        return tuple(field for field in self.by_name.values() if field.filtered or field.faceted or field.sorted)

    @cached_property
    def exported(self) -> tuple[str, ...]:
        """The names of the members an item is shown with, `id` first."""
        return ("id", *(field.name for field in self.fields if field.exported))

    def _faults(self) -> Iterator[str]:
        names = [field.name for field in self.fields]
        yield from (f"the field {name} is declared twice" for name in {n for n in names if names.count(n) > 1})
        for field in self.fields:
            yield from _faults_of(field)
        types = {field.name: field.type for field in self.by_name.values()}
        wanted: list[tuple[str | None, set[str]]] = [
            (self.title, {"text", "keyword"}),
            (self.price, {"money"}),
            (self.sale_price, {"money"}),
            (self.created, {"timestamp"}),
            (self.updated, {"timestamp"}),
            *((name, _FILTERED) for name in self.alike),
        ]
        for name, allowed in wanted:
            if name is not None and types.get(name) not in allowed:
                yield f"there must be a field {name} of type {' or '.join(sorted(allowed))}"
        if self.sale_price and not self.price:
            yield "a sale_price needs a price"


def _faults_of(field: Field) -> Iterator[str]:
    if not _NAME.fullmatch(field.name) or field.name in _DERIVED:
        yield f"{field.name!r} cannot name a field: a name is lower-case, and {', '.join(sorted(_DERIVED))} are taken"
    claims = [
        (field.weight != 0, _SEARCHED, "searched"),
        (field.filtered, _FILTERED, "filtered"),
        (field.faceted, _FACETED, "counted"),
        (field.sorted, _SORTED, "ordered by"),
    ]
    for is_claimed, allowed, word in claims:
        if is_claimed and field.type not in allowed:
            yield f"the field {field.name} is {field.type} and cannot be {word}"
    if not 0 <= field.weight <= 1000:
        yield f"the weight of {field.name} lies outside 0..1000"
