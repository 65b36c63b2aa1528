"""A meter that cannot count says so, quickly, and never lets calls through uncounted."""

import asyncio
import contextlib
import socket
import sqlite3
import time

import pytest
from redis.asyncio import Redis

from tests.waiting import until
from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.metering.meter import SECONDS_PER_DAY, CounterMeter, Windows
from tollhouse.metering.redis_meter import RedisMeter
from tollhouse.storage import counters_sqlite
from tollhouse.storage.counters import PostgresCounters, StoredCounts
from tollhouse.storage.counters_sqlite import FolderInUseError, MemoryCounters, SharedFileCounters
from tollhouse.storage.database import open_database

pytestmark = pytest.mark.both_databases

FREE = Windows(100, 10)


@pytest.fixture
def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield probe.getsockname()[1]  # bound, but nobody listens


async def refusal(meter):
    with pytest.raises(Problem) as raised:
        await meter.reserve("key_a", FREE)
    assert raised.value.code == "storage-unavailable"
    assert int(raised.value.headers["Retry-After"]) >= 1
    return raised.value


async def test_redis_that_is_gone_is_a_problem_at_once(closed_port):
    meter = RedisMeter(f"redis://127.0.0.1:{closed_port}/0")
    begun = time.monotonic()
    await refusal(meter)
    assert time.monotonic() - begun < 10
    with pytest.raises(Problem):
        await meter.peek("key_a", FREE)
    await meter.close()


async def test_redis_that_hangs_is_asked_once_and_given_up(monkeypatch):
    # A second try might count a call twice: the first may have run, with only its answer lost.
    monkeypatch.setattr("tollhouse.metering.redis_meter.TIMEOUT_SECONDS", 0.3)
    scripts = 0

    async def hang(reader, writer) -> None:
        nonlocal scripts
        while data := await reader.read(65_536):
            if b"EVALSHA" in data:
                scripts += 1
            else:
                writer.write(b"+OK\r\n" * data.count(b"*"))
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        meter = RedisMeter(f"redis://127.0.0.1:{port}/0?protocol=2")
        begun = time.monotonic()
        await refusal(meter)
        assert time.monotonic() - begun < 10
        await meter.close()
    assert scripts == 1


async def test_redis_that_comes_back_counts_on(redis_url):
    meter = RedisMeter(redis_url)
    await meter.reserve("key_a", FREE)
    async with Redis.from_url(redis_url) as operator:
        await operator.client_kill_filter(_type="normal", skipme=True)
        await operator.script_flush()
    for _ in range(2):
        with contextlib.suppress(Problem):  # a call that was cut off is lost, and told so
            await meter.reserve("key_a", FREE)
    assert (await meter.reserve("key_a", FREE)).verdict.day.used in {3, 4}
    await meter.close()


@pytest.fixture
async def open_redis_meter(redis_url, database):
    """A function that opens a meter over the same Redis and the same database each time."""
    opened = []

    def open_one() -> RedisMeter:
        opened.append(RedisMeter(redis_url, StoredCounts(database)))
        return opened[-1]

    yield open_one
    for meter in opened:
        await meter.close()


