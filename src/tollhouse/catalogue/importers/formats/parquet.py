"""Parquet files, read by pyarrow."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import Row, StreamedRows, Table, plain_cell

_BATCH = 5_000


def read_parquet(documents: list[Document], _context: Context) -> Table:
    """The rows, numbered from 1; those of a large file are read anew in each iteration.

    Raises UnreadableFeed, also without the extra.
    """
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError:
        raise UnreadableFeed("Parquet needs the extra: pip install 'tollhouse[parquet]'") from None
    document = documents[0]

    def read() -> Iterator[Row]:
        for number, cells in enumerate(_records(pa, ParquetFile, document), start=1):
            yield Row(number, cells)

    with _unreadable(pa), document.open() as source:
        columns: list[str] = ParquetFile(source).schema_arrow.names
    if not columns:
        raise UnreadableFeed("there is no column in it")
    if len(set(columns)) < len(columns):
        raise UnreadableFeed("two columns have the same name")
    # A file that cannot be read to its end is refused as a whole.
    rows = StreamedRows(sum(1 for _ in read()), read) if document.is_streamed else list(read())
    return Table(tuple(columns), rows)


def _records(pa: Any, parquet_file: Any, document: Document) -> Iterator[tuple[Any, ...]]:
    with _unreadable(pa), document.open() as source:
        for batch in parquet_file(source).iter_batches(_BATCH):
            columns = [map(plain_cell, _microseconds(pa, column).to_pylist()) for column in batch.columns]
            yield from zip(*columns, strict=True)


@contextmanager
def _unreadable(pa: Any) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, OverflowError, ValueError) as error:
        raise UnreadableFeed(f"is not readable Parquet: {str(error).splitlines()[0]}") from None


def _microseconds(pa: Any, column: Any) -> Any:
    """Times to the microsecond, as Python has them; in UTC where they have a zone."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", "UTC" if column.type.tz else None), safe=False)
    if pa.types.is_time64(column.type):
        return column.cast(pa.time64("us"), safe=False)
    return column.cast(pa.duration("us"), safe=False) if pa.types.is_duration(column.type) else column


register(
    Format(
        name="parquet",
        help="columns as in csv, with their types; needs the extra `tollhouse[parquet]`",
        prices="numbers, or as shops write them",
        read_table=read_parquet,
        names_currency=False,
        endings=(".parquet",),
    )
)
