"""Rows of a table as items of its catalogue: the schema, the values, and why a row is refused."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.catalogue import schema as catalogue
from tollhouse.catalogue.importers import values
from tollhouse.catalogue.importers.items import UnreadableFeed
from tollhouse.catalogue.importers.tables import RefusedRow, Row, Table, check_refused
from tollhouse.catalogue.items import MAX_ID, InvalidItem, Item, batches, prepare_item
from tollhouse.catalogue.schema import FieldType, Schema
from tollhouse.services.tables.declaration import Declaration, Field, Kind

_TYPES: dict[Kind, FieldType] = {
    "text": "text", "keyword": "keyword", "list": "keywords", "integer": "integer", "number": "number",
    "money": "money", "date": "timestamp", "moment": "timestamp", "boolean": "boolean", "url": "text", "image": "text",
    "point": "json", "json": "json",
}  # fmt: skip
_MIDNIGHT = "T00:00:00Z"
# Rows read at a time.
BATCH = 1_000
# The weight of an equal value for similar items, where a whole title has about 100.
_SIMILARITY_WEIGHT = 30.0
_MAX_SIMILARITY_FIELDS = 8


def build_schema(declaration: Declaration) -> Schema:
    alike = [name for name, field in declaration.fields.items() if field.filtered and field.faceted]
    return Schema(
        fields=tuple(_field(name, field) for name, field in declaration.fields.items()),
        title=declaration.table.title,
        alike=dict.fromkeys(alike[:_MAX_SIMILARITY_FIELDS], _SIMILARITY_WEIGHT),
    )


def catalogue_name(declaration: Declaration) -> str:
    """The catalogue's name: another for each shape of the table, so that rows of an older shape are never read."""
    return f"t:{declaration.name}:{blake2b(declaration.fingerprint, digest_size=4).hexdigest()}"


def catalogue_value(kind: Kind, value: Any) -> Any:
    """A value as the catalogue stores it: days as times."""
    return f"{value}{_MIDNIGHT}" if kind == "date" else value


def visible_item(declaration: Declaration, item: Item) -> dict[str, Any]:
    """An item as callers see it: every exported field, in the order of the declaration."""
    visible: dict[str, Any] = {"id": item["id"]}
    for name, field in declaration.fields.items():
        if field.exported:
            value = item.get(name)
            visible[name] = value.removesuffix(_MIDNIGHT) if field.type == "date" and value else value
    return visible


def _field(name: str, field: Field) -> catalogue.Field:
    alike = {one: getattr(field, one) for one in ("filtered", "faceted", "sorted", "exported", "required")}
    return catalogue.Field(name, _TYPES[field.type], weight=field.searched, **alike)


class TableItems(Struct, frozen=True):
    """The items of a table, prepared for its catalogue, and the refused rows."""

    items: list[Item]
    refused: list[RefusedRow]


class _Column(Struct, frozen=True):
    name: str
    at: int | None
    field: Field


class RowReader:
    """Reads rows of a table as items, in order. Raises UnreadableFeed when a declared column is missing."""

    def __init__(self, declaration: Declaration, table: Table) -> None:
        self._columns = list(_columns(declaration, table))
        self._identity = _identity(declaration, table)
        self._schema = build_schema(declaration)
        self._counts: Counter[str] = Counter()
        self._valid_count = 0
        self.refused = list(table.refused)

    def read(self, rows: Sequence[Row]) -> list[Item]:
        """The items of valid rows; the others are added to `refused`. Raises UnreadableFeed if most of many are."""
        items: list[Item] = []
        for row in rows:
            try:
                item = _item(self._schema, self._columns, self._identity, row)
            except InvalidItem as fault:
                self.refused.append(RefusedRow(row.line, str(fault)))
                continue
            self._counts[item["id"]] += 1
            count = self._counts[item["id"]]
            if count > 1 and self._identity is not None:
                self.refused.append(RefusedRow(row.line, "has the id of an earlier row"))
                continue
            if count > 1:
                item["id"] += f"-{count}"
            items.append(item)
        self._valid_count += len(items)
        check_refused(self.refused, self._valid_count)
        return items


