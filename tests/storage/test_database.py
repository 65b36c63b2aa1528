import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, text
from sqlalchemy.exc import IntegrityError

from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.storage import database as database_module
from tollhouse.storage.database import open_database

pytestmark = pytest.mark.both_databases

BOX = Table("box", MetaData(), Column("name", String), Column("amount", Integer))

HOLDER = """
import asyncio, sys
from pathlib import Path
from tollhouse.config.settings import Settings
from tollhouse.storage import leases
from tollhouse.storage.database import open_database

leases.LEASE_SECONDS, leases.RENEW_SECONDS, leases.SAFETY_SECONDS = 2.0, 0.3, 0.5

async def main():
    database = open_database(Settings(database_url=sys.argv[1]))
    folder = Path(sys.argv[2])
    async with database.leading("work", folder) as held, database.turn("moment", folder):
        print("held" if held else "free", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""

WRITER = """
import asyncio, sys
from sqlalchemy import Column, Integer, MetaData, String, Table, text
from tollhouse.config.settings import Settings
from tollhouse.storage.database import open_database

async def main():
    database = open_database(Settings(database_url=sys.argv[1]))
    async with database.writing() as connection:
        await connection.execute(text("CREATE TABLE box (number INTEGER)"))
    for number in range(100000):
        async with database.writing() as connection:
            await connection.execute(text("INSERT INTO box VALUES (:number)"), {"number": number})
        print(number, flush=True)

asyncio.run(main())
"""


@pytest.fixture
async def database(database_url):
    database = open_database(Settings(database_url=database_url))
    async with database.writing() as connection:
        await connection.execute(text("CREATE TABLE box (name VARCHAR(20) PRIMARY KEY, amount INTEGER NOT NULL)"))
        await connection.execute(text("INSERT INTO box VALUES ('a', 0)"))
    yield database
    await database.close()


async def amount(connection, name="a"):
    return await connection.scalar(text("SELECT amount FROM box WHERE name = :name"), {"name": name})


async def put(connection, value, name="a"):
    await connection.execute(text("UPDATE box SET amount = :value WHERE name = :name"), {"value": value, "name": name})


async def test_written_value_is_read(database):
    async with database.writing() as connection:
        await put(connection, 7)
    async with database.reading() as connection:
        assert await amount(connection) == 7


async def test_failed_write_leaves_nothing(database):
    async def write() -> None:
        async with database.writing() as connection:
            await put(connection, 7)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write()
    async with database.reading() as connection:
        assert await amount(connection) == 0


async def test_cancelled_write_leaves_nothing_and_holds_nothing(database):
    async def write() -> None:
        async with database.writing(lock="box") as connection:
            await put(connection, 7)
            await asyncio.sleep(30)

    task = asyncio.create_task(write())
    await asyncio.sleep(0.2)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5), database.writing(lock="box") as connection:
        assert await amount(connection) == 0
        await put(connection, 1)


async def test_reader_is_not_held_up_by_a_writer_and_sees_nothing_unfinished(database):
    async with database.writing() as writer:
        await put(writer, 7)
        async with asyncio.timeout(5), database.reading() as reader:
            assert await amount(reader) == 0
    async with database.reading() as reader:
        assert await amount(reader) == 7


async def amounts(database, *names: str):
    return {row.name: row.amount for row in await database.rows_where(BOX.c.name, names)}


async def test_rows_with_some_values_are_read_beside_a_writer_and_anew_each_time(database):
    async with database.writing() as writer:
        await put(writer, 7)
        async with asyncio.timeout(5):
            assert await amounts(database, "a", "b") == {"a": 0}
    assert await amounts(database, "b", "a") == {"a": 7}
    assert await amounts(database, "b") == {}


async def test_rows_with_some_values_come_from_the_pool_where_the_file_is_locked(database, monkeypatch):
    def is_locked(_column: object, _values: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(database, "_rows_at_once", is_locked)
    assert await amounts(database, "a") == {"a": 0}


async def test_reader_sees_one_moment_to_its_end(database):
    async with database.reading() as reader:
        assert await amount(reader) == 0
        async with database.writing() as writer:
            await put(writer, 7)
        assert await amount(reader) == 0


async def test_writers_of_one_lock_take_turns(database):
    async def increase() -> None:
        async with database.writing(lock="box") as connection:
            seen = await amount(connection)
            await asyncio.sleep(0.005)
            await put(connection, seen + 1)

    await asyncio.gather(*(increase() for _ in range(20)))
    async with database.reading() as connection:
        assert await amount(connection) == 20


async def test_broken_rule_is_not_called_an_outage(database):
    with pytest.raises(IntegrityError):
        async with database.writing() as connection:
            await connection.execute(text("INSERT INTO box VALUES ('a', 1)"))


async def test_many_at_once_all_get_their_turn(database):
    async def read() -> int:
        async with database.reading() as connection:
            return await amount(connection)

    assert await asyncio.gather(*(read() for _ in range(100))) == [0] * 100


def holder(url, folder):
    """A process that holds the role, and says so."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, url, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "held"
    return process


async def test_writer_whose_turn_does_not_come_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT_SECONDS", 0.05)
    database = open_database(Settings(data_dir=str(tmp_path)))
    async with database.writing():
        with pytest.raises(Problem) as raised:
            async with database.writing():
                pass
    assert raised.value.code == "storage-unavailable"
    await database.close()


