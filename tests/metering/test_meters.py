"""One suite for every place where counts are kept."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.metering.allotments import AllotmentMeter
from tollhouse.metering.meter import SECONDS_PER_DAY, CounterMeter, Meter, Windows
from tollhouse.metering.redis_meter import RedisMeter
from tollhouse.storage.counters_file import FileCounters
from tollhouse.storage.counters_postgres import PostgresCounters
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

pytestmark = pytest.mark.both_databases

FREE = Windows(100, 10)
NOON = 20_000.5 * SECONDS_PER_DAY


@pytest.fixture(params=["file", "shared file", "postgres", "redis"])
async def open_meter(request, tmp_path):
    """A function that opens a meter over the same counts each time; `second` opens one beside it where that may be."""
    async with AsyncExitStack() as stack:

        async def opened() -> Meter:
            if request.param == "file":
                return CounterMeter(FileCounters(tmp_path))
            if request.param == "shared file":
                return AllotmentMeter(FileCounters(tmp_path, shared=True))
            if request.param == "redis":
                return RedisMeter(urls["redis"])
            database = open_database(Settings(database_url=urls["postgres"]))
            stack.push_async_callback(database.close)
            await migrate(database)
            return CounterMeter(PostgresCounters(database))

        urls = {name: request.getfixturevalue(f"{name}_url") for name in ("postgres", "redis") if name == request.param}
        opened.is_shared = request.param != "file"
        yield opened


@pytest.fixture
async def meter(open_meter):
    meter = await open_meter()
    yield meter
    await meter.close()


@pytest.fixture
def at(monkeypatch):
    """Set the clock."""

    def set_clock(moment) -> None:
        monkeypatch.setattr(clock, "seconds", lambda: moment)

    return set_clock


async def together(meters, windows, calls, subject="key_a"):
    reserved = await asyncio.gather(*(meters[n % len(meters)].reserve(subject, windows) for n in range(calls)))
    return [reservation for reservation in reserved if reservation.verdict.refused_by is None]


async def test_fifty_callers_at_once_get_the_minute_exactly(meter):
    fitted = await together([meter], FREE, 50)
    assert len(fitted) == 10
    assert sorted(reservation.verdict.day.remaining for reservation in fitted) == list(range(90, 100))
    verdict = await meter.peek("key_a", FREE)
    assert (verdict.day.used, verdict.sliding.used) == (10, 10)


async def test_fifty_callers_at_once_get_the_day_exactly(meter):
    assert len(await together([meter], Windows(30, 1_000), 50)) == 30


async def test_two_meters_over_the_same_counts_are_exact_together(open_meter):
    if not open_meter.is_shared:
        pytest.skip("one process counts in this file")
    meters = [await open_meter() for _ in range(3)]
    assert len(await together(meters, FREE, 50)) == 10
    for meter in meters:
        assert (await meter.peek("key_a", FREE)).day.used == 10
    for meter in meters:
        await meter.close()


async def test_call_of_many_requests_takes_them_of_the_day_and_gives_all_back(meter):
    windows = Windows(100, 10)
    made = await asyncio.gather(*(meter.reserve("key_a", windows, 30) for _ in range(8)))
    fitted = [one for one in made if one.verdict.refused_by is None]
    assert len(fitted) == 3
    refused = next(one.verdict for one in made if one.verdict.refused_by is not None)
    assert (refused.refused_by.window, refused.day.remaining) == ("day", 10)
    assert refused.retry_after_seconds(refused.day.resets_at - 50) == 50
    verdict = await meter.release(fitted[0])
    assert (verdict.day.used, verdict.sliding.used) == (60, 2)


async def test_subjects_do_not_share_windows(meter):
    assert len(await together([meter], FREE, 20, "key_a")) == 10
    assert len(await together([meter], FREE, 20, "key_b")) == 10
    assert len(await together([meter], FREE, 20, "address:2001:db8::/64")) == 10


async def test_released_call_gives_its_place_to_exactly_one(meter):
    fitted = await together([meter], FREE, 50)
    for reservation in fitted[:3]:
        await meter.release(reservation)
    verdict = await meter.peek("key_a", FREE)
    assert (verdict.day.used, verdict.sliding.used) == (7, 7)
    assert len(await together([meter], FREE, 50)) == 3


async def test_release_answers_what_is_left(meter):
    reservation = await meter.reserve("key_a", FREE)
    verdict = await meter.release(reservation)
    assert (verdict.day.remaining, verdict.sliding.remaining) == (100, 10)


async def test_looking_counts_nothing(meter):
    for _ in range(30):
        assert (await meter.peek("key_a", FREE)).day.used == 0
    assert len(await together([meter], FREE, 11)) == 10


async def test_unlimited_day_is_counted_and_never_full(meter):
    unlimited = Windows(None, 1_000)
    assert len(await together([meter], unlimited, 120)) == 120
    verdict = await meter.peek("key_a", unlimited)
    assert (verdict.day.limit, verdict.day.used, verdict.day.remaining) == (None, 120, None)


async def test_refusal_names_the_full_window_and_counts_nowhere(meter):
    await together([meter], Windows(100, 2), 2)
    by_minute = (await meter.reserve("key_a", Windows(100, 2))).verdict
    assert by_minute.refused_by == by_minute.sliding
    assert by_minute.sliding.window == "minute"
    by_day = (await meter.reserve("key_a", Windows(2, 100))).verdict
    assert by_day.refused_by == by_day.day
    assert (await meter.peek("key_a", FREE)).day.used == 2


async def test_minute_slides(meter, at):
    windows = Windows(None, 2)
    at(NOON)
    await meter.reserve("key_a", windows)
    at(NOON + 30)
    await meter.reserve("key_a", windows)
    refused = await meter.reserve("key_a", windows)
    assert refused.verdict.retry_after_seconds(refused.at) == 30
    at(NOON + 59.9)
    assert (await meter.reserve("key_a", windows)).verdict.refused_by
    at(NOON + 60)
    assert not (await meter.reserve("key_a", windows)).verdict.refused_by
    assert (await meter.reserve("key_a", windows)).verdict.refused_by
    at(NOON + 90)
    assert not (await meter.reserve("key_a", windows)).verdict.refused_by


async def test_day_rolls_at_midnight(meter, at):
    windows = Windows(2, None)
    midnight = 20_001.0 * SECONDS_PER_DAY
    at(midnight - 1)
    assert len(await together([meter], windows, 5)) == 2
    at(midnight)
    verdict = await meter.peek("key_a", windows)
    assert (verdict.day.used, verdict.day.resets_at) == (0, midnight + SECONDS_PER_DAY)
    assert len(await together([meter], windows, 5)) == 2


async def test_clock_that_was_ahead_locks_nobody_out_when_it_is_set_back(meter, at):
    both, minute = Windows(2, 2), Windows(None, 2)
    for ahead in (10, 1, 0):
        at(NOON + ahead * SECONDS_PER_DAY)
        assert len(await together([meter], both, 5)) == 2
    for ahead in (3_600, 0):
        at(NOON + ahead)
        assert len(await together([meter], minute, 5, "key_b")) == 2


async def test_clocks_a_second_apart_at_midnight_count_one_day(meter, at):
    windows, midnight = Windows(3, None), 20_001.0 * SECONDS_PER_DAY
    for moment in (midnight + 0.5, midnight - 0.5, midnight + 0.6):
        at(moment)
        await meter.reserve("key_a", windows)
    assert (await meter.peek("key_a", windows)).day.used <= 3


async def test_smaller_plan_waits_until_enough_calls_are_past(meter, at):
    for second in range(8):
        at(NOON + second)
        await meter.reserve("key_a", Windows(None, 100))
    at(NOON + 10)
    refused = await meter.reserve("key_a", Windows(None, 3))
    assert refused.verdict.retry_after_seconds(refused.at) == 55
    at(NOON + 65)
    assert not (await meter.reserve("key_a", Windows(None, 3))).verdict.refused_by


async def test_hour_and_minute_of_one_subject_are_apart(meter):
    hourly = Windows(None, 3, 3_600)
    assert len(await together([meter], hourly, 5, "keys:198.51.100.7")) == 3
    assert (await meter.peek("keys:198.51.100.7", hourly)).sliding.window == "hour"


async def test_counts_are_there_after_reopening(open_meter):
    meter = await open_meter()
    await together([meter], FREE, 7)
    await meter.close()
    again = await open_meter()
    verdict = await again.peek("key_a", FREE)
    assert (verdict.day.used, verdict.sliding.used) == (7, 7)
    assert len(await together([again], FREE, 50)) == 3
    await again.close()
