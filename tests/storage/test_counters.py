import asyncio
import errno
import os
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from array import array

import pytest

from tests.waiting import until
from tollhouse import clock
from tollhouse.metering.meter import SECONDS_PER_DAY, Windows, peek, reserve
from tollhouse.storage import counters_file
from tollhouse.storage.counters_file import COUNTS_FILE, FileCounters

UNLIMITED = Windows(None, None)
SLOTS_AT = 4_096 + 8 * (1 << 19)

COUNTER = """
import asyncio, sys, time
from pathlib import Path
from tollhouse.metering.meter import Windows, reserve
from tollhouse.storage.counters_file import FileCounters

async def main():
    tallies = FileCounters(Path(sys.argv[2]), shared=sys.argv[1] == "shared")
    for number in range(1, int(sys.argv[3]) + 1):
        subject = "key_a" if len(sys.argv) == 4 else f"key_{number % int(sys.argv[4])}"
        await tallies.change(subject, lambda tally: reserve(tally, Windows(None, None), time.time()))
        if len(sys.argv) == 4:
            print(number, flush=True)

asyncio.run(main())
"""


async def count(tallies, subject="key_a", at=None):
    return await tallies.change(subject, lambda tally: reserve(tally, UNLIMITED, at or clock.seconds()))


async def used(tallies, subject="key_a"):
    verdict = await tallies.change(subject, lambda tally: peek(tally, UNLIMITED, clock.seconds()))
    return verdict.day.used


def counting(kind, folder, output, calls=100_000, subjects=()):
    """A process that counts one call after another and says when."""
    command = [sys.executable, "-c", COUNTER, kind, str(folder), str(calls), *map(str, subjects)]
    return subprocess.Popen(command, stdout=output, text=True)