async def is_stored(database, subject, used):
    today = int(clock.seconds() // SECONDS_PER_DAY)
    return (subject, today, used) in await StoredCounts(database).since(today)


async def test_emptied_redis_is_noticed_and_the_days_counts_come_back(redis_url, database, open_redis_meter):
    meters = [open_redis_meter() for _ in range(3)]
    windows = Windows(30, None)
    for number in range(20):
        await meters[number % 3].reserve("key_a", windows)
        await meters[number % 3].reserve(f"key_{number:04}", windows)
    await until(lambda: is_stored(database, "key_a", 20))
    async with Redis.from_url(redis_url) as operator:
        for _ in range(2):
            await operator.flushdb()
            assert (await meters[1].peek("key_a", windows)).day.used == 20
    await meters[0].close()
    async with Redis.from_url(redis_url) as operator:
        await operator.flushdb()
    reserved = await asyncio.gather(*(meters[1 + n % 2].reserve("key_a", windows) for n in range(25)))
    assert sum(one.verdict.refused_by is None for one in reserved) == 10
    assert (await open_redis_meter().peek("key_0007", windows)).day.used == 1


async def test_redis_that_restarts_with_an_old_dump_gets_the_days_counts_back(redis_url, database, open_redis_meter):
    meter, windows = open_redis_meter(), Windows(30, None)
    for _ in range(12):
        await meter.reserve("key_a", windows)
    await until(lambda: is_stored(database, "key_a", 12))
    async with Redis.from_url(redis_url) as operator:
        key = next(iter(await operator.keys("tollhouse:{key_a}:[0-9]*")))
        await operator.set(key, 3)  # what an old dump would say; the epoch is in it too
    meter._run_id, meter._must_check = "the server before", True
    assert (await meter.reserve("key_a", windows)).verdict.day.used == 13


async def test_emptied_redis_counts_nothing_while_the_copies_cannot_be_read(redis_url, closed_port):
    database = open_database(Settings(database_url=f"postgresql://nobody@127.0.0.1:{closed_port}/nothing"))
    meter = RedisMeter(redis_url, StoredCounts(database))
    await refusal(meter)
    async with Redis.from_url(redis_url) as operator:
        assert await operator.keys("*") == []
    await meter.close()
    await database.close()


async def test_postgres_that_is_gone_is_a_problem(closed_port):
    database = open_database(Settings(database_url=f"postgresql://nobody@127.0.0.1:{closed_port}/nothing"))
    await refusal(CounterMeter(PostgresCounters(database)))
    await database.close()


@pytest.fixture
def blocker(tmp_path):
    """Somebody else who can hold the write lock of the folder's counts."""
    connection = sqlite3.connect(tmp_path / "usage.db", isolation_level=None)
    yield connection
    connection.close()


async def test_locked_shared_file_is_a_problem_and_works_again_after(tmp_path, blocker, monkeypatch):
    monkeypatch.setattr(counters_sqlite, "LOCK_SECONDS", 0.3)
    meter = CounterMeter(SharedFileCounters(tmp_path))
    await meter.reserve("key_a", FREE)
    blocker.execute("BEGIN IMMEDIATE")
    pauses, begun = [], time.monotonic()

    async def measure_pauses() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0)
            pauses.append(time.monotonic() - before)

    measuring = asyncio.create_task(measure_pauses())
    await asyncio.gather(*(refusal(meter) for _ in range(20)))
    assert time.monotonic() - begun < 3
    measuring.cancel()
    assert max(pauses) < 0.25
    blocker.execute("ROLLBACK")
    assert (await meter.reserve("key_a", FREE)).verdict.day.used == 2
    await meter.close()


async def test_rule_that_fails_leaves_the_shared_file_unlocked(tmp_path):
    tallies = SharedFileCounters(tmp_path)

    def fail(_tally) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await tallies.change("key_a", fail)
    assert (await CounterMeter(tallies).reserve("key_a", FREE)).verdict.day.used == 1
    await tallies.close()


async def test_locked_file_does_not_stop_one_process_counting(tmp_path, blocker):
    tallies = MemoryCounters(tmp_path)
    tallies._file.execute("PRAGMA busy_timeout=50")
    meter = CounterMeter(tallies)
    blocker.execute("BEGIN IMMEDIATE")
    for number in range(1, 8):
        assert (await meter.reserve("key_a", FREE)).verdict.day.used == number
        await asyncio.sleep(0.1)  # long enough for a write to be tried and to fail
    assert blocker.execute("SELECT count(*) FROM tally").fetchone() == (0,)
    blocker.execute("ROLLBACK")
    await meter.close()
    assert blocker.execute("SELECT used FROM tally").fetchone() == (7,)


@pytest.mark.parametrize(
    ("first", "second"),
    [(MemoryCounters, MemoryCounters), (MemoryCounters, SharedFileCounters), (SharedFileCounters, MemoryCounters)],
)
async def test_folder_in_use_is_refused(tmp_path, first, second):
    holder = first(tmp_path)
    with pytest.raises(FolderInUseError, match="another server"):
        second(tmp_path)
    await holder.close()
    await second(tmp_path).close()


async def test_folder_may_be_shared_by_those_who_say_so(tmp_path):
    first, second = SharedFileCounters(tmp_path), SharedFileCounters(tmp_path)
    await first.close()
    await second.close()
