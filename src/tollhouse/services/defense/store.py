"""Tables of the events feed and of source health, and the revisions that tell readers which rows changed."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import Column, ColumnElement, Index, Integer, LargeBinary, Select, String, Table, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.storage.database import Database, Transaction, metadata, upsert
from tollhouse.storage.partitions import drop_partitions, list_partitions, make_days, table_of

feed_revision = Table(
    "feed_revision", metadata, Column("feed", String(20), primary_key=True), Column("revision", Integer, nullable=False)
)

# Written by triggers. `source` is the name of the table.
removed_row = Table(
    "removed_row",
    metadata,
    Column("source", String(10), primary_key=True),
    Column("pool", String(10), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("moment", String(14), nullable=False),
    Column("revision", Integer, nullable=False),
    Index("removed_row_by_revision", "source", "pool", "revision"),
    Index("removed_row_by_moment", "source", "pool", "moment"),
)

# Moments that are stored as revisions count seconds from here, to fit until 2068.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

CHUNK = 500
# Rows per read, to limit memory.
PARTITION = 2_000

# Rows as read: id, time and packed body.
Rows = Sequence[tuple[str, str, bytes]]


def followed_table(name: str, moment: str, index: str, body: str = "body") -> Table:
    """A table whose rows have a time, a body and the revision that changed them last."""
    return Table(
        name,
        metadata,
        Column("pool", String(10), primary_key=True),
        Column("id", String(32), primary_key=True),
        Column(moment, String(14), nullable=False),
        Column(body, LargeBinary, nullable=False),
        Column("revision", Integer, nullable=False, server_default="0"),
        Index(f"{name}_{index}", "pool", moment),
        Index(f"{name}_by_revision", "pool", "revision"),
    )


class Source(Struct, frozen=True):
    """A table that readers follow: its feed, and its columns for time and body. It also has pool, id and revision."""

    feed: str
    table: Table
    moment: str
    body: str

    def row(self, pool: str, row_id: str, moment: str, body: bytes) -> dict[str, object]:
        """A row to write."""
        return {"pool": pool, "id": row_id, self.moment: moment, self.body: body}


async def revision(connection: Transaction, feed: str) -> int:
    """The current revision of a feed: it grows with every change of the stored content."""
    query = select(feed_revision.c.revision).where(feed_revision.c.feed == feed)
    return (await connection.execute(query)).scalar() or 0


async def feed_revisions(connection: Transaction) -> list[int]:
    """The revisions of events, news and fatalities, on which the events feed depends."""
    return [await revision(connection, feed) for feed in (EVENTS_FEED, NEWS_FEED, FATALITIES_FEED)]


async def input_revisions(connection: Transaction) -> list[int]:
    """The revisions of reports, articles and fatalities, from which events and stories are made."""
    return [await revision(connection, feed) for feed in (REPORTS_FEED, ARTICLES_FEED, FATALITIES_FEED)]


async def bump_revision(connection: Transaction, feed: str) -> int:
    """Start the next revision of a feed and return it. Other writers wait here until this transaction ends."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(feed_revision).values(feed=feed, revision=1)
    update = {"revision": feed_revision.c.revision + 1}
    upserted = statement.on_conflict_do_update(index_elements=["feed"], set_=update).returning(feed_revision.c.revision)
    number: int = (await connection.execute(upserted)).scalar_one()
    return number


async def set_revision(connection: Transaction, feed: str, number: int) -> None:
    """Store a revision, or how far a reader has followed a feed."""
    await upsert(connection, feed_revision, [{"feed": feed, "revision": number}])


async def write_at(connection: Transaction, table: Table, rows: Sequence[Mapping[str, object]], number: int) -> None:
    """Write rows as changed at a revision."""
    await upsert(connection, table, [{**row, "revision": number} for row in rows])


async def remove_at(connection: Transaction, source: Source, pool: str, ids: Sequence[str], number: int) -> None:
    """Delete rows as removed at a revision."""
    table = source.table
    for start in range(0, len(ids), CHUNK):
        chosen = table.c.id.in_(ids[start : start + CHUNK])
        await connection.execute(delete(table).where(table.c.pool == pool, chosen))
    if ids:
        await mark_removed(connection, source.feed, number)


async def mark_removed(connection: Transaction, feed: str, number: int) -> None:
    """Record that rows which readers may hold were removed at a revision."""
    await set_revision(connection, _removals(feed), number)


async def removed_at(connection: Transaction, feed: str) -> int:
    """The revision at which rows that readers may hold were last removed."""
    return await revision(connection, _removals(feed))


def rows_after(connection: Transaction, source: Source, pool: str, moment: str) -> AsyncIterator[Rows]:
    """All rows of a source mode after a time."""
    return _partitions(connection, _rows(source, pool).where(source.table.c[source.moment] > moment))


