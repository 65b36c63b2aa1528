"""A meter that cannot count says so, quickly, and never lets calls through uncounted."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time

import pytest
from redis.asyncio import Redis

from tests.waiting import until
from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.metering.allotments import AllotmentMeter
from tollhouse.metering.meter import SECONDS_PER_DAY, CounterMeter, Windows
from tollhouse.metering.redis_meter import RedisMeter, tally_key
from tollhouse.storage import counters_file
from tollhouse.storage.counters_file import FileCounters, FolderInUseError
from tollhouse.storage.counters_postgres import PostgresCounters, StoredCounts
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
    monkeypatch.setattr("tollhouse.storage.redis_client.TIMEOUT_SECONDS", 0.3)
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
    for number in range(12):
        await meter.reserve("key_a", windows)
        if number == 2:
            async with Redis.from_url(redis_url) as operator:
                old = await operator.get(tally_key("key_a"))
    await until(lambda: is_stored(database, "key_a", 12))
    async with Redis.from_url(redis_url) as operator:
        await operator.set(tally_key("key_a"), old)  # what an old dump would say; the epoch is in it too
    meter._run_ids, meter._must_check = frozenset({"the server before"}), True
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
    """Another process that holds every lock of the folder's counts, once it is told to, until it is stopped."""
    program = f"""
import fcntl, sys
file = open({str(tmp_path / "usage.counts")!r}, "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""

    def block() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"locked\n"
        return process

    started: list[subprocess.Popen[bytes]] = []
    yield block
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


async def test_count_that_another_process_locks_is_a_problem_and_works_again_after(tmp_path, blocker, monkeypatch):
    monkeypatch.setattr(counters_file, "LOCK_SECONDS", 0.3)
    meter = AllotmentMeter(FileCounters(tmp_path, shared=True))
    await meter.reserve("key_a", FREE)
    process = blocker()
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
    process.kill()  # its locks end with it
    process.wait()
    assert (await meter.reserve("key_a", FREE)).verdict.day.used == 2
    await meter.close()


async def test_rule_that_fails_leaves_the_shared_file_unlocked(tmp_path):
    tallies = FileCounters(tmp_path, shared=True)

    def fail(_tally) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await tallies.change("key_a", fail)
    assert (await CounterMeter(tallies).reserve("key_a", FREE)).verdict.day.used == 1
    await tallies.close()


@pytest.mark.parametrize(("first", "second"), [(False, False), (False, True), (True, False)])
async def test_folder_in_use_is_refused(tmp_path, first, second):
    holder = FileCounters(tmp_path, shared=first)
    with pytest.raises(FolderInUseError, match="another server"):
        FileCounters(tmp_path, shared=second)
    await holder.close()
    await FileCounters(tmp_path, shared=second).close()


async def test_folder_may_be_shared_by_those_who_say_so(tmp_path):
    first, second = FileCounters(tmp_path, shared=True), FileCounters(tmp_path, shared=True)
    await first.close()
    await second.close()
