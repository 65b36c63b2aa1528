"""The rows of delimited text under its header, each with the line it starts on."""

import csv
from collections.abc import Callable, Iterator
from typing import Protocol

from msgspec import Struct

from tollhouse.catalogue.importers.article import MAX_ARTICLES, Unreadable

_DELIMITERS = ",;\t|"
_MOST_COLUMNS = 500
_LONGEST_CELL = 400_000


class _Reader(Protocol):
    """What the csv module's reader offers."""

    line_num: int

    def __iter__(self) -> Iterator[list[str]]: ...


class Record(Struct, frozen=True):
    """A row's cells by column; `fault` says why it cannot be read."""

    line: int
    values: dict[str, str]
    fault: str = ""


def records_of(feed: str, delimiter: str = "", needed: Callable[[list[str]], str] = lambda _: "") -> list[Record]:
    """Every row that is not empty. `needed` says what is wrong with the columns. Raises Unreadable."""
    lines = feed.split("\n" if "\n" in feed else "\r")
    reader = csv.reader((line.rstrip("\r\n") + "\n" for line in lines), delimiter=delimiter or _delimiter(feed))
    # The limit is the whole process's: other readers keep theirs.
    usual = csv.field_size_limit(_LONGEST_CELL)
    try:
        columns = _columns(reader, needed)
        return list(_records(reader, columns))
    except csv.Error as error:
        raise Unreadable(f"line {reader.line_num}: {error}") from None
    finally:
        csv.field_size_limit(usual)


def _columns(reader: _Reader, needed: Callable[[list[str]], str]) -> list[str]:
    columns = [name.strip() for name in next((cells for cells in reader if any(map(str.strip, cells))), [])]
    if not columns:
        raise Unreadable("the file is empty")
    if len(columns) > _MOST_COLUMNS:
        raise Unreadable(f"the first line names more than {_MOST_COLUMNS} columns")
    if fault := needed(columns):
        raise Unreadable(fault)
    return columns


def _records(reader: _Reader, columns: list[str]) -> Iterator[Record]:
    found, line = 0, reader.line_num + 1
    for cells in reader:
        if any(map(str.strip, cells)):
            found += 1
            if found > MAX_ARTICLES:
                raise Unreadable(f"the file has more than {MAX_ARTICLES} rows")
            yield _record(line, reader.line_num, cells, columns)
        line = reader.line_num + 1


def _record(line: int, last: int, cells: list[str], columns: list[str]) -> Record:
    # Trailing empty cells are a spreadsheet's habit, in rows as in headers.
    while len(cells) > len(columns) and not cells[-1].strip():
        cells.pop()
    values = {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if name}
    if len(cells) == len(columns):
        return Record(line, values)
    reason = f"the row has {len(cells)} cells and the header {len(columns)}"
    if last > line:
        reason += f"; it goes on to line {last}: is a quote not closed?"
    return Record(line, values, reason)


def _delimiter(feed: str) -> str:
    first = next((line for line in feed.split("\n", 20) if line.strip()), "")
    return max(_DELIMITERS, key=first.count)