async def test_role_is_held_by_one_process_and_released_by_kill_9(database, database_url, tmp_path):
    process = holder(database_url, tmp_path)
    try:
        async with database.leading("work", tmp_path) as held:
            assert not held
        async with database.leading("other work", tmp_path) as held:
            assert held
        waiting = [asyncio.create_task(_turn(database, tmp_path)), asyncio.create_task(_lead(database, tmp_path))]
        await asyncio.sleep(0.3)
        assert not any(task.done() for task in waiting)
        os.kill(process.pid, signal.SIGKILL)
        assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == ["mine", "mine"]
    finally:
        process.kill()
        process.communicate()


async def _turn(database, folder) -> str:
    async with database.turn("moment", folder):
        return "mine"


async def _lead(database, folder) -> str:
    while True:
        async with database.leading("work", folder) as held:
            if held:
                return "mine"
        await asyncio.sleep(0.05)


async def test_role_is_free_again_after_its_block(database, tmp_path):
    for _ in range(3):
        async with database.leading("work", tmp_path) as held:
            assert held
    with contextlib.suppress(ZeroDivisionError):
        async with database.leading("work", tmp_path):
            raise ZeroDivisionError
    async with database.leading("work", tmp_path) as held:
        assert held


async def test_turns_are_taken_one_at_a_time(database, database_url, tmp_path):
    other = open_database(Settings(database_url=database_url))
    inside, most = 0, 0

    async def enter(through) -> None:
        nonlocal inside, most
        async with through.turn("work", tmp_path):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.02)
            inside -= 1

    await asyncio.wait_for(asyncio.gather(*(enter(through) for through in (database, other) * 3)), 30)
    assert most == 1
    await other.close()


async def problem_of(database):
    with pytest.raises(Problem) as raised:
        async with database.reading() as connection:
            await connection.execute(text("SELECT 1 FROM box"))
    assert raised.value.code == "storage-unavailable"
    assert "Retry-After" in raised.value.headers


async def test_unreachable_postgres_is_a_problem():
    database = open_database(Settings(database_url="postgresql://nobody@127.0.0.1:9/nothing"))
    begun = time.monotonic()
    await problem_of(database)
    assert time.monotonic() - begun < 15
    await database.close()


async def test_postgres_that_cuts_the_connections_is_a_problem_once_then_used_again(postgres_url):
    database = open_database(Settings(database_url=postgres_url))
    other = open_database(Settings(database_url=postgres_url))

    async def be_cut_off() -> None:
        async with database.reading() as connection:
            number = await connection.scalar(text("SELECT pg_backend_pid()"))
            async with other.reading() as operator:
                await operator.execute(text("SELECT pg_terminate_backend(:number)"), {"number": number})
            await connection.execute(text("SELECT 1"))

    with pytest.raises(Problem) as raised:
        await be_cut_off()
    assert raised.value.code == "storage-unavailable"
    async with database.reading() as connection:
        assert await connection.scalar(text("SELECT 1")) == 1
    await database.close()
    await other.close()


async def test_file_that_is_no_database_is_a_problem(tmp_path):
    (tmp_path / "tollhouse.db").write_bytes(b"this is no database" * 100)
    database = open_database(Settings(data_dir=str(tmp_path)))
    await problem_of(database)
    await database.close()


async def test_full_disk_is_a_problem_and_nothing_is_half_written(tmp_path):
    database = open_database(Settings(data_dir=str(tmp_path)))
    async with database.writing() as connection:
        await connection.execute(text("CREATE TABLE box (content BLOB)"))

    async def overfill() -> None:
        async with database.writing() as connection:
            await connection.execute(text("PRAGMA max_page_count=10"))
            await connection.execute(text("INSERT INTO box VALUES ('small')"))
            await connection.execute(text("INSERT INTO box VALUES (zeroblob(1000000))"))

    with pytest.raises(Problem) as raised:
        await overfill()
    assert raised.value.code == "storage-unavailable"
    async with database.reading() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM box")) == 0
    await database.close()


def test_data_survive_kill_9_of_the_writer(tmp_path):
    address = f"sqlite:///{tmp_path}/tollhouse.db"
    process = subprocess.Popen([sys.executable, "-c", WRITER, address], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = -1
    while told < 30:
        told = int(process.stdout.readline())
    process.kill()
    rest = process.communicate()[0].split()
    told = int(rest[-1]) if rest else told
    kept = sqlite3.connect(tmp_path / "tollhouse.db")
    numbers = [row[0] for row in kept.execute("SELECT number FROM box ORDER BY number")]
    kept.close()
    assert numbers[: told + 1] == list(range(told + 1))
    assert len(numbers) <= told + 2


async def test_new_file_that_another_process_is_writing_is_waited_for(tmp_path):
    """SQLite refuses at once to switch such a file to write-ahead logging, whatever the connection's timeout."""

    async def read() -> None:
        database = open_database(Settings(data_dir=str(tmp_path)))
        async with database.reading() as connection:
            assert (await connection.execute(text("SELECT name FROM made"))).all() == []
        await database.close()

    with contextlib.closing(sqlite3.connect(tmp_path / "tollhouse.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE made (name TEXT)")
        reading = asyncio.create_task(read())
        await asyncio.wait({reading}, timeout=0.1)
        other.execute("COMMIT")
    await reading


async def test_rows_read_by_value_hold_no_old_moment(tmp_path):
    """Else the log of changes would grow, since what was written after that moment would stay in it."""
    database = open_database(Settings(data_dir=str(tmp_path)))
    async with database.writing() as connection:
        await connection.execute(text("CREATE TABLE box (name TEXT PRIMARY KEY, amount INTEGER)"))
    assert await amounts(database, "a") == {}
    async with database.writing() as connection:
        await connection.execute(text("INSERT INTO box VALUES ('a', 7)"))
    with contextlib.closing(sqlite3.connect(tmp_path / "tollhouse.db")) as other:
        is_busy, *_ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not is_busy
    await database.close()
