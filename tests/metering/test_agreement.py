"""The same calls get the same verdicts wherever counts are kept, and none exceeds its limit."""

import asyncio
import random
from collections import defaultdict

import pytest

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.metering.allotments import AllotmentMeter
from tollhouse.metering.meter import SECONDS_PER_DAY, CounterMeter, Windows, peek, release, reserve
from tollhouse.metering.redis_meter import RedisMeter
from tollhouse.storage.counters import Tally
from tollhouse.storage.counters_file import FileCounters
from tollhouse.storage.counters_postgres import PostgresCounters
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

pytestmark = pytest.mark.both_databases

NOON = 20_000.5 * SECONDS_PER_DAY
BEFORE_MIDNIGHT = 20_001.0 * SECONDS_PER_DAY - 90
CALLS = 150


class Stores:
    """Applies each step to the rules and to every store, and compares the verdicts."""

    def __init__(self, meters) -> None:
        self.plain: dict[str, Tally] = defaultdict(Tally)
        self.meters = meters

    async def reserve(self, subject, windows, now, requests=1):
        expected = reserve(self.plain[subject], windows, now, requests)
        reservations = await asyncio.gather(*(meter.reserve(subject, windows, requests) for meter in self.meters))
        assert [one.verdict for one in reservations] == [expected] * len(self.meters)
        return expected, reservations

    async def release(self, reservations, now):
        first = reservations[0]
        expected = release(self.plain[first.subject], first.windows, first.at, now, first.requests)
        verdicts = await asyncio.gather(
            *(meter.release(one) for meter, one in zip(self.meters, reservations, strict=True))
        )
        assert verdicts == [expected] * len(self.meters)

    async def peek(self, subject, windows, now):
        expected = peek(self.plain[subject], windows, now)
        verdicts = await asyncio.gather(*(meter.peek(subject, windows) for meter in self.meters))
        assert verdicts == [expected] * len(self.meters)


@pytest.fixture
async def stores(tmp_path, postgres_url, redis_url):
    database = open_database(Settings(database_url=postgres_url))
    await migrate(database)
    meters = [
        AllotmentMeter(FileCounters(tmp_path, shared=True)),
        CounterMeter(PostgresCounters(database)),
        RedisMeter(redis_url),
    ]
    yield Stores(meters)
    for meter in meters:
        await meter.close()
    await database.close()


@pytest.fixture
def at(monkeypatch):
    """Set the clock."""
    return lambda moment: monkeypatch.setattr(clock, "seconds", lambda: moment)


def is_exact(moment, windows, calls, verdict):
    """Whether the verdict keeps the limits, and refuses only what a bucket more would not admit."""
    span = windows.sliding_seconds
    today = sum(requests for call, requests in calls if call // SECONDS_PER_DAY == moment // SECONDS_PER_DAY)
    recent = sum(call > moment - span for call, _ in calls)
    nearly_recent = sum(call > moment - span * 61 / 60 for call, _ in calls)
    if verdict.refused_by is None:
        within_day = windows.per_day is None or today < windows.per_day
        return within_day and (windows.per_sliding is None or recent < windows.per_sliding)
    if verdict.refused_by == verdict.day:
        return today >= windows.per_day or verdict.day.remaining < 3
    return nearly_recent >= windows.per_sliding


@pytest.mark.parametrize("seed", range(6))
async def test_all_stores_agree_and_none_exceeds_the_limit(stores, at, seed):
    rng = random.Random(seed)
    seconds = rng.choice([60, 60, 3_600])
    windows = Windows(rng.choice([None, 40, 90]), rng.choice([None, 1, 5, 30]), seconds)
    now = rng.choice([NOON, BEFORE_MIDNIGHT])
    calls, reserved = [], []
    for _ in range(CALLS):
        now += rng.choice([0, 1e-6, 0.25, 0.999, 1, 7.5, 59, 60, 61]) * rng.choice([1, 0.3]) * seconds / 60
        at(now)
        step = rng.random()
        if step < 0.7:
            requests = rng.choice([1, 1, 1, 3])
            verdict, reservations = await stores.reserve("key_a", windows, now, requests)
            assert is_exact(now, windows, calls, verdict)
            if verdict.refused_by is None:
                calls.append((now, requests))
                reserved.append(reservations)
        elif step < 0.85 and reserved:
            place = rng.randrange(max(0, len(reserved) - 8), len(reserved))
            reservations = reserved.pop(place)
            calls.remove((reservations[0].at, reservations[0].requests))
            await stores.release(reservations, now)
        else:
            await stores.peek("key_a", windows, now)


async def test_all_stores_agree_when_the_clock_jumps_and_the_plan_changes(stores, at):
    rng = random.Random(61)
    now, reserved = NOON, []
    plans = [Windows(50, 4), Windows(None, 300), Windows(20, 2), Windows(None, 3, 3_600)]
    windows = plans[0]
    for _ in range(CALLS):
        now += rng.choice([0.4, 1, -0.7, -30, 45, 3, -3_700, 3_700])
        at(now)
        windows = rng.choice(plans) if rng.random() < 0.1 else windows
        for _ in range(rng.choice([1, 1, 20])):
            _, reservations = await stores.reserve("key_b", windows, now)
            reserved.append(reservations)
        if rng.random() < 0.3:
            await stores.release(rng.choice(reserved), now)


async def test_busy_second_of_more_than_255_calls_is_counted_the_same_everywhere(stores, at):
    windows = Windows(None, 1_000)
    for second in range(3):
        at(NOON + second / 2)
        for _ in range(300):
            await stores.reserve("key_c", windows, NOON + second / 2)
    for moment in (NOON + 59, NOON + 60, NOON + 61, NOON + 120):
        at(moment)
        verdict, _ = await stores.reserve("key_c", windows, moment)
    assert verdict.sliding.used == 2
