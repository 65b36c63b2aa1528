"""Revisions: which stored rows changed since a reader last looked, and whether any were removed.

A writer takes its feed's next revision in the transaction in which it writes, and no other writer of the feed gets one
until that transaction ends. So whoever sees a revision in a snapshot sees every row of it and of those before.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Column, Integer, Select, String, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from tollhouse.storage.database import Transaction, metadata, upsert

feed_revision = Table(
    "feed_revision",
    metadata,
    Column("feed", String(20), primary_key=True),
    Column("revision", Integer, nullable=False),
)

CHUNK = 500
# Rows read at once: few enough that their packed bodies never weigh much.
PARTITION = 2_000

# Rows as read: the id, the moment that windows go by, and the packed body.
Rows = Sequence[tuple[str, str, bytes]]


class Source(Struct, frozen=True):
    """Rows that a window is read from: of `feed`, in a table with pool, id and revision; names of its other columns."""

    feed: str
    table: Table
    moment: str
    body: str


async def revision(connection: Transaction, feed: str) -> int:
    """A number that grows whenever the feed's stored content changes."""
    query = select(feed_revision.c.revision).where(feed_revision.c.feed == feed)
    return (await connection.execute(query)).scalar() or 0


async def bump_revision(connection: Transaction, feed: str) -> int:
    """Say that the feed's stored content changes; answers with the revision at which it does.

    Other writers of the feed wait here until this transaction ends.
    """
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(feed_revision).values(feed=feed, revision=1)
    grown = {"revision": feed_revision.c.revision + 1}
    counted = statement.on_conflict_do_update(index_elements=["feed"], set_=grown).returning(feed_revision.c.revision)
    number: int = (await connection.execute(counted)).scalar_one()
    return number


async def set_revision(connection: Transaction, feed: str, number: int) -> None:
    """Keep how far somebody has followed a feed."""
    await upsert(connection, feed_revision, [{"feed": feed, "revision": number}])


async def write_at(connection: Transaction, table: Table, rows: Sequence[Mapping[str, object]], number: int) -> None:
    """Keep rows as changed at that revision."""
    await upsert(connection, table, [{**row, "revision": number} for row in rows])


async def mark_removed(connection: Transaction, feed: str, number: int) -> None:
    """Say that rows which windows may hold were removed at that revision."""
    await set_revision(connection, _removals(feed), number)


async def removed_at(connection: Transaction, feed: str) -> int:
    """The revision at which rows that windows may hold were last removed."""
    return await revision(connection, _removals(feed))


def rows_after(connection: Transaction, source: Source, pool: str, moment: str) -> AsyncIterator[Rows]:
    """All rows of a pool after that moment."""
    return _partitions(connection, _rows(source, pool).where(source.table.c[source.moment] > moment))


def rows_changed_since(connection: Transaction, source: Source, pool: str, number: int) -> AsyncIterator[Rows]:
    """The rows of a pool that changed after that revision, of whatever moment."""
    return _partitions(connection, _rows(source, pool).where(source.table.c.revision > number))


async def rows_named(connection: Transaction, source: Source, pool: str, ids: Sequence[str]) -> AsyncIterator[Rows]:
    """The rows of these ids."""
    for start in range(0, len(ids), CHUNK):
        query = _rows(source, pool).where(source.table.c.id.in_(ids[start : start + CHUNK]))
        yield _plain((await connection.execute(query)).all())


async def ids_after(connection: Transaction, source: Source, pool: str, moment: str) -> set[str]:
    """The ids of all rows of a pool after that moment."""
    table = source.table
    query = select(table.c.id).where(table.c.pool == pool, table.c[source.moment] > moment)
    return set((await connection.execute(query)).scalars())


def _rows(source: Source, pool: str) -> Select[Any]:
    columns = source.table.c
    return select(columns.id, columns[source.moment], columns[source.body]).where(columns.pool == pool)


async def _partitions(connection: Transaction, query: Select[Any]) -> AsyncIterator[Rows]:
    async with connection.stream(query) as result:
        async for rows in result.partitions(PARTITION):
            yield _plain(rows)


def _plain(rows: Any) -> Rows:
    return [tuple(row) for row in rows]


def _removals(feed: str) -> str:
    return f"{feed}-gone"
