"""The declaration of a table's service: a TOML file, read strictly, with faults that name file, line and key."""

import re
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import fields as members_of

from tollhouse.money import MICROS_PER_USD
from tollhouse.services.tables.cell_values import DateFormat, DecimalMark, Kind
from tollhouse.services.tables.names import field_fault

MAX_FIELDS = 200
UNKNOWN = "unknown"

TableFormat = Literal["csv", "jsonl", "parquet"]

# What a field of each type can be besides shown.
SEARCHED: frozenset[Kind] = frozenset({"text", "keyword", "list"})
RANGED: frozenset[Kind] = frozenset({"integer", "number", "money", "date", "moment"})
FILTERED: frozenset[Kind] = RANGED | {"keyword", "list", "boolean"}
FACETED: frozenset[Kind] = frozenset({"keyword", "list", "boolean", "integer", "number", "money"})
SORTED: frozenset[Kind] = RANGED | {"keyword", "boolean"}


class DeclarationError(ValueError):
    """A declaration that cannot be served; the text names the file, and where it can the line and the key."""


class Field(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One member of an item. `column` is its header in the table, `label` what people read; by default its name.

    `searched` above 0: its words are found, and count that much. `filtered`: by whole values, and by a minimum and a
    maximum where it is a number or a date. A field that is not `exported` is found and filtered by, and never shown.
    A row without a `required` value is refused. `empty` are texts that stand for nothing.
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
    """Where the rows are. `id` is the column that tells them apart, `title` the field that names an item.

    A relative `file` is looked for from the declaration's own folder.
    """

    file: str
    format: TableFormat
    encoding: str = "utf-8"
    delimiter: str = ","
    id: str = ""
    title: str = "id"


class _Head(Struct, frozen=True, forbid_unknown_fields=True):
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
    def file(self) -> Path:
        """The table's file."""
        return self.path.parent / self.table.file

    @property
    def fingerprint(self) -> bytes:
        """Another for every change of how the table is read or indexed."""
        read = {
            name: {**msgspec.to_builtins(field), "label": "", "description": ""} for name, field in self.fields.items()
        }
        return msgspec.json.encode([msgspec.structs.replace(self.table, file=""), list(read.items())])


def read_declaration(path: Path) -> Declaration:
    """The service a file declares, called as the file is. Raises DeclarationError."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise DeclarationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DeclarationError(f"{path}: is not UTF-8") from None
    return declaration_of(text, path)


def declaration_of(text: str, path: Path) -> Declaration:
    """The service that a text declares, as if it stood at `path`. Raises DeclarationError."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DeclarationError(f"{path}: is no TOML: {error}") from None
    told = _Told(path, text)
    head = told.converted(raw, _Head, "")
    fields = {name: told.converted(each, Field, f"fields.{name}") for name, each in head.fields.items()}
    for key, fault in (*_head_faults(head, fields), *_field_faults(fields)):
        raise told.error(key, fault)
    return Declaration(
        name=path.stem,
        path=path,
        title=head.title,
        description=head.description,
        licence=head.licence,
        source=head.source,
        price_micros=int(head.price_usd * MICROS_PER_USD),
        free_per_day=head.free_per_day,
        exports=head.exports,
        table=head.table,
        fields=fields,
    )


def _head_faults(head: _Head, fields: dict[str, Field]) -> Iterator[tuple[str, str]]:
    """Key and reason of what contradicts itself."""
    if not head.title.strip():
        yield "title", "is needed: a few words"
    if not head.price_usd.is_finite() or not 0 < head.price_usd <= 1_000 or head.price_usd * MICROS_PER_USD % 1:
        yield "price_usd", "must be above 0, at most 1000, with at most 6 decimals"
    if not 0 <= head.free_per_day <= 1_000_000_000:
        yield "free_per_day", "lies in 0..1000000000"
    if not 0 < len(fields) <= MAX_FIELDS:
        yield "fields", f"there must be from 1 to {MAX_FIELDS}"
    if len(head.table.delimiter) != 1 or head.table.delimiter in '"\r\n':
        yield "table.delimiter", "is one character, no quote and no line's end"
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
                yield f"{key}.{claim}", f"{field.type} cannot be {claim}; these can: {', '.join(sorted(able))}"
        if not 0 <= field.searched <= 1_000:
            yield f"{key}.searched", "lies in 0..1000"
        if field.type == "list" and not field.separator:
            yield f"{key}.separator", "cannot be empty"


class _Told(Struct, frozen=True):
    """A declaration's text, to say where in it something is wrong."""

    path: Path
    text: str

    def converted(self, raw: Any, shape: Any, within: str) -> Any:
        """The members as their type. Raises DeclarationError that names the key and what it may be."""
        try:
            return msgspec.convert(raw, shape)
        except msgspec.ValidationError as error:
            message, _, where = str(error).partition(" - at `$")
            key = ".".join(filter(None, (within, where.strip("`.")))).replace(".fields[...]", "")
            raise self.error(*_clearer(key, message, shape)) from None

    def error(self, key: str, fault: str) -> DeclarationError:
        """The fault with the line its key stands on, where that can be found."""
        line = self._line(key)
        return DeclarationError(f"{self.path}{f', line {line}' if line else ''}: {key}: {fault}")

    def _line(self, key: str) -> int | None:
        """The line of `fields.price.type`: in the part headed `[fields.price]`, the one that begins `type =`."""
        part, _, last = key.rpartition(".")
        here, headed = "", None
        for number, line in enumerate(self.text.splitlines(), start=1):
            if heading := re.match(r"\s*\[([^\[\]]+)\]", line):
                here = heading[1].replace('"', "").strip()
                headed = number if here in (key, part) and part else headed
                if here == key:
                    return number
            elif here == part and re.match(rf"\s*\"?{re.escape(last)}\"?\s*=", line):
                return number
        return headed


def _clearer(key: str, message: str, shape: Any) -> tuple[str, str]:
    """The key that is meant and the fault, with what is allowed."""
    if unknown := re.search(r"unknown field `(.*)`", message):
        return f"{key}.{unknown[1]}".lstrip("."), f"there is no such key; there are {', '.join(_keys(shape, key))}"
    if missing := re.search(r"missing required field `(\w+)`", message):
        return f"{key}.{missing[1]}".lstrip("."), "is needed"
    allowed = _allowed(shape, key.rpartition(".")[2])
    plain = f"{message[0].lower()}{message[1:]}"
    return key or "the file", f"is none of {', '.join(allowed)}" if allowed and "enum" in message else plain


def _keys(shape: Any, key: str) -> list[str]:
    inner = Source if shape is _Head and key == "table" else shape
    return [member.name for member in members_of(inner)]


def _allowed(shape: Any, name: str) -> tuple[Any, ...]:
    for each in (shape, Source):
        hints = get_type_hints(each)
        if name in hints and get_args(hints[name]):
            return get_args(hints[name])
    return ()