def rows_changed_since(connection: Transaction, source: Source, pool: str, number: int) -> AsyncIterator[Rows]:
    """The rows of a source mode that changed after a revision, of any time."""
    return _partitions(connection, _rows(source, pool).where(source.table.c.revision > number))


def rows_between(connection: Transaction, source: Source, pool: str, after: str, until: str) -> AsyncIterator[Rows]:
    """All rows of a source mode after a time, up to another."""
    moment = source.table.c[source.moment]
    return _partitions(connection, _rows(source, pool).where(moment > after, moment <= until))


async def oldest_change(connection: Transaction, source: Source, pool: str, number: int) -> str | None:
    """The earliest time of the rows of a source mode that changed after a revision, None without any."""
    table = source.table
    query = select(func.min(table.c[source.moment])).where(table.c.pool == pool, table.c.revision > number)
    oldest: str | None = (await connection.execute(query)).scalar()
    return oldest


async def first_after(connection: Transaction, source: Source, pool: str, moment: str) -> str | None:
    """The earliest time of the rows of a source mode after a time, None without any."""
    column = source.table.c[source.moment]
    query = select(func.min(column)).where(source.table.c.pool == pool, column > moment)
    first: str | None = (await connection.execute(query)).scalar()
    return first


async def rows_by_id(connection: Transaction, source: Source, pool: str, ids: Sequence[str]) -> AsyncIterator[Rows]:
    for start in range(0, len(ids), CHUNK):
        query = _rows(source, pool).where(source.table.c.id.in_(ids[start : start + CHUNK]))
        yield _plain((await connection.execute(query)).all())


async def bodies_by_id(connection: Transaction, source: Source, pool: str, ids: Sequence[str]) -> dict[str, bytes]:
    """The packed bodies with these ids, where they are stored."""
    return {row_id: body async for rows in rows_by_id(connection, source, pool, ids) for row_id, _, body in rows}


async def removed_since(connection: Transaction, source: Source, pool: str, number: int) -> list[str]:
    """The ids that were removed at a revision or later, without those that are stored again."""
    table, gone = source.table, removed_row.c
    is_stored = select(table.c.id).where(table.c.pool == pool, table.c.id == gone.id).exists()
    query = select(gone.id).where(gone.source == table.name, gone.pool == pool, gone.revision >= number, ~is_stored)
    return list((await connection.execute(query)).scalars())


async def forget_removed(connection: Transaction, source: Source, pool: str, moment: str) -> None:
    """Delete the record of removed rows from before a time, which no reader's window contains."""
    gone = removed_row.c
    condition = (gone.source == source.table.name, gone.pool == pool, gone.moment < moment)
    await connection.execute(delete(removed_row).where(*condition))


async def ids_after(connection: Transaction, source: Source, pool: str, moment: str) -> set[str]:
    """The ids of all rows of a source mode after a time."""
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


def _file_columns() -> list[Column[Any]]:
    """What is known of an ingested file."""
    return [
        Column("origin", String(10), nullable=False),
        Column("md5", String(32), nullable=False),
        Column("rows", Integer, nullable=False),
        Column("bad_rows", Integer, nullable=False),
        Column("ingested_at", String(20), nullable=False),
    ]


gdelt_slot = Table(
    "gdelt_slot",
    metadata,
    Column("slot", String(14), primary_key=True),
    Column("pool", String(10), nullable=False, index=True),
    *_file_columns(),
)

# Exports are in `gdelt_slot`.
page_file = Table(
    "page_file",
    metadata,
    *(Column(name, String(length), primary_key=True) for name, length in (("pool", 10), ("slot", 14), ("kind", 10))),
    *_file_columns(),
)

# On PostgreSQL in partitions by day: a row never changes its slot, as reports and events do.
event_rows = Table(
    "event_rows",
    metadata,
    Column("event_id", String(32), primary_key=True),
    Column("slot", String(14), primary_key=True, index=True),
    Column("pool", String(10), nullable=False),
    Column("rows", LargeBinary, nullable=False),
)

# `rows` above are the provider's; a report is what a page and they say; an event is resolved from reports.
event_report = followed_table("event_report", "last_slot", "by_slot")
event = followed_table("event", "last_slot", "by_slot", "record")

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

# Names of feeds with a revision, and of stored documents.
FATALITIES_FEED = "fatalities"
PRODUCTION_LINES = "production-lines"
_EPOCH_DOCUMENT = "events-epoch"
EVENTS_FEED = "events"
REPORTS_FEED = "reports"
ARTICLES_FEED = "articles"
NEWS_FEED = "news"

# The oldest data in any reader's window: the day that is served and the day before.
WIDEST_WINDOW = timedelta(hours=48)

