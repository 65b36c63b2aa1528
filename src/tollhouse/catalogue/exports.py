"""A catalogue's items as rows of a file, for any schema: CSV of RFC 4180, and one JSON object a line."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tollhouse.catalogue.items import Item
from tollhouse.catalogue.schema import Schema

CSV = "text/csv"
NDJSON = "application/x-ndjson"

# In a spreadsheet these begin a formula, which a shop's feed has no business to run: OWASP, "CSV Injection".
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_rows(schema: Schema, items: Iterable[Item], fields: tuple[str, ...] | None = None) -> Iterator[bytes]:
    """A header with the names of the exported fields, then an item a row; lists with `|` between their values."""
    names = [name for name in schema.exported if fields is None or name in {"id", *fields}]
    yield _line(names)
    for item in items:
        yield _line([_cell(item.get(name)) for name in names])


def ndjson_rows(items: Iterable[Item]) -> Iterator[bytes]:
    """An item a line."""
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
