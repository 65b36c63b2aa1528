"""A Parquet file's columns as cells such as JSON has: days and moments as text, decimals as numbers."""

import io
import math
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any


def parquet_columns(raw: bytes) -> dict[str, list[Any]]:
    """Every column's cells, by its name. Raises ValueError, and ModuleNotFoundError without the extra."""
    import pyarrow as pa
    from pyarrow.parquet import read_table

    try:
        table = read_table(io.BytesIO(raw))
        named = zip(table.column_names, table.columns, strict=True)
        return {name: [_cell(value) for value in _in_micros(pa, column).to_pylist()] for name, column in named}
    except (pa.ArrowException, OSError, OverflowError, ValueError) as error:
        raise ValueError(f"is no Parquet that can be read: {str(error).splitlines()[0]}") from None


def _in_micros(pa: Any, column: Any) -> Any:
    """Moments as Python's own have them: to the microsecond, in UTC where they have a zone."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", "UTC" if column.type.tz else None), safe=False)
    if pa.types.is_time64(column.type):
        return column.cast(pa.time64("us"), safe=False)
    return column.cast(pa.duration("us"), safe=False) if pa.types.is_duration(column.type) else column


def _cell(value: Any) -> Any:
    """Bytes, and whatever else no reader of JSON could take, are left out."""
    if isinstance(value, dict):
        return {str(name): _cell(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cell(each) for each in value]
    return next((convert(value) for types, convert in _CONVERT if isinstance(value, types)), None)


def _decimal(value: Decimal) -> int | float | None:
    if not value.is_finite():
        return None
    return int(value) if value == int(value) else float(value)


_CONVERT: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((str, bool, int), lambda value: value),
    (float, lambda value: value if math.isfinite(value) else None),
    (Decimal, _decimal),
    ((date, time), lambda value: value.isoformat()),
    (timedelta, lambda value: value.total_seconds()),
)