EVENTS = Source(EVENTS_FEED, event, "last_slot", "record")
REPORTS = Source(REPORTS_FEED, event_report, "last_slot", "body")


async def find_slot(connection: AsyncConnection, slot: str) -> Any:
    """The ingested file of this slot, or None."""
    return (await connection.execute(select(gdelt_slot).where(gdelt_slot.c.slot == slot))).one_or_none()


async def newest_slot(connection: AsyncConnection, pool: str) -> Any:
    """Slot and origin of the newest file ingested in a source mode, an export before others; None without any."""
    newest = None
    for table in (gdelt_slot, page_file):
        query = select(table.c.slot, table.c.origin).where(table.c.pool == pool)
        row = (await connection.execute(query.order_by(table.c.slot.desc()).limit(1))).one_or_none()
        if row and (newest is None or row.slot > newest.slot):
            newest = row
    return newest


async def published_until(connection: AsyncConnection, pool: str) -> datetime | None:
    """The end of the newest window of a source mode whose events are published, None before the first."""
    seconds = await revision(connection, _published(pool))
    return _EPOCH + timedelta(seconds=seconds) if seconds else None


async def set_published_until(connection: AsyncConnection, pool: str, as_of: datetime) -> None:
    """Record that the events up to the newest slot are published."""
    await set_revision(connection, _published(pool), int((as_of - _EPOCH).total_seconds()))


def _published(pool: str) -> str:
    return f"published:{pool}"


async def slots_between(connection: AsyncConnection, pool: str, after: str, until: str) -> set[str]:
    """The slots of which an export, pages or mentions were ingested in a source mode, after `after`, up to `until`."""
    return (await _slots(connection, gdelt_slot, pool, after, until)) | (
        await _slots(connection, page_file, pool, after, until)
    )


async def exports_between(connection: AsyncConnection, pool: str, after: str, until: str) -> set[str]:
    """The slots whose export was ingested in a source mode after `after`, up to `until`."""
    return await _slots(connection, gdelt_slot, pool, after, until)


async def page_files_between(connection: AsyncConnection, pool: str, after: str, until: str) -> set[str]:
    """The slots whose GKG file was ingested in a source mode after `after`, up to `until`."""
    return await _slots(connection, page_file, pool, after, until, page_file.c.kind == "gkg")


async def _slots(
    connection: AsyncConnection, table: Table, pool: str, after: str, until: str, *conditions: ColumnElement[bool]
) -> set[str]:
    query = select(table.c.slot).where(table.c.pool == pool, table.c.slot > after, table.c.slot <= until, *conditions)
    return set((await connection.execute(query)).scalars())


async def find_page_file(connection: AsyncConnection, pool: str, slot: str, kind: str) -> Any:
    """The ingested GKG or mentions file of this slot, or None."""
    query = select(page_file).where(page_file.c.pool == pool, page_file.c.slot == slot, page_file.c.kind == kind)
    return (await connection.execute(query)).one_or_none()


async def stored_ids(connection: Transaction, source: Source, pool: str, ids: Sequence[str]) -> set[str]:
    """Those of the ids that are stored."""
    stored: set[str] = set()
    for start in range(0, len(ids), CHUNK):
        chosen = source.table.c.id.in_(ids[start : start + CHUNK])
        query = select(source.table.c.id).where(source.table.c.pool == pool, chosen)
        stored |= set((await connection.execute(query)).scalars())
    return stored


async def rows_of_pages(
    connection: AsyncConnection, pool: str, ids: Sequence[str]
) -> dict[str, list[tuple[str, bytes]]]:
    """The stored rows of these pages, by report id: (slot, packed rows)."""
    rows_by_page: dict[str, list[tuple[str, bytes]]] = {}
    for start in range(0, len(ids), CHUNK):
        chosen = event_rows.c.event_id.in_(ids[start : start + CHUNK])
        query = select(event_rows.c.event_id, event_rows.c.slot, event_rows.c.rows).where(
            event_rows.c.pool == pool, chosen
        )
        for event_id, slot, packed in await connection.execute(query):
            rows_by_page.setdefault(event_id, []).append((slot, packed))
    return rows_by_page


async def write_slot(connection: AsyncConnection, **values: object) -> None:
    """Record that a file was ingested."""
    await upsert(connection, gdelt_slot, [values])


async def write_rows(connection: AsyncConnection, rows: Sequence[dict[str, object]]) -> None:
    """Write rows by page and slot."""
    await upsert(connection, event_rows, rows)


async def stored_pages(connection: AsyncConnection, pool: str, after: str) -> list[str]:
    """The next CHUNK ids of pages with stored rows after an id, in order."""
    query = select(event_rows.c.event_id).distinct().where(event_rows.c.pool == pool, event_rows.c.event_id > after)
    return list((await connection.execute(query.order_by(event_rows.c.event_id).limit(CHUNK))).scalars())


