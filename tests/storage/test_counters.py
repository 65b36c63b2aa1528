import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc

import pytest

from tests.waiting import until
from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.metering.meter import SECONDS_PER_DAY, Windows, peek, reserve
from tollhouse.storage import counters_sqlite
from tollhouse.storage.counters_sqlite import MemoryCounters, SharedFileCounters

UNLIMITED = Windows(None, None)

COUNTER = """
import asyncio, sys, time
from pathlib import Path
from tollhouse.metering.meter import Windows, reserve
from tollhouse.storage.counters_sqlite import MemoryCounters, SharedFileCounters

async def main():
    tallies = {"memory": MemoryCounters, "shared": SharedFileCounters}[sys.argv[1]](Path(sys.argv[2]))
    for number in range(1, int(sys.argv[3]) + 1):
        await tallies.change("key_a", lambda tally: reserve(tally, Windows(None, None), time.time()))
        print(number, time.monotonic(), flush=True)
        await asyncio.sleep(0.01)

asyncio.run(main())
"""


async def count(tallies, subject="key_a"):
    return await tallies.change(subject, lambda tally: reserve(tally, UNLIMITED, clock.seconds()))


async def used(tallies, subject="key_a"):
    verdict = await tallies.change(subject, lambda tally: peek(tally, UNLIMITED, clock.seconds()))
    return verdict.day.used


def counting(kind, folder, output, calls=100_000):
    """A process that counts one call after another and tells when."""
    command = [sys.executable, "-c", COUNTER, kind, str(folder), str(calls)]
    return subprocess.Popen(command, stdout=output, text=True)


def on_disk(folder, subject="key_a"):
    connection = sqlite3.connect(folder / "usage.db")
    row = connection.execute("SELECT used FROM tally WHERE subject = ?", (subject,)).fetchone()
    connection.close()
    return row[0] if row else 0


async def test_count_in_memory_is_on_disk_soon(tmp_path):
    tallies = MemoryCounters(tmp_path)
    for _ in range(5):
        await count(tallies)
    await until(lambda: on_disk(tmp_path) == 5)
    await count(tallies)
    await until(lambda: on_disk(tmp_path) == 6)
    await tallies.close()


async def test_closing_writes_what_is_left(tmp_path):
    tallies = MemoryCounters(tmp_path)
    for subject in ("key_a", "key_b", "key_b"):
        await count(tallies, subject)
    await tallies.close()
    assert (on_disk(tmp_path, "key_a"), on_disk(tmp_path, "key_b")) == (1, 2)


@pytest.mark.parametrize(("kind", "may_lag_seconds"), [("memory", 1.0), ("shared", 0.0)])
async def test_kill_9_loses_no_more_than_the_last_second(tmp_path, kind, may_lag_seconds):
    process = counting(kind, tmp_path, subprocess.PIPE)
    assert process.stdout is not None
    calls = [process.stdout.readline().split()]
    while float(calls[-1][1]) - float(calls[0][1]) < 1.6:
        calls.append(process.stdout.readline().split())
    os.kill(process.pid, signal.SIGKILL)
    killed_at = time.monotonic()
    calls += [line.split() for line in process.communicate()[0].splitlines() if line.count(" ") == 1]
    certain = [int(number) for number, moment in calls if float(moment) <= killed_at - may_lag_seconds]
    kept = on_disk(tmp_path)
    assert certain[-1] <= kept <= int(calls[-1][0]) + 1
    # The lock died with the process: the next one takes over at once.
    tallies = MemoryCounters(tmp_path)
    assert await used(tallies) == kept
    await tallies.close()


async def test_full_disk_keeps_counting_in_memory_and_catches_up(tmp_path):
    tallies = MemoryCounters(tmp_path)
    tallies._file.execute("PRAGMA max_page_count=4")
    for _ in range(3):
        for number in range(400):
            await count(tallies, f"key_{number:060}")
        await asyncio.sleep(0.6)
    assert await used(tallies, f"key_{0:060}") == 3
    assert on_disk(tmp_path, f"key_{0:060}") == 0
    tallies._file.execute("PRAGMA max_page_count=1000000")
    await tallies.close()
    assert on_disk(tmp_path, f"key_{0:060}") == 3
    assert on_disk(tmp_path, f"key_{399:060}") == 3


async def test_read_only_file_keeps_counting_in_memory(tmp_path):
    tallies = MemoryCounters(tmp_path)
    tallies._file.execute("PRAGMA query_only=ON")
    for number in range(1, 4):
        assert (await count(tallies)).day.used == number
        await asyncio.sleep(0.3)
    tallies._file.execute("PRAGMA query_only=OFF")
    await tallies.close()
    assert on_disk(tmp_path) == 3