def items_from_rows(
    declaration: Declaration, table: Table, on_progress: Callable[[int, int], None] = lambda *_: None
) -> TableItems:
    """Every row as an item or a refused row, by line; `on_progress` receives the rows read and their total.

    Raises UnreadableFeed when a declared column is missing.
    """
    reader = RowReader(declaration, table)
    items: list[Item] = []
    for rows in batches(table.rows, BATCH):
        items += reader.read(rows)
        on_progress(min(len(items) + len(reader.refused), len(table.rows)), len(table.rows))
    return TableItems(items, sorted(reader.refused, key=lambda each: each.line))


def cell_value(field: Field, cell: Any) -> Any:
    """The value of a cell, None for an empty one. Raises ValueError."""
    if values.is_empty(cell, field.empty):
        return None
    return _READERS[field.type](field, cell)


_READERS: dict[str, Callable[[Field, Any], Any]] = {
    "text": lambda _, cell: values.cell_text(cell),
    "keyword": lambda _, cell: values.cell_text(cell),
    "list": lambda field, cell: values.parse_list(cell, field.separator) or None,
    "integer": lambda field, cell: values.parse_integer(cell, field.decimal),
    "number": lambda field, cell: values.parse_number(cell, field.decimal),
    "money": lambda field, cell: values.parse_amount(cell, field.decimal, field.currency),
    "date": lambda field, cell: values.parse_date(cell, field.format),
    "moment": lambda field, cell: values.parse_moment(cell, field.format),
    "boolean": lambda _, cell: values.parse_boolean(cell),
    "url": lambda _, cell: values.parse_url(cell),
    "image": lambda _, cell: values.parse_url(cell),
    "point": lambda _, cell: values.parse_point(cell),
    "json": lambda _, cell: cell,
}


def _columns(declaration: Declaration, table: Table) -> Iterator[_Column]:
    at = {column: number for number, column in enumerate(table.columns)}
    for name, field in declaration.fields.items():
        if (field.column or name) not in at and not table.is_open:
            raise UnreadableFeed(f"there is no column {field.column or name!r}, which fields.{name} is read from")
        yield _Column(name, at.get(field.column or name), field)


def _identity(declaration: Declaration, table: Table) -> int | None:
    """The position of the column that identifies rows."""
    column = declaration.table.id
    if column and column not in table.columns:
        raise UnreadableFeed(f"there is no column {column!r}, which table.id names")
    return table.columns.index(column) if column else None


def _item(schema: Schema, columns: Sequence[_Column], identity: int | None, row: Row) -> Item:
    """Raises InvalidItem."""
    item: Item = {}
    for column in columns:
        try:
            value = cell_value(column.field, None if column.at is None else row.cells[column.at])
        except ValueError as fault:
            raise InvalidItem(column.name, str(fault)) from None
        if value is not None:
            item[column.name] = catalogue_value(column.field.type, value)
    item["id"] = _content_id(item) if identity is None else _own_id(row.cells[identity])
    return prepare_item(schema, item)


def _own_id(cell: Any) -> str:
    try:
        text = values.cell_text(cell) if not values.is_empty(cell) else ""
    except ValueError as fault:
        raise InvalidItem("id", str(fault)) from None
    if not text or "/" in text or text in {".", ".."} or len(text) > MAX_ID:
        raise InvalidItem("id", f"must be 1 to {MAX_ID} characters without a slash")
    return text


def _content_id(item: Item) -> str:
    """An id made from the row's values, so that it stays the same wherever the row is."""
    try:
        return blake2b(msgspec.json.encode(item, order="deterministic"), digest_size=8).hexdigest()
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError, TypeError) as fault:
        raise InvalidItem("the row", f"cannot be written: {fault}") from None