async def delete_before(connection: AsyncConnection, pool: str, slot: str, *, is_seen: bool) -> None:
    """Delete data of a source mode from before `slot`. `is_seen`: readers' windows may contain it.

    On PostgreSQL, rows of pages in partitions by day are left to `drop_days_before`.
    """
    gone = await connection.execute(
        delete(event_report).where(event_report.c.pool == pool, event_report.c.last_slot < slot)
    )
    partitions = await list_partitions(connection, event_rows.name)
    tables = [table_of(one, event_rows) for one in partitions if not one.is_day]
    for rows in tables if partitions else [event_rows]:
        await connection.execute(delete(rows).where(rows.c.pool == pool, rows.c.slot < slot))
    ended = await connection.execute(delete(event).where(event.c.pool == pool, event.c.last_slot < slot))
    count = ended.rowcount
    for table in (gdelt_slot, page_file):
        # The coverage of a window changes with its slots.
        files = await connection.execute(delete(table).where(table.c.pool == pool, table.c.slot < slot))
        count += files.rowcount
    if is_seen:
        for feed, removed in ((REPORTS_FEED, gone.rowcount), (EVENTS_FEED, count)):
            if removed:
                await mark_removed(connection, feed, await bump_revision(connection, feed))


async def make_days_of_rows(database: Database, newest: date) -> None:
    """Make the partitions in which the rows of pages of a day and of the next days are stored, on PostgreSQL."""
    if not database.is_sqlite:
        async with database.writing(lock="ingest") as connection:
            await make_days(connection, event_rows.name, event_rows.c.slot.name, newest)


async def drop_days_before(database: Database, pool: str, slot: str) -> None:
    """Drop the partitions by day whose rows of pages are all from before `slot`, on PostgreSQL.

    Where a day has files of another source mode, only the rows of this one are deleted.
    """
    if database.is_sqlite:
        return
    async with database.writing(lock="ingest") as connection:
        partitions = await list_partitions(connection, event_rows.name)
        ended = [one for one in partitions if one.is_day and one.is_before(slot)]
        others = select(gdelt_slot.c.slot).where(gdelt_slot.c.pool != pool, gdelt_slot.c.slot < slot)
        mixed = {day[:8] for day in (await connection.execute(others)).scalars()} if ended else set()
        await drop_partitions(connection, [one.name for one in ended if one.first not in mixed])
        for rows in [table_of(one, event_rows) for one in ended if one.first in mixed]:
            await connection.execute(delete(rows).where(rows.c.pool == pool))


async def events_epoch(connection: AsyncConnection) -> str | None:
    """What tells this database's events from another's, None before `start_epoch`."""
    body = await read_document_body(connection, _EPOCH_DOCUMENT)
    return bytes(body).decode() if body else None


async def start_epoch(connection: AsyncConnection) -> None:
    """Name this database's events, unless another process has."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    values = {"name": _EPOCH_DOCUMENT, "body": secrets.token_hex(16).encode()}
    await connection.execute(dialect.insert(document).values(**values).on_conflict_do_nothing())


async def list_health(connection: AsyncConnection) -> list[Any]:
    return list(await connection.execute(select(source_health).order_by(source_health.c.source)))


async def keep_health(connection: AsyncConnection, prefix: str, sources: Sequence[str]) -> None:
    """Delete the health of sources with this name prefix, except these."""
    begins = source_health.c.source.startswith(prefix, autoescape=True)
    await connection.execute(delete(source_health).where(begins, source_health.c.source.not_in(sources)))


async def write_health(connection: AsyncConnection, **values: object) -> None:
    """Write the given columns of a source's health; other columns keep their values."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    changed = {name: value for name, value in values.items() if name != "source"}
    statement = dialect.insert(source_health).values(**values)
    await connection.execute(statement.on_conflict_do_update(index_elements=["source"], set_=changed))


async def write_fatalities(connection: AsyncConnection, rows: Sequence[dict[str, object]]) -> None:
    """Write fatality records; later versions replace earlier ones."""
    await upsert(connection, fatality_record, rows)


async def fatalities_since(connection: AsyncConnection, day: str) -> list[bytes]:
    """The packed fatality records dated on a day or later."""
    query = select(fatality_record.c.body).where(fatality_record.c.date >= day).order_by(fatality_record.c.id)
    return list((await connection.execute(query)).scalars())


async def read_document_body(connection: AsyncConnection, name: str) -> bytes | None:
    """A document uploaded by the operator."""
    return (await connection.execute(select(document.c.body).where(document.c.name == name))).scalar()


async def write_document(connection: AsyncConnection, name: str, body: bytes) -> None:
    """Store a document uploaded by the operator."""
    await upsert(connection, document, [{"name": name, "body": body}])
