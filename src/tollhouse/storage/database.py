"""One interface for SQLite and PostgreSQL: read and write transactions, and named locks."""

import asyncio
import os
import secrets
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

from sqlalchemy import Column, MetaData, Table, event, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.util import await_only

from tollhouse.config.settings import SettingError, Settings
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.storage.leases import file_lease, held_jobs, lock_leases, request_job, row_lease
from tollhouse.storage.outages import is_connection_lost, is_outage
from tollhouse.storage.postgres import engine_options, prepare

log = logger("storage")

metadata = MetaData()

Transaction = AsyncConnection

BUSY_TIMEOUT_SECONDS = 10
WAL_RETRY_SECONDS = 0.005
RETRY_LOCK_SECONDS = 0.1
RETRY_BEGIN_SECONDS = 0.0005
_MAX_HOST = 60
CONNECTIONS = 5
"""On PostgreSQL, of each process, one of which may listen for messages. The ledger has three more: eight in all."""
POOL_SECONDS = 5


class Database:
    """A connection pool. On SQLite, writers take the write lock at BEGIN, so none fails halfway."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        self.holder = f"{socket.gethostname()[:_MAX_HOST]}:{os.getpid()}:{secrets.token_hex(4)}"
        self._writers = asyncio.Lock()
        self._reader: sqlite3.Connection | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A read transaction over one consistent snapshot. Raises Problem `storage-unavailable`."""
        async with _as_problem(), self._engine.connect() as connection:
            if not self.is_sqlite:
                await connection.execution_options(isolation_level="REPEATABLE READ")
            async with connection.begin():
                yield connection

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[AsyncConnection]:
        """A connection whose statements are a transaction each. Raises Problem `storage-unavailable`."""
        async with _as_problem(), self._engine.connect() as connection:
            yield await connection.execution_options(isolation_level="AUTOCOMMIT")

    async def rows_where(self, column: Column[Any], values: Collection[object]) -> Sequence[Any]:
        """The rows that have one of these values in an indexed column: few rows, of texts, numbers and bytes.

        Raises Problem `storage-unavailable`. SQLite reads a row here in some microseconds; with the pool, which hands
        each step to a thread, a query takes a millisecond of processor time.
        """
        if self.is_sqlite:
            # Where another process has locked the file, or it is out of reach, the pool waits or says so.
            with suppress(sqlite3.Error):
                return self._rows_at_once(column, values)
        async with self.at_once() as connection:
            query = select(column.table).where(column.in_(values))
            return (await connection.execute(query)).all()

    def _rows_at_once(self, column: Column[Any], values: Collection[object]) -> list[SimpleNamespace]:
        if self._reader is None:
            file = f"{Path(self._engine.url.database or '').absolute().as_uri()}?mode=ro"
            self._reader = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False, uri=True)
        places = ", ".join("?" * len(values))
        query = f"SELECT * FROM {column.table.name} WHERE {column.name} IN ({places})"  # noqa: S608 - of the schema
        cursor = self._reader.execute(query, tuple(values))
        names = [each[0] for each in cursor.description]
        # Read to its end, it holds no snapshot.
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]

    @asynccontextmanager
    async def writing(self, lock: str | None = None) -> AsyncIterator[AsyncConnection]:
        """A write transaction. With `lock`, writers with the same lock name run one after another."""
        async with _as_problem(), self._write_turn(), self._engine.connect() as plain:
            connection = await plain.execution_options(tollhouse_writes=True)
            async with connection.begin():
                if not self.is_sqlite:
                    await lock_leases(connection)
                    if lock:
                        await connection.execute(
                            text("SELECT pg_advisory_xact_lock(:name)"), {"name": crc32(lock.encode())}
                        )
                yield connection

    @asynccontextmanager
    async def _write_turn(self) -> AsyncIterator[None]:
        """On SQLite, queue the writers of this process in order: SQLite's own busy wait lets some starve."""
        if not self.is_sqlite:
            yield
            return
        async with asyncio.timeout(BUSY_TIMEOUT_SECONDS):
            await self._writers.acquire()
        try:
            yield
        finally:
            self._writers.release()

    @asynccontextmanager
    async def leading(self, role: str, lock_dir: Path) -> AsyncIterator[bool]:
        """Whether this process holds the lease `role` while the block runs: a file in `lock_dir` beside SQLite.

        Raises Problem `storage-unavailable`, also from within the block when the lease is lost: see leases.
        """
        path = lock_dir / f"{role}.lock"
        lease = file_lease(path) if self.is_sqlite else row_lease(self._engine, role, self.holder)
        async with _as_problem(), lease as held:
            yield held

    @asynccontextmanager
    async def turn(self, role: str, lock_dir: Path) -> AsyncIterator[None]:
        """Wait for the lease `role` and hold it while the block runs. See leading."""
        while True:
            async with self.leading(role, lock_dir) as held:
                if held:
                    yield
                    return
            await asyncio.sleep(RETRY_LOCK_SECONDS)

    async def held_jobs(self) -> dict[str, str]:
        """The jobs that a process holds on PostgreSQL, and that process; empty on SQLite. See leases."""
        async with _as_problem():
            return {} if self.is_sqlite else await held_jobs(self._engine)

    async def request_job(self, roles: Collection[str], holds: int) -> bool:
        """Request one of the jobs of a process that has more than the `holds` of this one; whether there is one."""
        async with _as_problem():
            return not self.is_sqlite and await request_job(self._engine, roles, self.holder, holds)

    @asynccontextmanager
    async def driver_connection(self) -> AsyncIterator[Any]:
        """A connection of the driver itself (asyncpg), which is closed with the block."""
        async with _as_problem(), self._engine.connect() as connection:
            try:
                yield (await connection.get_raw_connection()).driver_connection
            finally:
                await connection.invalidate()

    async def close(self) -> None:
        """Close all connections."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        await self._engine.dispose()


def insert(connection: Transaction, table: Table) -> Any:
    """An INSERT of the database's own kind: only those support ON CONFLICT."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)


