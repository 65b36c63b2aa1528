"""From a table's rows to a catalogue's items: which fit the declaration, and why the others do not."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.catalogue.items import MAX_ID, InvalidItem, Item, prepare_item
from tollhouse.catalogue.schema import Schema
from tollhouse.services.tables import cell_values
from tollhouse.services.tables.declaration import Declaration, Field
from tollhouse.services.tables.file_reader import RefusedRow, Row, Table, TableError
from tollhouse.services.tables.schema import indexed, schema_of


class Fitted(Struct, frozen=True):
    """The items of a table, prepared for its catalogue, and the rows that are none."""

    items: list[Item]
    refused: list[RefusedRow]


class _Column(Struct, frozen=True):
    name: str
    at: int
    field: Field


def fitted(declaration: Declaration, table: Table) -> Fitted:
    """Every row as an item or a refusal, by line. Raises TableError when a declared column is not there."""
    columns = list(_columns(declaration, table))
    identity = _identity(declaration, table)
    schema = schema_of(declaration)
    items: dict[str, Item] = {}
    refused = list(table.refused)
    times: Counter[str] = Counter()
    for row in table.rows:
        try:
            item = _item(schema, columns, identity, row)
        except InvalidItem as fault:
            refused.append(RefusedRow(row.line, str(fault)))
            continue
        times[item["id"]] += 1
        if times[item["id"]] > 1 and identity is not None:
            refused.append(RefusedRow(row.line, "has the id of an earlier row"))
            continue
        if times[item["id"]] > 1:
            item["id"] += f"-{times[item['id']]}"
        items[item["id"]] = item
    return Fitted(list(items.values()), sorted(refused, key=lambda each: each.line))


def cell_value(field: Field, cell: Any) -> Any:
    """A cell as its field has it, None where it says nothing. Raises ValueError."""
    if cell_values.is_empty(cell, field.empty):
        return None
    return _READERS[field.type](field, cell)


_READERS: dict[str, Callable[[Field, Any], Any]] = {
    "text": lambda _, cell: cell_values.text_of(cell),
    "keyword": lambda _, cell: cell_values.text_of(cell),
    "list": lambda field, cell: cell_values.list_of(cell, field.separator) or None,
    "integer": lambda field, cell: cell_values.integer_of(cell, field.decimal),
    "number": lambda field, cell: cell_values.number_of(cell, field.decimal),
    "money": lambda field, cell: cell_values.money_of(cell, field.decimal),
    "date": lambda field, cell: cell_values.date_of(cell, field.format),
    "moment": lambda field, cell: cell_values.moment_of(cell, field.format),
    "boolean": lambda _, cell: cell_values.boolean_of(cell),
    "url": lambda _, cell: cell_values.url_of(cell),
    "image": lambda _, cell: cell_values.url_of(cell),
    "json": lambda _, cell: cell,
}


def _columns(declaration: Declaration, table: Table) -> Iterator[_Column]:
    at = {column: number for number, column in enumerate(table.columns)}
    for name, field in declaration.fields.items():
        if (field.column or name) not in at:
            raise TableError(f"there is no column {field.column or name!r}, which fields.{name} is read from")
        yield _Column(name, at[field.column or name], field)


def _identity(declaration: Declaration, table: Table) -> int | None:
    """The place of the column that tells rows apart."""
    column = declaration.table.id
    if column and column not in table.columns:
        raise TableError(f"there is no column {column!r}, which table.id names")
    return table.columns.index(column) if column else None


def _item(schema: Schema, columns: Sequence[_Column], identity: int | None, row: Row) -> Item:
    """Raises InvalidItem."""
    item: Item = {}
    for column in columns:
        try:
            value = cell_value(column.field, row.cells[column.at])
        except ValueError as fault:
            raise InvalidItem(column.name, str(fault)) from None
        if value is not None:
            item[column.name] = indexed(column.field.type, value)
    item["id"] = _made_id(item) if identity is None else _own_id(row.cells[identity])
    return prepare_item(schema, item)


def _own_id(cell: Any) -> str:
    try:
        text = cell_values.text_of(cell) if not cell_values.is_empty(cell) else ""
    except ValueError as fault:
        raise InvalidItem("id", str(fault)) from None
    if not text or "/" in text or text in {".", ".."} or len(text) > MAX_ID:
        raise InvalidItem("id", f"must be 1 to {MAX_ID} characters without a slash")
    return text


def _made_id(item: Item) -> str:
    """Of what the row says, so that it stays the same wherever the row stands."""
    try:
        return blake2b(msgspec.json.encode(item, order="deterministic"), digest_size=8).hexdigest()
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError, TypeError) as fault:
        raise InvalidItem("the row", f"cannot be written: {fault}") from None
