"""What a caller may ask of a table: parameters made of its fields, and the question to the catalogue they are."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from tollhouse.catalogue.query import CatalogueQuery, Range
from tollhouse.errors import invalid_parameter
from tollhouse.services.tables import cell_values
from tollhouse.services.tables.cell_values import Kind
from tollhouse.services.tables.declaration import RANGED, Declaration, Field
from tollhouse.services.tables.schema import indexed

MAX_LIMIT = 250
MAX_VALUES = 100
EXPORTS = ("csv", "ndjson", "json")

_Text = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"^[^\x00]*$")]
Words = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
_Names = Annotated[str, Meta(min_length=1, max_length=4_000, description="Names with commas between them")]
_VALUES: dict[Kind, Any] = {"integer": int, "number": float, "money": float, "boolean": bool}
_SEVERAL = "given several times, any of them"
_PAGE = ("q", "sort", "facets", "fields", "limit", "offset")


class SimilarQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/items/{id}/similar`."""

    limit: Annotated[int, Meta(ge=1, le=50, description="At most so many", examples=[5])] = 10


class SuggestQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/suggest`."""

    q: Annotated[Words, Meta(description="What was typed so far")]
    limit: Annotated[int, Meta(ge=1, le=20, description="At most so many", examples=[5])] = 10


class Asking:
    """The questions that one table can be asked."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self.facets = [name for name, field in declaration.fields.items() if field.faceted]
        self.shown = [name for name, field in declaration.fields.items() if field.exported]
        filters = list(_filters(declaration.fields))
        words = ("q", Annotated[Words | None, Meta(description=_searched(declaration))], None)
        fields = ("fields", *_listed("Only these members of each item, beside its id", self.shown))
        page = [*_ordered(declaration), ("facets", *_listed("What to count", self.facets)), fields, *_PAGING]
        self.items = _struct("ItemsQuery", [*filters, words, *page])
        self.search = _struct("SearchQuery", [("q", Annotated[Words, words[1]]), *filters, *page])
        # A type of its own for each operation: the description has them by name.
        self.exports = {ending: _struct(f"{ending.capitalize()}Query", [*filters, words, fields]) for ending in EXPORTS}

    def question(self, query: Any, *, limit: int = 0, offset: int = 0) -> CatalogueQuery:
        """The question to the catalogue. Raises Problem `invalid-parameter`."""
        if query.q is not None and not query.q.strip():
            raise invalid_parameter("q", "`q` must hold a word to look for.")
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
        return CatalogueQuery(
            text=query.q,
            any_of=any_of,
            between=between,
            facets=tuple(_chosen("facets", getattr(query, "facets", ()), self.facets)),
            sort=getattr(query, "sort", None) or "",
            offset=offset,
            limit=limit,
        )

    def members(self, query: Any) -> list[str]:
        """The members of each item to show, `id` first. Raises Problem `invalid-parameter`."""
        named = _chosen("fields", query.fields, ["id", *self.shown])
        return ["id", *(name for name in self.shown if not named or name in named)]


def applied(query: Struct) -> dict[str, Any]:
    """The filters in force, and the words, as `applied_filters` shows them."""
    given: dict[str, Any] = msgspec.to_builtins(query)
    return {name: value for name, value in given.items() if name not in _PAGE or name == "q"}


_PAGING: tuple[tuple[str, Any, Any], ...] = (
    ("limit", Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Items per page", examples=[20])], 20),
    ("offset", Annotated[int, Meta(ge=0, le=10_000, description="Items to leave out at the start")], 0),
)


def _struct(name: str, members: Sequence[tuple[Any, ...]]) -> type[Struct]:
    return msgspec.defstruct(
        name, members, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, module=__name__
    )


def _filters(fields: dict[str, Field]) -> Iterator[tuple[str, Any, Any]]:
    for name, field in fields.items():
        if not field.filtered:
            continue
        value = _VALUES.get(field.type, _Text)
        label = _label(name, field)
        told = f"{label}: {'yes or no' if field.type == 'boolean' else f'the whole value, in any case; {_SEVERAL}'}"
        kind = Annotated[list[value], Meta(max_length=MAX_VALUES, description=told)]  # type: ignore[valid-type]
        yield name, kind, msgspec.field(default_factory=list)
        if field.type in RANGED:
            for end, words in (("min", "at least"), ("max", "at most")):
                yield f"{end}_{name}", Annotated[value | None, Meta(description=f"{label}: {words} this")], None


def _label(name: str, field: Field) -> str:
    unit = f" ({field.currency})" if field.currency else ""
    return f"{field.label or field.column or name}{unit}"


def _searched(declaration: Declaration) -> str:
    names = [name for name, field in declaration.fields.items() if field.searched]
    return f"Words, with a wrong letter if need be, in {', '.join(names) or 'nothing: no field is searched'}"


def _ordered(declaration: Declaration) -> Iterator[tuple[str, Any, Any]]:
    names = ["id", *(name for name, field in declaration.fields.items() if field.sorted)]
    choices: Any = Literal[tuple(f"{sign}{name}" for name in names for sign in ("", "-"))]
    told = "By this field, with `-` the largest first. Without it by relevance where there are words, else by id"
    yield "sort", Annotated[choices | None, Meta(description=told)], None


def _listed(told: str, names: Sequence[str]) -> tuple[Any, Any]:
    some = f"{told}, of: {', '.join(names) or 'none'}"
    return Annotated[list[_Names], Meta(max_length=20, description=some)], msgspec.field(default_factory=list)


def _chosen(parameter: str, given: Sequence[str], allowed: list[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in allowed:
            raise invalid_parameter(parameter, f"`{parameter}` has no {name[:60]!r}.", allowed)
    return list(dict.fromkeys(names))


def _compared(parameter: str, kind: Kind, value: Any) -> Any:
    """A value as the catalogue has it. Raises Problem `invalid-parameter`."""
    if kind not in ("date", "moment"):
        return value
    try:
        return indexed("date", cell_values.date_of(value)) if kind == "date" else cell_values.moment_of(value)
    except ValueError as fault:
        raise invalid_parameter(parameter, f"`{parameter}` {fault}.") from None


def _between(name: str, kind: Kind, low: Any, high: Any) -> Range:
    """A day that ends a range of moments belongs to it as a whole."""
    first: Any = None if low is None else _compared(f"min_{name}", kind, low)
    last: Any = None if high is None else _compared(f"max_{name}", kind, high)
    if kind == "moment" and last is not None and len(high.strip()) == len("2026-01-31"):
        last = last.replace("00:00:00Z", "23:59:59.999999Z")
    return Range(first, last)
