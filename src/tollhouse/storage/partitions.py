"""Partitions by day of a table on PostgreSQL whose primary key contains a time as text (`20201115110000`).

Such a table also has a default partition, so that no insert fails, and may have one of all earlier rows. Making and
dropping a partition wait at most LOCK_SECONDS for transactions that read the table, such as a dump. What was not done
is done the next time.
"""

import re
from collections.abc import Iterable
from datetime import date, timedelta

from msgspec import Struct
from sqlalchemy import Table, TableClause, column, table, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.logs import logger

log = logger("storage")

LOCK_SECONDS = 2
DAYS_AHEAD = 7

_LIST = """SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
    WHERE inhparent = to_regclass(:parent) ORDER BY c.relname"""
_BOUNDS = re.compile(r"FOR VALUES FROM \((MINVALUE|'[0-9]+')\) TO \('([0-9]+)'\)")
_MOVE = """WITH moved AS (DELETE FROM {default} WHERE {column} >= '{first}' AND {column} < '{end}' RETURNING *)
    INSERT INTO {name} SELECT * FROM moved"""
# A table is in use, or the default partition got a row of the day meanwhile.
_LATER = frozenset({"55P03", "23514"})


class Partition(Struct, frozen=True):
    """A partition with the rows from `first` (None: of all earlier days) until before `end` (None: the default one)."""

    name: str
    first: str | None
    end: str | None

    @property
    def is_day(self) -> bool:
        """Whether it has the rows of one day."""
        return self.first is not None

    def is_before(self, moment: str) -> bool:
        """Whether all its rows are from before a time."""
        return self.end is not None and self.end <= moment


async def list_partitions(connection: AsyncConnection, parent: str) -> list[Partition]:
    """The partitions of a table, by name; empty on SQLite."""
    if connection.dialect.name == "sqlite":
        return []
    return [_partition(name, bound) for name, bound in await connection.execute(text(_LIST), {"parent": parent})]


def table_of(partition: Partition, parent: Table) -> TableClause:
    return table(partition.name, *(column(one.name, one.type) for one in parent.columns))


async def make_days(connection: AsyncConnection, parent: str, moment: str, newest: date) -> None:
    """Make the missing partitions of a day and of the DAYS_AHEAD after it.

    `moment` is the column for time. Rows of these days in the default partition move into them.
    """
    stored = await list_partitions(connection, parent)
    names = {one.name for one in stored}
    covered = max((one.end for one in stored if one.end and not one.is_day), default="")
    default = next((one.name for one in stored if one.end is None), None)
    for day in (newest + timedelta(days=ahead) for ahead in range(DAYS_AHEAD + 1)):
        name, first, end = f"{parent}_{day:%Y%m%d}", f"{day:%Y%m%d}", f"{day + timedelta(days=1):%Y%m%d}"
        if default and name not in names and first >= covered:
            # Attaching a table lets others read and write the rest, which making a partition would not.
            await _change(
                connection,
                f"CREATE TABLE {name} (LIKE {parent} INCLUDING ALL)",
                _MOVE.format(default=default, column=moment, first=first, end=end, name=name),
                f"ALTER TABLE {parent} ATTACH PARTITION {name} FOR VALUES FROM ('{first}') TO ('{end}')",
            )


async def drop_partitions(connection: AsyncConnection, names: Iterable[str]) -> None:
    for name in names:
        await _change(connection, f"DROP TABLE {name}")


async def _change(connection: AsyncConnection, *statements: str) -> None:
    try:
        async with connection.begin_nested():
            await connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
            for statement in statements:
                await connection.execute(text(statement))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) not in _LATER:
            raise
        log.warning("partitions not changed", statement=statements[-1], error=str(error.orig)[:300])


def _partition(name: str, bound: str) -> Partition:
    bounds = _BOUNDS.fullmatch(bound)
    if bounds is None:
        return Partition(name, None, None)
    first, end = bounds.groups()
    return Partition(name, None if first == "MINVALUE" else first.strip("'"), end)
