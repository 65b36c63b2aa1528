"""Query and response types of a table's endpoints, made from its fields."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tollhouse.catalogue.api_types import ABOUT_CURSOR, Cursor, Words, check_words, known_names
from tollhouse.catalogue.importers.values import parse_date, parse_moment
from tollhouse.catalogue.query import Bar, CatalogueQuery, Clause, NumberFacet, Range, ValueCount
from tollhouse.errors import invalid_parameter
from tollhouse.services.tables.declaration import RANGED, Declaration, Field, Kind
from tollhouse.services.tables.readiness import Indexing
from tollhouse.services.tables.rows import catalogue_value

MAX_LIMIT = 250
MAX_VALUES = 100
EXPORTS = ("csv", "ndjson", "json")

_Text = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"^[^\x00]*$")]
_Names = Annotated[str, Meta(min_length=1, max_length=4_000, description="Names separated by commas")]
_VALUES: dict[Kind, Any] = {"integer": int, "number": float, "money": float, "boolean": bool}
HAS = "__has"
"""The end of the parameter that wants words in one field."""
_SEVERAL = "if repeated, any of them"
_PAGE = ("q", "sort", "facets", "fields", "limit", "offset", "cursor")


class TableQueries:
    """The query types of one table, and their translation into queries of its catalogue."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self.facets = [name for name, field in declaration.fields.items() if field.faceted]
        self.shown = [name for name, field in declaration.fields.items() if field.exported]
        filters = list(_filters(declaration.fields))
        searched = ", ".join(name for name, field in declaration.fields.items() if field.searched)
        about = f"Words, also with a typing error, in {searched or 'nothing: no field is searched'}"
        words = ("q", Annotated[Words | None, Meta(description=about)], None)
        fields = ("fields", *_names_parameter("Only these fields of each item, besides its id", self.shown))
        page = [
            _sort_parameter(declaration),
            ("facets", *_names_parameter("Fields to count", self.facets)),
            fields,
            *_PAGING,
        ]
        self.items = _struct("ItemsQuery", [*filters, words, *page])
        self.search = _struct("SearchQuery", [("q", Annotated[Words, words[1]]), *filters, *page])
        # A type for each endpoint: OpenAPI has them by name.
        self.points = _struct("PointsQuery", [*filters, words])
        self.histogram = _struct("HistogramQuery", [*filters, words])
        self.exports = {ending: _struct(f"{ending.capitalize()}Query", [*filters, words, fields]) for ending in EXPORTS}

    def catalogue_query(self, query: Any, *, limit: int = 0, offset: int = 0) -> CatalogueQuery:
        """The catalogue's query. Raises Problem `invalid-parameter`."""
        if query.q is not None:
            check_words(query.q)
        any_of: dict[str, tuple[Any, ...]] = {}
        between: dict[str, Range] = {}
        for name, field in self._declaration.fields.items():
            if not field.filtered:
                continue
            if values := getattr(query, name):
                any_of[name] = tuple(_compared(name, field.type, value) for value in values)
            if field.type in RANGED:
                ends = [getattr(query, f"{end}_{name}") for end in ("min", "max")]
                if ends != [None, None]:
                    between[name] = _between(name, field.type, *ends)
        held = {name: words for name in self._declaration.fields if (words := getattr(query, f"{name}{HAS}", None))}
        return CatalogueQuery(
            text=query.q,
            where=tuple((Clause(name, words=words),) for name, words in held.items()),
            any_of=any_of,
            between=between,
            facets=tuple(known_names("facets", getattr(query, "facets", ()), self.facets)),
            sort=getattr(query, "sort", None) or "",
            offset=offset,
            limit=limit,
            cursor=getattr(query, "cursor", None) or "",
        )

    def members(self, query: Any) -> list[str]:
        """The fields of each item to return, `id` first. Raises Problem `invalid-parameter`."""
        named = known_names("fields", query.fields, ["id", *self.shown])
        return ["id", *(name for name in self.shown if not named or name in named)]


def applied_filters(query: Struct) -> dict[str, Any]:
    """The filters and words of a query, for `applied_filters`."""
    given: dict[str, Any] = msgspec.to_builtins(query)
    return {name: value for name, value in given.items() if name not in _PAGE or name == "q"}


