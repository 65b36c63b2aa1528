"""Tables of the events feed and of source health, and the revisions that tell readers which rows changed."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import Column, Index, Integer, LargeBinary, Select, String, Table, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

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


async def rows_by_id(connection: Transaction, source: Source, pool: str, ids: Sequence[str]) -> AsyncIterator[Rows]:
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


gdelt_slot = Table(
    "gdelt_slot",
    metadata,
    Column("slot", String(14), primary_key=True),
    Column("pool", String(10), nullable=False, index=True),
    Column("origin", String(10), nullable=False),
    Column("md5", String(32), nullable=False),
    Column("rows", Integer, nullable=False),
    Column("bad_rows", Integer, nullable=False),
    Column("ingested_at", String(20), nullable=False),
)

event_rows = Table(
    "event_rows",
    metadata,
    Column("event_id", String(32), primary_key=True),
    Column("slot", String(14), primary_key=True, index=True),
    Column("pool", String(10), nullable=False),
    Column("rows", LargeBinary, nullable=False),
)

event = Table(
    "event",
    metadata,
    Column("pool", String(10), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("last_slot", String(14), nullable=False),
    Column("record", LargeBinary, nullable=False),
    Column("revision", Integer, nullable=False, server_default="0"),
    Index("event_by_slot", "pool", "last_slot"),
    Index("event_by_revision", "pool", "revision"),
)

source_health = Table(
    "source_health",
    metadata,
    Column("source", String(200), primary_key=True),
    Column("last_success_at", String(20)),
    Column("last_error_at", String(20)),
    Column("last_error", String(500)),
    Column("failures", Integer, nullable=False),
)

fatality_record = Table(
    "fatality_record",
    metadata,
    Column("provider", String(10), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("date", String(10), nullable=False, index=True),
    Column("body", LargeBinary, nullable=False),
)

document = Table(
    "document", metadata, Column("name", String(40), primary_key=True), Column("body", LargeBinary, nullable=False)
)

# What a revision is kept of.
FATALITIES_FEED = "fatalities"
PRODUCTION_LINES = "production-lines"
EVENTS_FEED = "events"
ARTICLES_FEED = "articles"
NEWS_FEED = "news"

# How far back any reader looks: the day that is served, and the day before it.
WIDEST_WINDOW = timedelta(hours=48)

EVENTS = Source(EVENTS_FEED, event, "last_slot", "record")


async def find_slot(connection: AsyncConnection, slot: str) -> Any:
    """The ingested slot of this name, or None."""
    return (await connection.execute(select(gdelt_slot).where(gdelt_slot.c.slot == slot))).one_or_none()


async def newest_slot(connection: AsyncConnection, pool: str) -> Any:
    """The last slot ingested into a pool, or None."""
    query = select(gdelt_slot).where(gdelt_slot.c.pool == pool).order_by(gdelt_slot.c.slot.desc()).limit(1)
    return (await connection.execute(query)).one_or_none()


async def slots_between(connection: AsyncConnection, pool: str, after: str, until: str) -> list[str]:
    """The slots ingested into a pool in this half-open interval."""
    query = select(gdelt_slot.c.slot).where(
        gdelt_slot.c.pool == pool, gdelt_slot.c.slot > after, gdelt_slot.c.slot <= until
    )
    return list((await connection.execute(query)).scalars())


async def rows_of_events(
    connection: AsyncConnection, pool: str, ids: Sequence[str]
) -> dict[str, list[tuple[str, bytes]]]:
    """The stored rows of these events: by event, (slot, packed rows)."""
    found: dict[str, list[tuple[str, bytes]]] = {}
    for start in range(0, len(ids), CHUNK):
        chosen = event_rows.c.event_id.in_(ids[start : start + CHUNK])
        query = select(event_rows.c.event_id, event_rows.c.slot, event_rows.c.rows).where(
            event_rows.c.pool == pool, chosen
        )
        for event_id, slot, packed in await connection.execute(query):
            found.setdefault(event_id, []).append((slot, packed))
    return found


async def rows_of_slot(connection: AsyncConnection, slot: str) -> list[bytes]:
    """The packed rows of a slot, an event's together."""
    return list((await connection.execute(select(event_rows.c.rows).where(event_rows.c.slot == slot))).scalars())


