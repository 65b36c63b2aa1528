"""Exports of a catalogue's items for any schema: CSV and NDJSON."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tollhouse.catalogue.items import Item
from tollhouse.catalogue.schema import Schema
from tollhouse.csv_text import write_rows

CSV = "text/csv"
NDJSON = "application/x-ndjson"


def csv_rows(schema: Schema, items: Iterable[Item], fields: tuple[str, ...] | None = None) -> Iterator[bytes]:
    """A header row, then one row per item. List values are joined with `|`."""
    names = [name for name in schema.exported if fields is None or name in {"id", *fields}]
    yield write_rows([names])
    for item in items:
        yield write_rows([[_cell(item.get(name)) for name in names]])


def ndjson_rows(items: Iterable[Item]) -> Iterator[bytes]:
    return (msgspec.json.encode(item) + b"\n" for item in items)


def _cell(value: Any) -> object:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "|".join(value)
    if isinstance(value, bool | list | dict):
        return msgspec.json.encode(value).decode()
    return value