async def test_folder_is_let_go_even_if_the_last_write_fails(tmp_path):
    tallies = MemoryCounters(tmp_path)
    await count(tallies)
    tallies._file.execute("PRAGMA query_only=ON")
    await tallies.close()
    await MemoryCounters(tmp_path).close()


async def test_processes_share_one_file_exactly(tmp_path):
    processes = [counting("shared", tmp_path, subprocess.DEVNULL, calls=100) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    tallies = SharedFileCounters(tmp_path)
    assert await used(tallies) == 300
    await tallies.close()


async def test_counts_of_last_week_are_forgotten_at_the_next_start(tmp_path, monkeypatch):
    now = clock.seconds()
    monkeypatch.setattr(clock, "seconds", lambda: now - 7 * SECONDS_PER_DAY)
    tallies = MemoryCounters(tmp_path)
    await count(tallies, "old")
    await tallies.close()
    monkeypatch.setattr(clock, "seconds", lambda: now)
    tallies = MemoryCounters(tmp_path)
    await count(tallies, "new")
    await tallies.close()
    assert (on_disk(tmp_path, "old"), on_disk(tmp_path, "new")) == (0, 1)


async def test_idle_subjects_leave_the_memory_and_their_counts_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(counters_sqlite, "GENERATION_SECONDS", 0.2)
    monkeypatch.setattr(counters_sqlite, "FLUSH_EVERY_SECONDS", 0.05)
    tallies = MemoryCounters(tmp_path)
    for _ in range(3):
        await count(tallies, "idle")

    async def is_gone() -> bool:
        await count(tallies, "busy")
        return not any("idle" in names for names in (tallies._young, tallies._old, tallies._dirty))

    await until(is_gone)
    assert "busy" in tallies._young
    assert await used(tallies, "idle") == 3
    await tallies.close()


async def test_counts_of_callers_take_little_memory(tmp_path):
    tallies = MemoryCounters(tmp_path)
    tracemalloc.start()
    for number in range(2_000):
        await count(tallies, f"address:198.51.{number // 250}.{number % 250}")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 2_000 * 700
    await tallies.close()


@pytest.mark.parametrize("kind", [MemoryCounters, SharedFileCounters])
@pytest.mark.parametrize("damage", ["no database", "damaged page"])
async def test_damaged_file_is_set_aside_at_the_start(tmp_path, kind, damage):
    file = tmp_path / "usage.db"
    if damage == "no database":
        file.write_bytes(b"no database at all" * 1_000)
    else:
        tallies = kind(tmp_path)
        for number in range(300):
            await count(tallies, f"key_{number:060}")
        await tallies.close()
        whole = file.read_bytes()
        file.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    tallies = kind(tmp_path)
    await count(tallies)
    await tallies.close()
    assert on_disk(tmp_path) == 1
    assert len(list(tmp_path.glob("usage.db.aside-*"))) >= 1


@pytest.mark.parametrize("kind", [MemoryCounters, SharedFileCounters])
async def test_file_that_is_damaged_while_it_is_used_is_replaced(tmp_path, kind):
    tallies = kind(tmp_path)
    for number in range(300):
        await count(tallies, f"key_{number:060}")
    if kind is MemoryCounters:
        await until(lambda: on_disk(tmp_path, f"key_{299:060}") == 1)
    file = tmp_path / "usage.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = file.read_bytes()
    with file.open("r+b") as opened:
        opened.write(b"\xff" * len(whole))

    async def is_counted() -> bool:
        with contextlib.suppress(Problem):
            await count(tallies, "key_after")
        aside = list(tmp_path.glob("usage.db.aside-*"))
        return bool(aside) and on_disk(tmp_path, "key_after") > 0

    await until(is_counted)
    if kind is MemoryCounters:
        assert await used(tallies, f"key_{7:060}") == 1
        await until(lambda: on_disk(tmp_path, f"key_{7:060}") == 1)
    await tallies.close()


async def test_locked_file_does_not_stop_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(counters_sqlite, "OPEN_SECONDS", 0.05)
    tallies = MemoryCounters(tmp_path)
    await count(tallies)
    await tallies.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "usage.db", isolation_level=None)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        alone = MemoryCounters(tmp_path)  # it reads what is there, and writes when the lock is gone
        assert (await count(alone)).day.used == 2
        await alone.close()
        workers = [SharedFileCounters(tmp_path) for _ in range(2)]
        assert [(await count(worker)).day.used for worker in workers] == [1, 2]
        for worker in workers:
            await worker.close()
    assert len(list(tmp_path.glob("usage.db.aside-*"))) >= 1