async def write_slot(connection: AsyncConnection, **values: object) -> None:
    """Say that a slot was ingested."""
    await upsert(connection, gdelt_slot, [values])


async def write_rows(connection: AsyncConnection, rows: Sequence[dict[str, object]]) -> None:
    """Keep an event's rows of a slot."""
    await upsert(connection, event_rows, rows)


async def write_events(connection: AsyncConnection, rows: Sequence[dict[str, object]], number: int) -> None:
    """Keep events as their rows make them at that revision."""
    await write_at(connection, event, rows, number)


async def remove_events(connection: AsyncConnection, pool: str, ids: Sequence[str], number: int) -> None:
    """Drop events that their rows no longer make at that revision."""
    for start in range(0, len(ids), CHUNK):
        chosen = event.c.id.in_(ids[start : start + CHUNK])
        await connection.execute(delete(event).where(event.c.pool == pool, chosen))
    if ids:
        await mark_removed(connection, EVENTS_FEED, number)


async def delete_before(connection: AsyncConnection, pool: str, slot: str, *, is_seen: bool) -> None:
    """Forget what a pool holds from before `slot`; `is_seen` where windows reach further back."""
    gone = await connection.execute(delete(event).where(event.c.pool == pool, event.c.last_slot < slot))
    await connection.execute(delete(event_rows).where(event_rows.c.pool == pool, event_rows.c.slot < slot))
    await connection.execute(delete(gdelt_slot).where(gdelt_slot.c.pool == pool, gdelt_slot.c.slot < slot))
    if gone.rowcount and is_seen:
        await mark_removed(connection, EVENTS_FEED, await bump_revision(connection, EVENTS_FEED))


async def records_between(connection: AsyncConnection, pool: str, after: str, until: str) -> list[bytes]:
    """The packed records of the events last reported in this half-open interval of slots."""
    query = select(event.c.record).where(event.c.pool == pool, event.c.last_slot > after, event.c.last_slot <= until)
    return list((await connection.execute(query)).scalars())


async def event_record(connection: AsyncConnection, pool: str, event_id: str) -> bytes | None:
    """One event's packed record, however old."""
    query = select(event.c.record).where(event.c.pool == pool, event.c.id == event_id)
    return (await connection.execute(query)).scalar()


async def list_health(connection: AsyncConnection) -> list[Any]:
    """How each source did last, by name."""
    return list(await connection.execute(select(source_health).order_by(source_health.c.source)))


async def keep_health(connection: AsyncConnection, prefix: str, sources: Sequence[str]) -> None:
    """Forget the sources whose name begins so and that are not among these: nobody asks them any more."""
    begins = source_health.c.source.startswith(prefix, autoescape=True)
    await connection.execute(delete(source_health).where(begins, source_health.c.source.not_in(sources)))


async def write_health(connection: AsyncConnection, **values: object) -> None:
    """Keep how a source did; what is not given stays as it was."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    changed = {name: value for name, value in values.items() if name != "source"}
    statement = dialect.insert(source_health).values(**values)
    await connection.execute(statement.on_conflict_do_update(index_elements=["source"], set_=changed))


async def write_fatalities(connection: AsyncConnection, rows: Sequence[dict[str, object]]) -> None:
    """Keep records of fatalities; a later reading of one replaces the earlier."""
    await upsert(connection, fatality_record, rows)


async def fatalities_since(connection: AsyncConnection, day: str) -> list[bytes]:
    """The packed records of fatalities that begin on that day or later."""
    query = select(fatality_record.c.body).where(fatality_record.c.date >= day).order_by(fatality_record.c.id)
    return list((await connection.execute(query)).scalars())


async def read_document_body(connection: AsyncConnection, name: str) -> bytes | None:
    """A packed document of the operator's."""
    return (await connection.execute(select(document.c.body).where(document.c.name == name))).scalar()


async def write_document(connection: AsyncConnection, name: str, body: bytes) -> None:
    """Keep a document of the operator's."""
    await upsert(connection, document, [{"name": name, "body": body}])
