"""Declarations of tables: the TOML file that makes a table a service, read strictly, and written by `tollhouse new`."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse.catalogue.importers.feed import is_address
from tollhouse.catalogue.importers.formats import FORMATS
from tollhouse.catalogue.importers.values import DateFormat, DecimalMark
from tollhouse.config.declaration import DeclarationText, read_text, toml_lines
from tollhouse.money import MICROS_PER_USD, usd

MAX_FIELDS = 200
UNKNOWN = "unknown"
MIN_REFRESH_SECONDS = 60

Kind = Literal[
    "text", "keyword", "list", "integer", "number", "money", "date", "moment", "boolean", "url", "image", "point",
    "json",
]  # fmt: skip

MAX_FIELD_NAME = 40

# Parameters of the endpoints, and names that the catalogue derives.
TAKEN_FIELDS = frozenset({
    "id", "current_price", "discount", "q", "sort", "facets", "fields", "limit", "offset", "format", "item",
})  # fmt: skip
# Prefixes of the parameters that limit a range.
_ENDS = ("min_", "max_")

_FIELD = re.compile(rf"[a-z][a-z0-9_]{{0,{MAX_FIELD_NAME - 1}}}")
# Letters that Unicode does not decompose.
_SPELT = str.maketrans({"ß": "ss", "æ": "ae", "ø": "o", "đ": "d", "ł": "l", "œ": "oe", "þ": "th", "ð": "d"})

# The abilities of each type of field.
SEARCHED: frozenset[Kind] = frozenset({"text", "keyword", "list"})
RANGED: frozenset[Kind] = frozenset({"integer", "number", "money", "date", "moment"})
FILTERED: frozenset[Kind] = RANGED | {"keyword", "list", "boolean"}
FACETED: frozenset[Kind] = frozenset({"keyword", "list", "boolean", "integer", "number", "money"})
SORTED: frozenset[Kind] = RANGED | {"keyword", "boolean"}


_COMMENT = (
    "# The service, and what it costs. Restart the server after a change here; a change of the table itself is loaded",
    "# while it runs. docs/own-service.md explains every key.",
)


class Field(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One member of an item. `column` is its header in the table, `label` what people read; by default its name.

    `searched` above 0: its words are found, with that weight. `filtered`: by whole values, and by a minimum and a
    maximum where it is a number or a date. A field that is not `exported` is searched and filtered by, and never shown.
    A row without a `required` value is refused. `empty` are texts that mean no value.
    """

    type: Kind
    column: str = ""
    label: str = ""
    description: str = ""
    searched: float = 0
    filtered: bool = False
    faceted: bool = False
    sorted: bool = False
    exported: bool = True
    required: bool = False
    format: DateFormat = "YYYY-MM-DD"
    decimal: DecimalMark = "."
    separator: str = "|"
    empty: tuple[str, ...] = ()
    currency: str = ""


