"""A table's file as rows of cells: CSV of any delimiter and encoding, JSON lines, Parquet."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.services.tables.declaration import Source, TableFormat
from tollhouse.services.tables.parquet_reader import parquet_columns

_FORMATS: dict[str, TableFormat] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
}  # fmt: skip
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_HASHTAG = re.compile(r"\s*#[a-z]")
_DELIMITERS = (",", ";", "\t", "|")
# So many records tell a file's delimiter.
_LOOKED_AT = 200


class TableError(ValueError):
    """A table that cannot be read as a whole; the text says why."""


class Row(Struct, frozen=True):
    """A row's cells, one for each column. `line` counts from 1; in Parquet, where there are no lines, the rows do."""

    line: int
    cells: Sequence[Any]


class RefusedRow(Struct, frozen=True):
    """A row that is left out."""

    line: int
    reason: str


class Table(Struct, frozen=True):
    """What a file holds. No two `columns` are called alike."""

    columns: tuple[str, ...]
    rows: list[Row]
    refused: list[RefusedRow]


def source_of(file: Path, raw: bytes) -> Source:
    """How a file nobody has described is to be read. Raises TableError when its name does not tell what it is."""
    kind = _FORMATS.get(file.suffix.lower())
    if kind is None:
        raise TableError(f"{file.name}: a table's file ends in {', '.join(_FORMATS)}")
    if kind != "csv":
        return Source(str(file), kind)
    encoding = _encoding(raw)
    return Source(str(file), kind, encoding, _delimiter(raw.decode(encoding)))


def read_table(source: Source, raw: bytes) -> Table:
    """The rows of a file. Raises TableError."""
    table = _READERS[source.format](source, raw)
    if not table.columns:
        raise TableError("there is no column in it")
    return table


def _encoding(raw: bytes) -> str:
    """By its mark; else UTF-8 where it can be, and what Windows wrote in the west where it cannot."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return encoding
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        # Of the five bytes that cp1252 leaves out no text has any; latin-1 takes them all.
        return "latin-1" if any(byte in raw for byte in b"\x81\x8d\x8f\x90\x9d") else "cp1252"
    return "utf-8"


def _delimiter(text: str) -> str:
    """The one that makes the most records alike; of equals, the one that makes the most cells."""

    def likeness(delimiter: str) -> tuple[int, int]:
        try:
            sizes = [len(row) for row in islice(_records(text, delimiter), _LOOKED_AT) if row]
        except csv.Error:
            return 0, 0
        return (sizes.count(sizes[0]), sizes[0]) if sizes and sizes[0] > 1 else (0, 0)

    return max(_DELIMITERS, key=likeness)


def _records(text: str, delimiter: str) -> Any:
    return csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter)


def _csv(source: Source, raw: bytes) -> Table:
    try:
        text = raw.decode(source.encoding)
    except UnicodeDecodeError as error:
        raise TableError(f"byte {error.start} is no {source.encoding}") from None
    except LookupError:
        raise TableError(f"there is no encoding {source.encoding!r}") from None
    records = _records(text, source.delimiter)
    numbered = _numbered(records)
    _, header = next(numbered, (0, []))
    columns = _columns(header)
    rows: list[Row] = []
    refused: list[RefusedRow] = []
    for line, cells in numbered:
        # The second header of humanitarian data: what each column means (https://hxlstandard.org).
        if not rows and not refused and all(_HASHTAG.match(cell) for cell in cells if cell.strip()):
            continue
        # Some programs end every line with a delimiter.
        width = len(cells) if any(cells[len(columns) :]) else min(len(cells), len(columns))
        if width != len(columns):
            refused.append(RefusedRow(line, f"has {len(cells)} cells where the header has {len(columns)}"))
        else:
            rows.append(Row(line, cells[:width]))
    return _without_blanks(Table(columns, rows, refused), header)


def _numbered(records: Any) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not blank, with the line it begins on. Raises TableError."""
    while True:
        line = records.line_num + 1
        try:
            cells = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(f"line {line}: {error}") from None
        if any(cell.strip() for cell in cells):
            yield line, cells


def _columns(headers: Iterable[Any]) -> tuple[str, ...]:
    """Headers on one line, the empty ones by their number, the second of two alike told apart."""
    given: dict[str, None] = {}
    for number, header in enumerate(headers, start=1):
        words = " ".join("".join(sign if sign.isprintable() else " " for sign in str(header)).split())
        name = words or f"column {number}"
        count = 1
        while name in given:
            count += 1
            name = f"{words} ({count})"
        given[name] = None
    return tuple(given)


def _without_blanks(table: Table, header: list[str]) -> Table:
    """The table without columns that have neither a header nor a cell."""
    blank = {
        at
        for at, text in enumerate(header)
        if not text.strip() and not any(row.cells[at].strip() for row in table.rows)
    }
    if not blank:
        return table
    kept = [at for at in range(len(table.columns)) if at not in blank]
    rows = [Row(row.line, [row.cells[at] for at in kept]) for row in table.rows]
    return Table(tuple(table.columns[at] for at in kept), rows, table.refused)


def _jsonl(_source: Source, raw: bytes) -> Table:
    found: list[tuple[int, dict[str, Any]]] = []
    refused = []
    for line, text in enumerate(raw.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            found.append((line, msgspec.json.decode(text, type=dict[str, Any])))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            refused.append(RefusedRow(line, "is no JSON object"))
    if not found:
        raise TableError("no line of it is a JSON object")
    keys = list(dict.fromkeys(key for _, members in found for key in members))
    return Table(_columns(keys), [Row(line, [one.get(key) for key in keys]) for line, one in found], refused)


def _parquet(_source: Source, raw: bytes) -> Table:
    try:
        columns = parquet_columns(raw)
    except ModuleNotFoundError:
        raise TableError("Parquet needs the extra: pip install 'tollhouse[parquet]'") from None
    except ValueError as error:
        raise TableError(str(error)) from None
    rows = [Row(number, cells) for number, cells in enumerate(zip(*columns.values(), strict=True), start=1)]
    return Table(_columns(columns), rows, [])


_READERS: dict[TableFormat, Callable[[Source, bytes], Table]] = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}