_PAGING: tuple[tuple[str, Any, Any], ...] = (
    ("limit", Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Items per page", examples=[20])], 20),
    ("offset", Annotated[int, Meta(ge=0, le=10_000, description="Items to skip")], 0),
    ("cursor", Annotated[Cursor | None, ABOUT_CURSOR], None),
)


def _struct(name: str, members: Sequence[tuple[Any, ...]]) -> type[Struct]:
    return msgspec.defstruct(
        name, members, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, module=__name__
    )


def _filters(fields: dict[str, Field]) -> Iterator[tuple[str, Any, Any]]:
    for name, field in fields.items():
        if field.searched and f"{name}{HAS}" not in fields:
            description = f"{field.label or field.column or name}: has all of these words"
            yield f"{name}{HAS}", Annotated[Words | None, Meta(description=description)], None
        if not field.filtered:
            continue
        value = _VALUES.get(field.type, _Text)
        unit = f" ({field.currency})" if field.currency else ""
        label = f"{field.label or field.column or name}{unit}"
        description = (
            f"{label}: {'yes or no' if field.type == 'boolean' else f'the whole value, in any case; {_SEVERAL}'}"
        )
        kind = Annotated[list[value], Meta(max_length=MAX_VALUES, description=description)]  # type: ignore[valid-type]
        yield name, kind, msgspec.field(default_factory=list)
        if field.type in RANGED:
            for end, words in (("min", "at least"), ("max", "at most")):
                yield f"{end}_{name}", Annotated[value | None, Meta(description=f"{label}: {words} this")], None


def _sort_parameter(declaration: Declaration) -> tuple[str, Any, Any]:
    names = ["id", *(name for name, field in declaration.fields.items() if field.sorted)]
    choices: Any = Literal[tuple(f"{sign}{name}" for name in names for sign in ("", "-"))]
    description = "By this field, with `-` the largest first. Without it by relevance where there are words, else by id"
    return "sort", Annotated[choices | None, Meta(description=description)], None


def _names_parameter(summary: str, names: Sequence[str]) -> tuple[Any, Any]:
    description = f"{summary}, of: {', '.join(names) or 'none'}"
    return Annotated[list[_Names], Meta(max_length=20, description=description)], msgspec.field(default_factory=list)


def _compared(parameter: str, kind: Kind, value: Any) -> Any:
    """A value as the catalogue compares it. Raises Problem `invalid-parameter`."""
    if kind not in ("date", "moment"):
        return value
    try:
        return catalogue_value("date", parse_date(value)) if kind == "date" else parse_moment(value)
    except ValueError as fault:
        raise invalid_parameter(parameter, f"`{parameter}` {fault}.") from None


def _between(name: str, kind: Kind, low: Any, high: Any) -> Range:
    """A day that ends a range of times is included as a whole."""
    first: Any = None if low is None else _compared(f"min_{name}", kind, low)
    last: Any = None if high is None else _compared(f"max_{name}", kind, high)
    if kind == "moment" and last is not None and len(high.strip()) == len("2026-01-31"):
        last = last.replace("00:00:00Z", "23:59:59.999999Z")
    return Range(first, last)


class Point(Struct, frozen=True):
    """A position in degrees."""

    latitude: float
    longitude: float


_TYPES: dict[Kind, Any] = {
    "list": list[str], "integer": int, "number": float, "money": float, "boolean": bool, "point": Point,
    "json": Any,
}  # fmt: skip
_SHAPES: dict[Kind, str] = {
    "date": "A day, `2026-01-31`", "moment": "RFC 3339 in UTC", "url": "An address", "image": "A picture's address",
}  # fmt: skip


class ResponseTypes:
    def __init__(self, declaration: Declaration) -> None:
        members = [(name, *_member(name, field)) for name, field in declaration.fields.items() if field.exported]
        item: Any = _response_struct("Item", [("id", str), *members])
        rights: list[tuple[str, Any]] = [("licence", str), ("source", str)]
        page: list[tuple[Any, ...]] = [
            ("total", int), ("total_relation", Literal["eq", "gte"]), ("count", int), ("offset", int), ("limit", int),
            ("items", list[item]), ("applied_filters", dict[str, Any]), *rights,
        ]  # fmt: skip
        partly: tuple[str, Any, Any] = ("indexing", Indexing | UnsetType, UNSET)
        facets: Any = dict[str, list[ValueCount] | NumberFacet] | UnsetType
        self.item = item
        some = [("facets", facets, UNSET), ("next_cursor", str | UnsetType | None, UNSET), partly]
        self.page = _response_struct("ItemsPage", [*page, *some])
        self.search = _response_struct("SearchPage", [("query", str), *page, *some])
        self.single = _response_struct("SingleItem", [("item", item), *rights])
        similar: list[tuple[Any, ...]] = [("id", str), ("count", int), ("items", list[item]), *rights, partly]
        self.similar = _response_struct("Similar", similar)
        self.points = _response_struct("Points", [
            ("total", int), ("located", int), ("count", int), ("is_sample", bool), ("id", list[str]),
            ("latitude", list[float]), ("longitude", list[float]), ("applied_filters", dict[str, Any]), *rights, partly,
        ])  # fmt: skip
        self.histogram = _response_struct("Histogram", [
            ("field", str), ("total", int), ("missing", int), ("unit", str | None), ("bars", list[Bar]),
            ("applied_filters", dict[str, Any]), *rights, partly,
        ])  # fmt: skip
        self.whole = _response_struct("WholeTable", [("total", int), *rights, ("items", list[item])])


def _response_struct(name: str, members: list[tuple[Any, ...]]) -> type[Struct]:
    return msgspec.defstruct(name, members, frozen=True, kw_only=True, module=__name__)


def _member(name: str, field: Field) -> tuple[Any, Any]:
    """A field's type; null where a row has no value."""
    label = field.label or field.column or name
    unit = f"in {field.currency}" if field.currency else ""
    description = ". ".join(filter(None, (label, unit, _SHAPES.get(field.type, ""), field.description)))
    return Annotated[_TYPES.get(field.type, str) | None, Meta(description=description)], None
