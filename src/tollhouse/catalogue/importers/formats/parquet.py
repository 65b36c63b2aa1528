"""Parquet files, read by pyarrow."""

import io
from typing import Any

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import Row, Table, plain_cell


def read_parquet(documents: list[Document], _context: Context) -> Table:
    """The rows, numbered from 1. Raises UnreadableFeed, also without the extra."""
    try:
        import pyarrow as pa
        from pyarrow.parquet import read_table
    except ModuleNotFoundError:
        raise UnreadableFeed("Parquet needs the extra: pip install 'tollhouse[parquet]'") from None
    try:
        table = read_table(io.BytesIO(documents[0].body))
        columns = [[plain_cell(value) for value in _microseconds(pa, column).to_pylist()] for column in table.columns]
    except (pa.ArrowException, OSError, OverflowError, ValueError) as error:
        raise UnreadableFeed(f"is not readable Parquet: {str(error).splitlines()[0]}") from None
    if not columns:
        raise UnreadableFeed("there is no column in it")
    names = tuple(dict.fromkeys(table.column_names))
    if len(names) < len(columns):
        raise UnreadableFeed("two columns have the same name")
    return Table(names, [Row(number, cells) for number, cells in enumerate(zip(*columns, strict=True), start=1)])


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
