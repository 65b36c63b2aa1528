"""One interface for SQLite and PostgreSQL: read and write transactions, and named locks."""

import asyncio
import sqlite3
import time
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData, Table, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from tollhouse.config.settings import SettingError, Settings
from tollhouse.errors import Problem
from tollhouse.logs import logger

log = logger("storage")

metadata = MetaData()

Transaction = AsyncConnection

BUSY_TIMEOUT_SECONDS = 10
RETRY_LOCK_SECONDS = 0.05
RETRY_BEGIN_SECONDS = 0.0005


class Database:
    """A connection pool. On SQLite, writers take the write lock at BEGIN, so none fails halfway."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._writers = asyncio.Lock()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A read transaction over one consistent snapshot. Raises Problem `storage-unavailable`."""
        async with _as_problem(), self._engine.connect() as connection:
            if not self.is_sqlite:
                await connection.execution_options(isolation_level="REPEATABLE READ")
            async with connection.begin():
                yield connection

    @asynccontextmanager
    async def writing(self, lock: str | None = None) -> AsyncIterator[AsyncConnection]:
        """A write transaction. With `lock`, writers with the same lock name run one after another."""
        async with _as_problem(), self._write_turn(), self._engine.connect() as plain:
            connection = await plain.execution_options(tollhouse_writes=True)
            async with connection.begin():
                if lock and not self.is_sqlite:
                    await connection.execute(text("SELECT pg_advisory_xact_lock(:name)"), {"name": _number(lock)})
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
        """Whether this process holds the lock `role` while the block runs.

        The lock ends with its process: a file lock beside SQLite, a session's advisory lock on PostgreSQL.
        """
        if self.is_sqlite:
            async with _file_lock(lock_dir / f"{role}.lock") as held:
                yield held
            return
        async with self._engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            held = await connection.scalar(text("SELECT pg_try_advisory_lock(:name)"), {"name": _number(role)})
            yield bool(held)
            if held:
                await connection.execute(text("SELECT pg_advisory_unlock(:name)"), {"name": _number(role)})

    @asynccontextmanager
    async def turn(self, role: str, lock_dir: Path) -> AsyncIterator[None]:
        """Wait for the lock `role` and hold it while the block runs."""
        while True:
            async with self.leading(role, lock_dir) as held:
                if held:
                    yield
                    return
            await asyncio.sleep(RETRY_LOCK_SECONDS)

    async def close(self) -> None:
        """Close all connections."""
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
        engine = create_async_engine(url, pool_size=10, max_overflow=10, pool_timeout=5, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise SettingError("database_url: needs the extra: pip install 'tollhouse[postgres]'") from None
    return Database(engine)


def database_url(settings: Settings) -> URL:
    """The URL with the asynchronous driver; creates the data directory if it is missing."""
    if settings.is_sqlite:
        Path(settings.data_dir).mkdir(parents=True, exist_ok=True)
    url = make_url(settings.database_url or f"sqlite:///{Path(settings.data_dir).resolve()}/tollhouse.db")
    driver = "sqlite+aiosqlite" if url.get_backend_name() == "sqlite" else "postgresql+asyncpg"
    return url.set(drivername=driver)


def _sqlite(url: URL) -> AsyncEngine:
    engine = create_async_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS}, pool_timeout=5)
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # BEGIN is sent in _begin_sqlite: the driver would send it too late
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-16000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    writes = connection.get_execution_options().get("tollhouse_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@asynccontextmanager
async def _as_problem() -> AsyncIterator[None]:
    """Turn errors of the database into a Problem; the cause goes to the log."""
    try:
        yield
    except (OperationalError, PoolTimeout, OSError) as error:
        raise _unavailable(error) from error
    except DBAPIError as error:
        # For a damaged file SQLite raises DatabaseError itself, not a subclass.
        if error.connection_invalidated or type(error) is DatabaseError:
            raise _unavailable(error) from error
        raise


def _unavailable(error: Exception) -> Problem:
    # A timeout has no message.
    log.error("storage unavailable", error=str(error).partition("\n")[0] or type(error).__name__)
    return Problem(
        "storage-unavailable",
        "The server's storage is unavailable. Nothing was changed. Try again shortly.",
        headers={"Retry-After": "5"},
        retry_after_seconds=5,
    )


def _number(name: str) -> int:
    return zlib.crc32(name.encode())


@asynccontextmanager
async def _file_lock(path: Path) -> AsyncIterator[bool]:
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
