"""Exports of a catalogue's items for any schema: CSV (RFC 4180) and NDJSON."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tollhouse.catalogue.items import Item
from tollhouse.catalogue.schema import Schema

CSV = "text/csv"
NDJSON = "application/x-ndjson"

# Characters that start a formula in a spreadsheet (OWASP, "CSV Injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_rows(schema: Schema, items: Iterable[Item], fields: tuple[str, ...] | None = None) -> Iterator[bytes]:
    """A header row, then one row per item. List values are joined with `|`."""
    names = [name for name in schema.exported if fields is None or name in {"id", *fields}]
    yield _line(names)
    for item in items:
        yield _line([_cell(item.get(name)) for name in names])


def ndjson_rows(items: Iterable[Item]) -> Iterator[bytes]:
    """One JSON object per line."""
    return (msgspec.json.encode(item) + b"\n" for item in items)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return _cell("|".join(value))
    return msgspec.json.encode(value).decode()


def _line(cells: list[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue().encode()