async def upsert(connection: Transaction, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows, replacing those with the same primary key."""
    if not rows:
        return
    statement = insert(connection, table)
    keys = [column.name for column in table.primary_key]
    changed = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    await connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), list(rows))


def begin_immediate(connection: sqlite3.Connection, seconds: float) -> None:
    """Begin a write transaction, waiting at most `seconds` for other writers. Raises sqlite3.OperationalError.

    SQLite's own busy wait sleeps longer and longer, and may starve.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_BEGIN_SECONDS)
        else:
            return


def open_database(settings: Settings) -> Database:
    """The database of the settings; by default the SQLite file `tollhouse.db` in `data_dir`.

    Raises SettingError without the driver of PostgreSQL.
    """
    url = database_url(settings)
    if url.get_backend_name() == "sqlite":
        return Database(_sqlite(url))
    try:
        engine = create_async_engine(
            url,
            connect_args=engine_options(url),
            pool_size=CONNECTIONS,
            max_overflow=0,
            pool_timeout=POOL_SECONDS,
            pool_pre_ping=True,
        )
    except ModuleNotFoundError:
        raise SettingError("database_url: needs the extra: pip install 'tollhouse[postgres]'") from None
    event.listen(engine.sync_engine, "connect", lambda connection, _: connection.run_async(prepare))
    event.listen(engine.sync_engine, "handle_error", _drop_lost_connections)
    return Database(engine)


def database_url(settings: Settings) -> URL:
    """The URL with the asynchronous driver; creates the data directory if it is missing."""
    if settings.is_sqlite:
        Path(settings.data_dir).mkdir(parents=True, exist_ok=True)
    url = make_url(settings.database_url or f"sqlite:///{Path(settings.data_dir).resolve()}/tollhouse.db")
    driver = "sqlite+aiosqlite" if url.get_backend_name() == "sqlite" else "postgresql+asyncpg"
    return url.set(drivername=driver)


def _sqlite(url: URL) -> AsyncEngine:
    engine = create_async_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS}, pool_timeout=POOL_SECONDS)
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # BEGIN is sent in _begin_sqlite: the driver would send it too late
    cursor = connection.cursor()
    _switch_to_wal(cursor)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "cache_size=-16000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _switch_to_wal(cursor: Any) -> None:
    """Retry: SQLite refuses at once, without the busy timeout, while another process writes to a new file."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            await_only(asyncio.sleep(WAL_RETRY_SECONDS))
        else:
            return


def _drop_lost_connections(context: ExceptionContext) -> None:
    """Let the pool replace its connections: the dialect recognises few of the errors that end one."""
    if is_connection_lost(context.original_exception):
        context.is_disconnect = True


def _begin_sqlite(connection: Any) -> None:
    writes = connection.get_execution_options().get("tollhouse_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@asynccontextmanager
async def _as_problem() -> AsyncIterator[None]:
    """Turn errors of the database into a Problem; the cause goes to the log."""
    try:
        yield
    except Problem:
        raise
    except Exception as error:
        if is_outage(error):
            raise _unavailable(error) from error
        raise


def _unavailable(error: Exception) -> Problem:
    # A timeout has no message.
    log.error("storage unavailable", error=str(error).partition("\n")[0] or type(error).__name__)
    return Problem(
        "storage-unavailable",
        "The server's storage is unavailable. Nothing was changed. Try again shortly.",
        retry_after_seconds=5,
    )
