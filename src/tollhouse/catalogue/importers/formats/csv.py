"""CSV and other delimited text with a header."""

import csv
from collections.abc import Iterable, Iterator
from itertools import islice

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import Record, Table, build_table, stream_table
from tollhouse.csv_text import read_cell

_DELIMITERS = (",", ";", "\t", "|")
# So many records decide which delimiter a file has.
_SAMPLE_RECORDS, _SAMPLE_LINES, _SAMPLE_LENGTH = 200, 2_000, 1_000_000
_MAX_COLUMNS = 500
_MAX_CELL = 400_000


def read_csv(documents: list[Document], context: Context) -> Table:
    """The rows under the header; those of a large file are read anew in each iteration. Raises UnreadableFeed."""
    read_lines = documents[0].lines(context.mapping.encoding)
    delimiter = context.mapping.delimiter or _detect_delimiter(read_lines())
    header = _header(_records(read_lines(), delimiter))

    def below_header() -> Iterator[Record]:
        records = _records(read_lines(), delimiter)
        _header(records)
        return records

    return stream_table(header, below_header) if documents[0].is_streamed else build_table(header, below_header())


def delimiter_of(document: Document) -> str:
    """The delimiter of a document, from its first lines. Raises UnreadableFeed."""
    return _detect_delimiter(document.lines()())


def _header(records: Iterator[Record]) -> list[str]:
    """The cells of the first record that is not blank. Raises UnreadableFeed."""
    header = list(next((cells for _, _, cells in records if any(map(str.strip, cells))), []))
    while header and not header[-1].strip():
        header.pop()
    if not header:
        raise UnreadableFeed("the file is empty: there is no column in it")
    if len(header) > _MAX_COLUMNS:
        raise UnreadableFeed(f"the header names more than {_MAX_COLUMNS} columns")
    return header


def _detect_delimiter(lines: Iterable[str]) -> str:
    """The delimiter that gives most records the width of the first; of equals, the one that gives most cells."""
    sample, length = [], 0
    for line in islice(lines, _SAMPLE_LINES):
        if length > _SAMPLE_LENGTH:
            break
        sample.append(line)
        length += len(line)

    def likeness(delimiter: str) -> tuple[int, int]:
        try:
            sizes = [len(cells) for _, _, cells in islice(_records(sample, delimiter), _SAMPLE_RECORDS) if cells]
        except UnreadableFeed:
            return 0, 0
        return (sizes.count(sizes[0]), sizes[0]) if sizes and sizes[0] > 1 else (0, 0)

    return max(_DELIMITERS, key=likeness)


def _records(lines: Iterable[str], delimiter: str) -> Iterator[Record]:
    # The limit is the whole process's: other readers keep theirs.
    usual = csv.field_size_limit(_MAX_CELL)
    reader = csv.reader((line.rstrip("\r\n") + "\n" for line in lines), delimiter=delimiter)
    first_line = 1
    try:
        for cells in reader:
            yield first_line, reader.line_num, list(map(read_cell, cells))
            first_line = reader.line_num + 1
            csv.field_size_limit(_MAX_CELL)
    except csv.Error as error:
        raise UnreadableFeed(f"line {reader.line_num}: {error}") from None
    finally:
        csv.field_size_limit(usual)


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
