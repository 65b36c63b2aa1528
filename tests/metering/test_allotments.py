"""Processes that count calls in advance keep the limits as one that counts each call."""

import asyncio
import contextlib
import random
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections import Counter

import pytest

from tollhouse import clock
from tollhouse.metering.allotments import ALLOTMENT_SECONDS, CHECK_SECONDS, GIVEN_BACK_SECONDS, PART, AllotmentMeter
from tollhouse.metering.meter import SECONDS_PER_DAY, Windows
from tollhouse.storage.counters_file import FileCounters

NOON = 20_000.5 * SECONDS_PER_DAY
BEFORE_MIDNIGHT = 20_001.0 * SECONDS_PER_DAY - 45
PROCESSES = 3

CALLER = """
import asyncio, sys
from pathlib import Path
from tollhouse.metering.allotments import AllotmentMeter
from tollhouse.metering.meter import Windows
from tollhouse.storage.counters_file import FileCounters

async def main():
    meter = AllotmentMeter(FileCounters(Path(sys.argv[1]), shared=True))
    for number in range(1, int(sys.argv[2]) + 1):
        await meter.reserve("key_a", Windows(int(sys.argv[3]), None))
        print(number, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


class SimulatedTime(asyncio.SelectorEventLoop):
    """An event loop whose time goes on only when every task waits, and then at once."""

    moment = 0.0

    def time(self) -> float:
        return self.moment

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self.moment = max(self.moment, self._scheduled[0]._when)
        super()._run_once()


@pytest.fixture
def run(monkeypatch):
    """Run a coroutine in simulated time, which begins at `begin`."""

    def run_from(begin, work) -> None:
        with contextlib.closing(SimulatedTime()) as loop:
            monkeypatch.setattr(clock, "seconds", lambda: begin + loop.moment)
            loop.run_until_complete(work)

    return run_from


class Changes(FileCounters):
    """Counts how often a tally is changed."""

    changes = 0

    async def change(self, subject, rule):
        self.changes += 1
        return await super().change(subject, rule)


class Traffic:
    """Callers of several meters, and the calls that were admitted and not released."""

    def __init__(self, folder, windows, rng) -> None:
        self.counters = [Changes(folder, shared=True) for _ in range(PROCESSES)]
        self.meters = [AllotmentMeter(each) for each in self.counters]
        self.windows, self.rng = windows, rng
        self.admitted_at: list[float] = []
        self.requests_by_day: Counter[float] = Counter()
        self.calls = self.refused = 0

    async def call(self, meter, requests):
        self.calls += 1
        begun = clock.seconds()
        reservation = await meter.reserve("key_a", self.windows, requests)
        of_day, of_minute = self.windows.per_day, self.windows.per_sliding
        if reservation.verdict.refused_by is None:
            assert reservation.at == clock.seconds()
            self.admitted_at.append(reservation.at)
            self.requests_by_day[self.today()] += requests
            assert of_day is None or self.of_today() <= of_day
            assert of_minute is None or self.since(60) <= of_minute
        else:
            self.refused += 1
            assert clock.seconds() - begun < 4 * GIVEN_BACK_SECONDS
            # A bucket more would not have admitted it either.
            is_day_full = of_day is not None and self.of_today() + requests > of_day
            assert is_day_full or (of_minute is not None and self.since(61) >= of_minute)
        return reservation

    async def release(self, meter, reservation):
        self.admitted_at.pop(bisect_left(self.admitted_at, reservation.at))
        self.requests_by_day[reservation.at // SECONDS_PER_DAY] -= reservation.requests
        await meter.release(reservation)

    def today(self):
        return clock.seconds() // SECONDS_PER_DAY

    def of_today(self):
        return self.requests_by_day[self.today()]

    def since(self, seconds):
        """The calls of so many seconds."""
        return len(self.admitted_at) - bisect_right(self.admitted_at, clock.seconds() - seconds)

    async def caller(self, seconds, pause, may_release):
        until = clock.seconds() + seconds
        while clock.seconds() < until:
            meter = self.rng.choice(self.meters)
            reservation = await self.call(meter, self.rng.choice([1, 1, 1, 1, 1, 1, 1, 3]))
            await asyncio.sleep(self.rng.random() * pause)
            if may_release and reservation.verdict.refused_by is None and self.rng.random() < 0.1:
                await self.release(meter, reservation)

    async def run(self, seconds, callers, pause, *, may_release=False):
        await asyncio.gather(*(self.caller(seconds, pause, may_release) for _ in range(callers)))
        await asyncio.sleep(2 * GIVEN_BACK_SECONDS)
        used = (await self.meters[0].peek("key_a", self.windows)).day.used
        assert used == self.of_today()
        for meter in self.meters:
            await meter.close()


@pytest.mark.parametrize("may_release", [False, True])
@pytest.mark.parametrize("begin", [NOON, BEFORE_MIDNIGHT])
@pytest.mark.parametrize("windows", [Windows(None, 900), Windows(2_500, None), Windows(4_000, 600)])
def test_limits_are_kept_and_calls_refused_at_most_a_second_early(run, tmp_path, windows, begin, may_release):
    traffic = Traffic(tmp_path, windows, random.Random(21))
    run(begin, traffic.run(150, 4, 0.12, may_release=may_release))
    assert traffic.refused
    if windows.per_sliding is None and begin == NOON:
        assert traffic.requests_by_day[NOON // SECONDS_PER_DAY] == windows.per_day


def test_busy_caller_takes_few_locks(run, tmp_path):
    traffic = Traffic(tmp_path, Windows(None, 1_000_000), random.Random(1))
    run(NOON, traffic.run(5, 8, 0.004))
    assert sum(each.changes for each in traffic.counters) < traffic.calls / 10


def test_slow_caller_is_counted_call_by_call(run, tmp_path):
    async def work() -> None:
        counters = Changes(tmp_path, shared=True)
        meter, windows = AllotmentMeter(counters), Windows(None, 1_000_000)
        for number in range(1, 50):
            verdict = (await meter.reserve("key_a", windows)).verdict
            assert verdict.day.used == counters.changes == number
            await asyncio.sleep(ALLOTMENT_SECONDS)
        await meter.close()

    run(NOON, work())


def test_verdict_counts_no_unused_call_while_an_allotment_ends(run, tmp_path):
    async def work() -> None:
        meter, windows = AllotmentMeter(FileCounters(tmp_path, shared=True)), Windows(None, 1_000_000)
        for number in range(1, 1_001):
            if number % 20 == 0:
                # The caller goes on in the very moment in which the meter ends the allotment.
                await asyncio.sleep(number // 20 % 5 * CHECK_SECONDS)
            assert (await meter.reserve("key_a", windows)).verdict.sliding.used == number
        await meter.close()

    run(NOON, work())


def test_what_a_process_took_in_advance_is_there_for_others_once_it_is_over(run, tmp_path):
    async def work() -> None:
        first, second = (AllotmentMeter(FileCounters(tmp_path, shared=True)) for _ in range(2))
        windows = Windows(1_000, None)
        for _ in range(200):
            await first.reserve("key_a", windows)
        reserved = [await second.reserve("key_a", windows) for _ in range(801)]
        assert sum(one.verdict.refused_by is None for one in reserved) == 800
        assert (await first.reserve("key_a", windows)).verdict.refused_by
        await first.close()
        await second.close()

    run(NOON, work())


def test_process_that_stops_gives_back_what_it_took(run, tmp_path):
    async def work() -> None:
        windows = Windows(100_000, None)
        first = AllotmentMeter(FileCounters(tmp_path, shared=True))
        for _ in range(100):
            await first.reserve("key_a", windows)
        await first.close()
        second = AllotmentMeter(FileCounters(tmp_path, shared=True))
        assert (await second.peek("key_a", windows)).day.used == 100
        await second.close()

    run(NOON, work())


def test_process_that_is_killed_leaves_counted_what_it_took(tmp_path):
    calls, limit = 500, 2_000
    command = [sys.executable, "-c", CALLER, str(tmp_path), str(calls), str(limit)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(calls):
        process.stdout.readline()
    process.kill()
    process.communicate()

    async def work() -> None:
        meter, windows = AllotmentMeter(FileCounters(tmp_path, shared=True)), Windows(limit, None)
        used = (await meter.peek("key_a", windows)).day.used
        assert calls <= used <= calls + limit / PART
        while (await meter.reserve("key_a", windows)).verdict.refused_by is None:
            used += 1
        assert used == limit
        await meter.close()

    asyncio.run(work())
