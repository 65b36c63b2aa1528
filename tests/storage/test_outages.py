"""A database that is lost, full or restarting is a clear problem, and never has two leaders."""

import asyncio
import contextlib
import sqlite3

import asyncpg
import pytest
from sqlalchemy import text

from tests.servers.postgres import OwnPostgres
from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.ledger.types import TREASURY, Transfer
from tollhouse.storage import leases
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.leases import LeaseLost
from tollhouse.storage.migrate import migrate
from tollhouse.storage.outages import is_connection_lost, is_outage, may_be_retried

ERRORS = asyncpg.exceptions


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ERRORS.AdminShutdownError(""), (True, True)),
        (ERRORS.CrashShutdownError(""), (True, True)),
        (ERRORS.CannotConnectNowError(""), (True, True)),
        (ERRORS.TooManyConnectionsError(""), (True, True)),
        (ERRORS.ConnectionDoesNotExistError(""), (True, True)),
        (ERRORS.IdleInTransactionSessionTimeoutError(""), (True, True)),
        (ERRORS.DeadlockDetectedError(""), (True, True)),
        (ERRORS.InterfaceError("connection is closed"), (True, True)),
        (ConnectionResetError(), (True, True)),
        (TimeoutError(), (True, True)),
        (ERRORS.DiskFullError(""), (True, False)),
        (ERRORS.OutOfMemoryError(""), (True, False)),
        (ERRORS.PostgresIOError(""), (True, False)),
        (ERRORS.ReadOnlySQLTransactionError(""), (True, True)),
        (ERRORS.LockNotAvailableError(""), (True, False)),
        (ERRORS.DataCorruptedError(""), (True, False)),
        (sqlite3.OperationalError("database is locked"), (True, False)),
        (sqlite3.DatabaseError("file is not a database"), (True, False)),
        (ERRORS.UniqueViolationError(""), (False, False)),
        (ERRORS.UndefinedTableError(""), (False, False)),
        (ERRORS.NumericValueOutOfRangeError(""), (False, False)),
        (ERRORS._base.DataError("an argument of the wrong type"), (False, False)),
        (sqlite3.IntegrityError(""), (False, False)),
        (KeyError("x"), (False, False)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_outage_is_told_from_a_mistake(error, expected):
    assert (is_outage(error), may_be_retried(error)) == expected


def test_deadlock_leaves_the_connection_as_it_was():
    assert is_connection_lost(ERRORS.ConnectionDoesNotExistError(""))
    assert not is_connection_lost(ERRORS.DeadlockDetectedError(""))


@pytest.fixture
def short_leases(monkeypatch):
    monkeypatch.setattr(leases, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.2)
    monkeypatch.setattr(leases, "SAFETY_SECONDS", 1.0)


@pytest.fixture
async def open_another():
    async with contextlib.AsyncExitStack() as stack:

        def another(url) -> Database:
            database = open_database(Settings(database_url=url))
            stack.push_async_callback(database.close)
            return database

        yield another


class Crowd:
    """Tasks that lead, read and write, and go on after every clear problem."""

    def __init__(self, databases, ledger, folder) -> None:
        self._databases, self._ledger, self._folder = databases, ledger, folder
        self.done = self.refused = 0
        self.leaders, self.most_leaders = set(), 0
        self.tasks = [asyncio.create_task(self._work(number)) for number in range(12)]
        self.tasks += [asyncio.create_task(self._lead(database)) for database in databases]

    async def stop(self) -> None:
        """Raises the first error that was no clear problem."""
        for task in self.tasks:
            task.cancel()
        for ended in await asyncio.gather(*self.tasks, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError):
                raise ended

    async def _lead(self, database) -> None:
        while True:
            with contextlib.suppress(Problem):
                async with database.leading("work", self._folder) as held:
                    if held:
                        self.leaders.add(database)
                        self.most_leaders = max(self.most_leaders, len(self.leaders))
                        try:
                            await asyncio.sleep(60)
                        finally:
                            self.leaders.remove(database)
            await asyncio.sleep(0.05)

    async def _work(self, number) -> None:
        name = {"name": str(number)}
        while True:
            try:
                async with self._databases[number % 2].writing() as connection:
                    await connection.execute(text("INSERT INTO feed_revision VALUES (:name, 1)"), name)
                    await connection.execute(text("DELETE FROM feed_revision WHERE feed = :name"), name)
                async with self._databases[number % 2].reading() as connection:
                    await connection.execute(text("SELECT * FROM feed_revision"))
                await self._ledger.account("agent:a")
                await self._ledger.move(Transfer(f"{number}:{self.done}", TREASURY, "agent:a", 1, "deposit"))
                self.done += 1
            except Problem as problem:
                if problem.code != "storage-unavailable" or not int(problem.headers["Retry-After"]):
                    raise
                self.refused += 1
                await asyncio.sleep(0.01)


@pytest.mark.usefixtures("short_leases")
async def test_crash_of_postgres_is_only_ever_503_and_leaves_one_leader(tmp_path, open_another):
    server = OwnPostgres()
    databases = [open_another(server.url) for _ in range(2)]
    await migrate(databases[0])
    ledger = await open_ledger(Settings(database_url=server.url), databases[0])
    crowd = Crowd(databases, ledger, tmp_path)
    try:
        await until(lambda: crowd.done > 50 and crowd.leaders)
        server.crash()
        await until(lambda: crowd.refused > 20)
        server.start()
        done = crowd.done
        await until(lambda: crowd.done > done + 50 and crowd.leaders, 30)
        await crowd.stop()
        assert crowd.most_leaders == 1
        assert (await ledger.verify()).balanced
    finally:
        await ledger.close()
        server.crash()


async def test_too_many_connections_are_a_clear_problem(postgres_url, open_another):
    name = f"limited_{postgres_url.rpartition('_')[2]}"
    async with open_another(postgres_url).writing() as connection:
        await connection.execute(text(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT 1"))
    database = open_another(postgres_url.replace("postgres@", f"{name}@"))
    async with database.reading():
        with pytest.raises(Problem) as problem:
            async with database.reading():
                pass
    assert problem.value.code == "storage-unavailable"
    await database.close()
    async with open_another(postgres_url).writing() as connection:
        await connection.execute(text(f"DROP ROLE {name}"))


async def expire(database):
    """As if its holder had been frozen for long."""
    async with database.writing() as connection:
        await connection.execute(text("UPDATE lease SET expires_at = 0"))


@pytest.mark.usefixtures("short_leases")
async def test_leader_that_was_frozen_cannot_write_beside_its_successor(postgres_url, open_another, tmp_path):
    frozen, other = open_another(postgres_url), open_another(postgres_url)

    async def succeed() -> None:
        async with other.writing() as connection:
            await connection.execute(text("UPDATE lease SET token = token + 1"))

    async def lead() -> None:
        async with frozen.leading("work", tmp_path):
            async with frozen.writing():
                pass
            await asyncio.create_task(succeed())
            with pytest.raises(LeaseLost):
                async with frozen.writing():
                    pass
            await asyncio.sleep(60)

    with pytest.raises(LeaseLost):
        await asyncio.wait_for(lead(), 10)
    async with frozen.writing():
        pass


async def test_task_that_outlives_the_lead_it_was_started_in_still_writes(postgres_url, open_another, tmp_path):
    database = open_another(postgres_url)
    has_ended = asyncio.Event()

    async def write() -> None:
        await has_ended.wait()
        async with database.writing():
            pass

    async with database.leading("work", tmp_path) as held:
        assert held
        outliving = asyncio.create_task(write())
    async with open_another(postgres_url).leading("work", tmp_path) as held:
        assert held
        has_ended.set()
        await outliving


async def test_successor_waits_for_the_last_transaction_of_a_frozen_leader(
    postgres_url, open_another, tmp_path, monkeypatch
):
    monkeypatch.setattr(leases, "_LIMIT_WAIT", text("SET LOCAL lock_timeout = '50ms'"))
    frozen, other = open_another(postgres_url), open_another(postgres_url)

    async def succeeds() -> bool:
        async with other.leading("work", tmp_path) as held:
            return held

    async with frozen.leading("work", tmp_path):
        async with frozen.writing():
            await asyncio.create_task(expire(other))
            assert not await asyncio.create_task(succeeds())
        assert await asyncio.create_task(succeeds())


async def test_machine_that_vanishes_holds_no_connection_for_hours(postgres_url, open_another):
    async with open_another(postgres_url).reading() as connection:
        names = ("tcp_user_timeout", "tcp_keepalives_idle", "idle_in_transaction_session_timeout")
        assert [await connection.scalar(text(f"SHOW {name}")) for name in names] == ["10000", "4", "2min"]