async def test_kill_9_loses_no_count_of_a_shared_file(tmp_path):
    process = counting("shared", tmp_path, subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(200):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    told = [int(line) for line in process.communicate()[0].splitlines() if line.isdigit()]
    # The lock died with the process: the next one takes over at once.
    tallies = FileCounters(tmp_path)
    assert max(told, default=200) <= await used(tallies) <= max(told, default=200) + 1
    await tallies.close()


async def test_kill_9_loses_at_most_the_last_counts_of_a_process_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(counters_file, "WRITTEN_AT_ONCE", 3)
    tallies = FileCounters(tmp_path)
    for number in range(10):
        await count(tallies, f"key_{number}")
    assert tallies._unwritten
    await until(lambda: not tallies._unwritten)
    await count(tallies, "key_0")
    # What a killed process leaves is what its file holds.
    slots = [tallies._find(counters_file._subject(f"key_{number}")) for number in range(10)]
    assert [slot and slot.tally and slot.tally.used for slot in slots] == [1] * 10
    await tallies.close()
    again = FileCounters(tmp_path)
    assert await used(again, "key_0") == 2
    await again.close()


async def test_processes_that_are_killed_while_they_count_leave_a_whole_file(tmp_path):
    for _ in range(4):
        processes = [counting("shared", tmp_path, subprocess.DEVNULL, 10_000_000, [400]) for _ in range(2)]
        deadline = time.monotonic() + 20
        while (tmp_path / COUNTS_FILE).stat().st_size <= SLOTS_AT if (tmp_path / COUNTS_FILE).exists() else True:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        for process in processes:
            process.kill()
            process.wait()
    tallies = FileCounters(tmp_path)
    read = [tallies._find(counters_file._subject(f"key_{number}")) for number in range(400)]
    assert all(slot is None or slot.tally is not None for slot in read)
    assert sum(slot is not None for slot in read) > 0
    await tallies.close()


async def test_processes_share_one_file_exactly(tmp_path):
    processes = [counting("shared", tmp_path, subprocess.DEVNULL, 600, [3]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    tallies = FileCounters(tmp_path, shared=True)
    assert [await used(tallies, f"key_{number}") for number in range(3)] == [600, 600, 600]
    await tallies.close()


async def test_subjects_of_one_chain_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(counters_file, "_CHAINS", 1)
    tallies = FileCounters(tmp_path)
    for number in range(50):
        for _ in range(number + 1):
            await count(tallies, f"key_{number}")
    await tallies.close()
    tallies = FileCounters(tmp_path)
    assert [await used(tallies, f"key_{number}") for number in range(50)] == list(range(1, 51))
    await tallies.close()


@pytest.mark.parametrize("unwritten", [0, 4_096])
async def test_slots_of_subjects_whose_windows_are_over_are_used_again(tmp_path, monkeypatch, unwritten):
    monkeypatch.setattr(counters_file, "_CHAINS", 4)
    monkeypatch.setattr(counters_file, "USUALLY_UNWRITTEN", unwritten)
    now = clock.seconds()
    tallies = FileCounters(tmp_path)
    for day in range(4):
        moment = now + day * 2 * SECONDS_PER_DAY
        monkeypatch.setattr(clock, "seconds", lambda moment=moment: moment)
        for number in range(40):
            await count(tallies, f"key_{day}_{number}")
        if day:
            for number in range(0, 40, 7):
                assert (await count(tallies, f"key_{day - 1}_{number}")).day.used == 1
        assert [await used(tallies, f"key_{day}_{number}") for number in range(40)] == [1] * 40
    assert (tmp_path / COUNTS_FILE).stat().st_size < 4_096 + 8 * (1 << 19) + 80 * 176
    await tallies.close()
    tallies = FileCounters(tmp_path)
    assert [await used(tallies, f"key_3_{number}") for number in range(40)] == [1] * 40
    assert [await used(tallies, f"key_2_{number}") for number in range(0, 40, 7)] == [1] * 6
    await tallies.close()


async def test_full_disk_keeps_counting_in_memory_and_catches_up(tmp_path, monkeypatch):
    tallies = FileCounters(tmp_path)
    for number in range(20):
        await count(tallies, f"key_{number}")

    def is_full(_file, _packed, _at=0) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(counters_file.os, "pwrite", is_full)
        full.setattr(counters_file.os, "write", is_full)
        for number in range(10, 30):
            await count(tallies, f"key_{number}")
        assert await used(tallies, "key_15") == 2
        await until(lambda: tallies._is_disk_full)
    await count(tallies, "key_0")
    await until(lambda: not tallies._unwritten)
    await tallies.close()
    again = FileCounters(tmp_path)
    assert [await used(again, f"key_{number}") for number in (0, 5, 15, 25)] == [2, 1, 2, 1]
    await again.close()


async def test_counts_of_a_million_callers_would_take_little_memory(tmp_path):
    tallies = FileCounters(tmp_path)
    tracemalloc.start()
    for number in range(30_000):
        await count(tallies, f"address:198.51.{number // 250}.{number % 250}")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < counters_file.MOST_PLACES * 600
    assert len(tallies._unwritten) <= counters_file.USUALLY_UNWRITTEN
    assert (tmp_path / COUNTS_FILE).stat().st_size <= SLOTS_AT + 30_000 * 176
    await tallies.close()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("damage", ["other content", "cut"])
async def test_damaged_file_is_set_aside_at_the_start(tmp_path, shared, damage):
    file = tmp_path / COUNTS_FILE
    if damage == "other content":
        file.write_bytes(b"no counts at all" * 1_000_000)
    else:
        tallies = FileCounters(tmp_path, shared=shared)
        await count(tallies)
        await tallies.close()
        os.truncate(file, 100_000)
    tallies = FileCounters(tmp_path, shared=shared)
    assert (await count(tallies)).day.used == 1
    await tallies.close()
    assert len(list(tmp_path.glob(f"{COUNTS_FILE}.aside-*"))) == 1


async def test_slot_that_was_not_wholly_written_begins_anew_and_spares_the_others(tmp_path):
    tallies = FileCounters(tmp_path, shared=True)
    for subject in ("key_a", "key_b"):
        await count(tallies, subject)
    place = tallies._subjects["key_a"].slot_at
    with (tmp_path / COUNTS_FILE).open("r+b") as file:
        file.seek(place + 30)
        file.write(b"\xff" * 20)
    assert (await count(tallies)).day.used == 1
    assert (await count(tallies)).day.used == 2
    assert await used(tallies, "key_b") == 1
    await tallies.close()


@pytest.mark.parametrize("shared", [False, True])
async def test_file_that_is_overwritten_while_it_is_used_counts_on(tmp_path, shared):
    tallies = FileCounters(tmp_path, shared=shared)
    for number in range(300):
        await count(tallies, f"key_{number}")
    size = (tmp_path / COUNTS_FILE).stat().st_size
    with (tmp_path / COUNTS_FILE).open("r+b") as file:
        file.write(b"\xff" * size)
    # A process that counts alone has them in memory.
    for times in (1, 2) if shared else (2, 3):
        for number in range(300):
            assert (await count(tallies, f"key_{number}")).day.used == times
    await tallies.close()


def former_file(folder, rows):
    with sqlite3.connect(folder / "usage.db") as connection:
        connection.execute(
            "CREATE TABLE tally (subject TEXT PRIMARY KEY, day INTEGER, used INTEGER, recent BLOB) WITHOUT ROWID"
        )
        connection.executemany("INSERT INTO tally VALUES (?, ?, ?, ?)", rows)
    connection.close()


async def test_counts_of_an_earlier_version_are_taken_over(tmp_path):
    now = clock.seconds()
    today = int(now // SECONDS_PER_DAY)
    recent = array("d", [now - 30, now - 30, now - 2.5, now - 2, now - 0.1])
    rows = [(f"key_{number}", today, number, b"") for number in range(300)]
    former_file(tmp_path, [("key_a", today, 77, recent.tobytes()), ("key_old", today - 9, 5, b""), *rows])
    tallies = FileCounters(tmp_path)
    verdict = await tallies.change("key_a", lambda tally: peek(tally, Windows(100, 10), now))
    assert (verdict.day.used, verdict.sliding.used) == (77, 5)
    assert now + 28 <= verdict.sliding.resets_at <= now + 32
    assert [await used(tallies, f"key_{number}") for number in (7, 299)] == [7, 299]
    assert await used(tallies, "key_old") == 0
    await tallies.close()
    assert not (tmp_path / "usage.db").exists()


async def test_file_of_an_earlier_version_that_cannot_be_read_does_not_stop_the_start(tmp_path):
    (tmp_path / "usage.db").write_bytes(b"no database at all" * 1_000)
    tallies = FileCounters(tmp_path)
    assert (await count(tallies)).day.used == 1
    await tallies.close()
