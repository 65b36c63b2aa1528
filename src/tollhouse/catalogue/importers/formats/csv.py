"""CSV and other delimited text with a header."""

import csv
from collections.abc import Iterator
from itertools import islice

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import Table, build_table
from tollhouse.csv_text import read_cell

_DELIMITERS = (",", ";", "\t", "|")
# So many records decide which delimiter a file has.
_SAMPLE_RECORDS = 200
_MAX_COLUMNS = 500
_MAX_CELL = 400_000

Record = tuple[int, int, list[str]]


def read_csv(documents: list[Document], context: Context) -> Table:
    """The rows under the header. Raises UnreadableFeed."""
    return read_delimited(documents[0].text(context.mapping.encoding), context.mapping.delimiter)


def read_delimited(text: str, delimiter: str = "") -> Table:
    """The rows of delimited text; the delimiter is detected where it is not given. Raises UnreadableFeed."""
    if not delimiter:
        delimiter = detect_delimiter(text)
    records = _records(text, delimiter)
    # The limit is the whole process's: other readers keep theirs.
    usual = csv.field_size_limit(_MAX_CELL)
    try:
        header = next((cells for _, _, cells in records if any(map(str.strip, cells))), [])
        while header and not header[-1].strip():
            header.pop()
        if not header:
            raise UnreadableFeed("the file is empty: there is no column in it")
        if len(header) > _MAX_COLUMNS:
            raise UnreadableFeed(f"the header names more than {_MAX_COLUMNS} columns")
        return build_table(header, records)
    finally:
        csv.field_size_limit(usual)


def detect_delimiter(text: str) -> str:
    """The delimiter that gives most records the width of the first; of equals, the one that gives most cells."""

    def likeness(delimiter: str) -> tuple[int, int]:
        try:
            sizes = [len(cells) for _, _, cells in islice(_records(text, delimiter), _SAMPLE_RECORDS) if cells]
        except UnreadableFeed:
            return 0, 0
        return (sizes.count(sizes[0]), sizes[0]) if sizes and sizes[0] > 1 else (0, 0)

    return max(_DELIMITERS, key=likeness)


def _records(text: str, delimiter: str) -> Iterator[Record]:
    lines = text.split("\n" if "\n" in text else "\r")
    reader = csv.reader((line.rstrip("\r\n") + "\n" for line in lines), delimiter=delimiter)
    first_line = 1
    try:
        for cells in reader:
            yield first_line, reader.line_num, list(map(read_cell, cells))
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise UnreadableFeed(f"line {reader.line_num}: {error}") from None


register(
    Format(
        name="csv",
        help="columns by their usual names, or by a mapping; the delimiter and the encoding are detected",
        prices="as shops write them, or minor units",
        read_table=read_csv,
        names_currency=False,
        endings=(".csv", ".tsv", ".txt"),
    )
)
