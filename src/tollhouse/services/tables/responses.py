"""What a table's operations answer: types made of its fields, so that the description names each of them."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tollhouse.catalogue.query import NumberFacet, Suggestion, ValueCount
from tollhouse.services.tables.cell_values import Kind
from tollhouse.services.tables.declaration import Declaration, Field

_TYPES: dict[Kind, Any] = {
    "list": list[str], "integer": int, "number": float, "money": float, "boolean": bool, "json": Any,
}  # fmt: skip
_SHAPES: dict[Kind, str] = {
    "date": "A day, `2026-01-31`", "moment": "RFC 3339 in UTC", "url": "An address", "image": "A picture's address",
}  # fmt: skip


class Suggestions(Struct, frozen=True):
    """What the typed text may become: values with how many items have them, then titles."""

    query: str
    count: int
    suggestions: list[Suggestion]


class Answers:
    """The types of one table's answers."""

    def __init__(self, declaration: Declaration) -> None:
        members = [(name, *_member(name, field)) for name, field in declaration.fields.items() if field.exported]
        item: Any = _struct("Item", [("id", str), *members])
        rights: list[tuple[str, Any]] = [("licence", str), ("source", str)]
        page: list[tuple[Any, ...]] = [
            ("total", int), ("count", int), ("offset", int), ("limit", int), ("items", list[item]),
            ("applied_filters", dict[str, Any]), *rights,
        ]  # fmt: skip
        facets: Any = dict[str, list[ValueCount] | NumberFacet] | UnsetType
        self.item = item
        self.page = _struct("ItemsPage", [*page, ("facets", facets, UNSET)])
        self.found = _struct("SearchPage", [("query", str), *page, ("facets", facets, UNSET)])
        self.single = _struct("SingleItem", [("item", item), *rights])
        self.similar = _struct("Similar", [("id", str), ("count", int), ("items", list[item]), *rights])
        self.whole = _struct("WholeTable", [("total", int), *rights, ("items", list[item])])


def _struct(name: str, members: list[tuple[Any, ...]]) -> type[Struct]:
    return msgspec.defstruct(name, members, frozen=True, kw_only=True, module=__name__)


def _member(name: str, field: Field) -> tuple[Any, Any]:
    """A member's type, null where a row says nothing; with `fields`, others are left out."""
    label = field.label or field.column or name
    unit = f"in {field.currency}" if field.currency else ""
    told = ". ".join(filter(None, (label, unit, _SHAPES.get(field.type, ""), field.description)))
    return Annotated[_TYPES.get(field.type, str) | None, Meta(description=told)], None