class Source(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The origin of the rows: a file or an http(s) address, in one of the import formats.

    A relative `file` starts from the declaration's own folder. An address is fetched every `refresh_seconds`. `id` is
    the column that identifies rows, `title` the field that names an item. `currency` and `site` complete prices
    without a currency and relative links in product feeds. An `encoding` that is not given is detected.
    """

    file: str
    format: str
    encoding: str = ""
    delimiter: str = ","
    id: str = ""
    title: str = "id"
    currency: str = ""
    site: str = ""
    refresh_seconds: int = 3_600


class Head(Struct, frozen=True, forbid_unknown_fields=True):
    """A declaration as its file has it, with the fields not yet read."""

    title: str
    table: Source
    fields: dict[str, Any]
    description: str = ""
    licence: str = UNKNOWN
    source: str = UNKNOWN
    price_usd: Decimal = Decimal("0.001")
    free_per_day: int = 100
    exports: bool = True


class Declaration(Struct, frozen=True):
    """A service: what is in it, and what it costs.

    Each address has `free_per_day` requests free, and pays `price_micros` (micro-USD) for each one more. `exports`:
    whether the whole table can be had as a file. `path` is the declaration's own file.
    """

    name: str
    path: Path
    title: str
    description: str
    licence: str
    source: str
    price_micros: int
    free_per_day: int
    exports: bool
    table: Source
    fields: dict[str, Field]

    @property
    def location(self) -> str:
        """The table's address, or the path of its file."""
        return self.table.file if is_address(self.table.file) else str(self.path.parent / self.table.file)

    @property
    def fingerprint(self) -> bytes:
        """Changes with every change of how the table is read or indexed."""
        read = {
            name: {**msgspec.to_builtins(field), "label": "", "description": ""} for name, field in self.fields.items()
        }
        return msgspec.json.encode(
            [msgspec.structs.replace(self.table, file="", refresh_seconds=3_600), list(read.items())]
        )


def read_declaration(path: Path) -> Declaration:
    """The table that a file declares, named after the file. Raises DeclarationError."""
    return parse_declaration(read_text(path), path)


def parse_declaration(text: str, path: Path) -> Declaration:
    """The table that a text declares, as if it were the file `path`. Raises DeclarationError."""
    document = DeclarationText(path, text)
    head = document.converted(document.members(), Head, "")
    fields = {name: document.converted(each, Field, f"fields.{name}") for name, each in head.fields.items()}
    for key, fault in (*_head_faults(head, fields), *_field_faults(fields)):
        raise document.error(key, fault)
    as_written = ("title", "description", "licence", "source", "free_per_day", "exports", "table")
    members = {name: getattr(head, name) for name in as_written}
    return Declaration(
        name=path.stem, path=path, price_micros=int(head.price_usd * MICROS_PER_USD), fields=fields, **members
    )


def _head_faults(head: Head, fields: dict[str, Field]) -> Iterator[tuple[str, str]]:
    """Key and reason of each contradiction."""
    if not head.title.strip():
        yield "title", "is required: a few words"
    if not head.price_usd.is_finite() or not 0 < head.price_usd <= 1_000 or head.price_usd * MICROS_PER_USD % 1:
        yield "price_usd", "must be above 0, at most 1000, with at most 6 decimals"
    if not 0 <= head.free_per_day <= 1_000_000_000:
        yield "free_per_day", "must be between 0 and 1000000000"
    if not 0 < len(fields) <= MAX_FIELDS:
        yield "fields", f"there must be between 1 and {MAX_FIELDS}"
    if head.table.format not in FORMATS:
        yield "table.format", f"must be one of {', '.join(FORMATS)}"
    if head.table.refresh_seconds < MIN_REFRESH_SECONDS:
        yield "table.refresh_seconds", f"must be at least {MIN_REFRESH_SECONDS}"
    if len(head.table.delimiter) != 1 or head.table.delimiter in '"\r\n':
        yield "table.delimiter", "must be one character other than a quote or a line end"
    title = fields.get(head.table.title)
    if head.table.title != "id" and (title is None or title.type not in ("text", "keyword")):
        yield "table.title", "must name a field of type text or keyword, or id"
    elif title is not None and not title.exported:
        yield "table.title", "names a field that is not exported"


def _field_faults(fields: dict[str, Field]) -> Iterator[tuple[str, str]]:
    for name, field in fields.items():
        key = f"fields.{name}"
        if fault := field_fault(name):
            yield key, fault
        claims = (("searched", field.searched != 0, SEARCHED), ("filtered", field.filtered, FILTERED),
                  ("faceted", field.faceted, FACETED), ("sorted", field.sorted, SORTED))  # fmt: skip
        for claim, is_made, able in claims:
            if is_made and field.type not in able:
                types = ", ".join(sorted(able))
                yield f"{key}.{claim}", f"{field.type} cannot be {claim}; types that can are {types}"
        if not 0 <= field.searched <= 1_000:
            yield f"{key}.searched", "must be between 0 and 1000"
        if field.type == "list" and not field.separator:
            yield f"{key}.separator", "cannot be empty"


def field_fault(name: str) -> str:
    """Why a field cannot be called this, "" when it can."""
    if not _FIELD.fullmatch(name):
        return f"a field's name is 1 to {MAX_FIELD_NAME} lower-case letters, digits and underscores, a letter first"
    if name in TAKEN_FIELDS:
        return f"the name {name} is taken: {', '.join(sorted(TAKEN_FIELDS))} are"
    if name.startswith(_ENDS):
        return f"a name cannot begin with {' or '.join(_ENDS)}: they name the ends of a range"
    return ""


def field_names(headers: Iterable[str]) -> Iterator[str]:
    """A name for each header, no two alike: `Prix (€)` is `prix`, a second one `prix_2`, `最高` is `column_3`."""
    given = set(TAKEN_FIELDS)
    for column, header in enumerate(headers, start=1):
        name = _plain(header) or f"column_{column}"
        for end in _ENDS:
            if name.startswith(end):
                name = f"{name.removeprefix(end)}_{end.rstrip('_')}".strip("_")
        free, number = name, 1
        while free in given:
            number += 1
            free = f"{name[: MAX_FIELD_NAME - 4]}_{number}"
        given.add(free)
        yield free


def _plain(header: str) -> str:
    apart = unicodedata.normalize("NFKD", header).casefold().translate(_SPELT)
    letters = "".join(sign for sign in apart if not unicodedata.combining(sign))
    # isbn13Code and ISBN-13 code alike become words.
    words = re.sub(r"[^a-z0-9]+", "_", letters).strip("_")
    return (words if not words[:1].isdigit() else f"n_{words}")[: MAX_FIELD_NAME - 4].rstrip("_")


def declaration_toml(head: Head) -> str:
    """The text of a declaration that a person reads and edits. The `fields` are `Field` objects."""
    names = ("title", "description", "licence", "source", "price_usd", "free_per_day")
    general = {name: getattr(head, name) for name in names} | {"price_usd": usd(int(head.price_usd * MICROS_PER_USD))}
    lines = [*_COMMENT, "", *toml_lines({name: value for name, value in general.items() if value != ""})]
    lines += ["", "[table]", *toml_lines(msgspec.to_builtins(head.table))]
    for name, field in head.fields.items():
        lines += ["", f"[fields.{name}]", *toml_lines(msgspec.to_builtins(field))]
    return "\n".join(lines) + "\n"
