"""Statistics of calls: what is counted, stored by several processes, summed, shortened and deleted."""

import asyncio
import os

import pytest

from tests.waiting import stop, until
from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.statistics import store
from tollhouse.statistics.metrics import exposition, share_totals
from tollhouse.statistics.recorder import BOUNDS, Latencies, RecordedCall, Recorder
from tollhouse.statistics.statistics import MOST_ADDRESSES, OTHERS, Statistics
from tollhouse.statistics.store import DAY, HOUR, MINUTE
from tollhouse.storage.database import open_database

NOON = 20_000.5 * DAY


@pytest.fixture
def at(monkeypatch):
    """Set the clock."""

    def set_clock(moment) -> None:
        monkeypatch.setattr(clock, "seconds", lambda: moment)

    set_clock(NOON)
    return set_clock


def statistics_of(database) -> Statistics:
    return Statistics(database, lambda address: address.encode().ljust(8))


def call(**changes: object) -> RecordedCall:
    plain = {
        "ended": 0.0, "seconds": 0.003, "status": 200, "code": "", "detail": "", "service": "shop",
        "operation": "getRows", "method": "GET", "path": "/shop/rows", "request_id": "r1", "kind": "key",
        "subject": "key_1", "name": "robot", "plan": "pro", "payment": "plan", "charged_micros": 0,
    }  # fmt: skip
    return RecordedCall(**plain | changes)


@pytest.mark.both_databases
async def test_what_several_processes_count_is_summed_by_dimension_caller_and_day(database, at):
    first, second = statistics_of(database), statistics_of(database)
    for statistics in (first, second):
        for _ in range(3):
            statistics.recorder.record(call())
        statistics.recorder.record(call(status=429, code="rate-limited", detail="Too many", payment=""))
        statistics.recorder.record(call(status=502, code="upstream-unavailable", payment="", seconds=20.0))
        statistics.recorder.record(
            call(kind="wallet", subject="agent_1", plan="", payment="credit", charged_micros=10_000)
        )
        statistics.recorder.count(("front", "page /keys", 200, "", "", "", ""), 0.001, 0.0)
        statistics.recorder.count(("front", "operator GET /x", 200, "", "", "", ""), 0.001, 0.0)
        await statistics.flush()
    at(NOON + DAY)
    third = statistics_of(database)
    third.recorder.record(call())
    await third.flush()

    async with database.reading() as connection:
        for step in (MINUTE, HOUR):
            since, until = int(NOON), int(NOON) + HOUR
            totals = await store.totals(connection, step, since, until, "total")
            assert [(one.label, one.requests, one.refused, one.failed) for one in totals] == [
                ("calls", 12, 2, 2),
                ("other", 2, 0, 0),
            ]
            assert totals[0].latencies.buckets == [0, 0, 0, 10, *[0] * 10, 2]
            for dimension, labels in {
                "operation": [("shop getRows", 12)],
                "caller": [("key pro", 10), ("wallet", 2)],
                "payment": [("plan", 6), ("credit", 2)],
                "refusal": [("rate-limited shop getRows", 2), ("upstream-unavailable shop getRows", 2)],
            }.items():
                found = await store.totals(connection, step, since, until, dimension)
                assert [(one.label, one.requests) for one in found] == labels
        (point,) = await store.points(
            connection, step=MINUTE, since=0, until=int(NOON) + DAY, width=600, dimension="total", label="calls"
        )
        assert (point.at, point.requests) == (int(NOON), 12)
        key, wallet = await store.top_callers(connection, HOUR, int(NOON), 10)
        assert (key.subject, key.name, key.requests, key.refused, key.failed) == ("key_1", "robot", 11, 2, 2)
        assert (wallet.subject, wallet.charged_micros) == ("agent_1", 20_000)
        newest = await store.newest_calls(
            connection, 50, store.CallFilter("SHOP GETR", range(429, 430), "KEY_", "rate-limited")
        )
        assert [(one.code, one.detail, one.subject) for one in newest] == [("rate-limited", "Too many", "key_1")] * 2

    days = await first.usage_by_day("key_1", 2)
    assert [(day.day, day.requests, day.refused, day.failed) for day in days] == [
        ("2024-10-04", 10, 2, 2),
        ("2024-10-05", 1, 0, 0),
    ]
    assert await first.usage_by_day("key_1", 1) == days[1:]


@pytest.mark.both_databases
async def test_old_rows_go_and_the_newest_calls_stay(database, at, monkeypatch):
    monkeypatch.setattr(store, "RECENT_KEPT", 3)
    for moment in (NOON - 500 * DAY, NOON - 50 * DAY, NOON - 9 * DAY, NOON - 3 * HOUR, NOON):
        at(moment)
        statistics = statistics_of(database)
        statistics.recorder.record(call())
        statistics.recorder.record(call(kind="address", subject="203.0.113.9", plan=""))
        await statistics.flush()
    async with database.writing() as transaction:
        await store.delete_old(transaction, NOON)
    async with database.reading() as connection:
        ages = {
            (step, kind): [
                int(NOON - row.at) // HOUR
                for row in (await connection.execute(store.usage.select().order_by(store.usage.c.at))).all()
                if (row.step, row.kind) == (step, kind)
            ]
            for step, kind in ((MINUTE, "key"), (HOUR, "key"), (DAY, "key"), (DAY, "address"))
        }
        assert ages == {
            (MINUTE, "key"): [0],
            (HOUR, "key"): [3, 0],
            (DAY, "key"): [50 * 24 + 12, 9 * 24 + 12, 12],
            (DAY, "address"): [9 * 24 + 12, 12],
        }
        steps = [row.step for row in (await connection.execute(store.series.select())).all() if row.label == "calls"]
        assert sorted(steps) == [MINUTE] * 2 + [HOUR] * 3
        assert len(await store.newest_calls(connection, 50, store.CallFilter())) == 4  # two of the same time


async def test_no_address_and_no_secret_is_stored_and_addresses_are_bounded(database, at):
    statistics = statistics_of(database)
    for number in range(MOST_ADDRESSES + 5):
        address = f"10.{number // 250}.{number % 250}.7"
        statistics.recorder.record(call(kind="address", subject=address, plan=""))
    statistics.recorder.record(call(kind="address", subject="2001:db8:1:2::/64", plan=""))
    secret = "th_live_0123456789abcdefghijkl"
    refused = {"status": 400, "code": "invalid-parameter", "detail": f"No country {secret}", "path": f"/x/{secret}"}
    statistics.recorder.record(call(**refused, name=f"my {secret}", request_id=secret))
    await statistics.flush()
    async with database.reading() as connection:
        callers = await store.top_callers(connection, DAY, 0, MOST_ADDRESSES + 10)
        subjects = {caller.subject: caller.requests for caller in callers}
        assert subjects[OTHERS] == 6
        assert len(subjects) == MOST_ADDRESSES + 2
        assert "10.0.0.0/24 31302e" in subjects
        for table in (store.series, store.usage, store.recent):
            for row in await connection.execute(table.select()):
                assert secret not in str(row)
                assert "10.0.0.7" not in str(row)


async def test_counts_that_cannot_be_stored_are_stored_later(database, at, tmp_path):
    statistics = statistics_of(database)
    statistics.recorder.record(call())
    broken = open_database(Settings(database_url=f"sqlite:///{tmp_path}/missing/none.db"))
    statistics._database = broken
    await statistics.flush()
    statistics._database = database
    assert [day.requests for day in await statistics.usage_by_day("key_1")] == [1]
    await broken.close()


def test_metrics_are_those_of_all_workers(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    recorders = [Recorder(), Recorder()]
    for number, recorder in enumerate(recorders):
        monkeypatch.setattr(os, "getpid", lambda number=number: number)
        recorder.record(call())
        share_totals(recorder)
        share_totals(recorder)
    recorders[1].record(call(status=429, code="rate-limited"))
    text = exposition(recorders[1]).decode()
    assert 'tollhouse_request_duration_seconds_count{operation="getRows",service="shop",status="200"} 2.0' in text
    assert (
        'tollhouse_request_duration_seconds_bucket{le="0.005",operation="getRows",service="shop",status="200"} 2.0'
        in text
    )
    assert 'tollhouse_refusals_total{code="rate-limited",service="shop"} 1.0' in text
    assert 'tollhouse_calls_total{caller="key",payment="plan",plan="pro",service="shop"} 3.0' in text


def test_quantiles_are_interpolated_in_their_bucket():
    assert Latencies().quantile(0.5) is None
    buckets = [0] * (len(BOUNDS) + 1)
    buckets[3], buckets[5] = 90, 10  # up to 5 ms, and up to 25 ms
    latencies = Latencies(100, 1.0, buckets)
    assert latencies.quantile(0.5) == pytest.approx(0.0025 + 0.0025 * 50 / 90)
    assert latencies.quantile(0.95) == pytest.approx(0.010 + 0.015 * 0.5)
    assert Latencies(1, 30.0, [*[0] * 14, 1]).quantile(0.99) == BOUNDS[-1]


async def test_check_result_is_that_of_the_last_process(database, at):
    one, other = statistics_of(database), statistics_of(database)
    assert await one.last_check("ledger") is None
    await one.save_check("ledger", Latencies(1))
    at(NOON + 5)
    await other.save_check("ledger", Latencies(2))
    last = await one.last_check("ledger")
    assert last is not None
    assert (last.at, last.result["count"]) == (NOON + 5, 2)


@pytest.mark.both_databases
async def test_many_callers_are_stored_less_often_and_none_is_lost(database, at, monkeypatch):
    """The calls themselves are stored at once, and so are a key's when its usage is read."""
    monkeypatch.setattr("tollhouse.statistics.statistics.FLUSH_SECONDS", 0.01)
    monkeypatch.setattr("tollhouse.statistics.statistics.CALLERS_PER_SECOND", 0.01)
    statistics = statistics_of(database)

    async def stored() -> tuple[int, int]:
        async with database.reading() as connection:
            points = await store.totals(connection, MINUTE, 0, int(NOON) + HOUR, "total")
            callers = await store.top_callers(connection, DAY, 0, 10)
        return sum(point.requests for point in points), sum(caller.requests for caller in callers)

    async def are_counted(calls: int) -> bool:
        return (await stored())[0] == calls

    running = asyncio.create_task(statistics.run())
    statistics.recorder.record(call())
    await until(lambda: are_counted(1))
    for moment in (NOON, NOON + 30):
        at(moment)
        statistics.recorder.record(call(subject="key_2"))
        statistics.recorder.record(call())
        await until(lambda moment=moment: are_counted(3 if moment == NOON else 5))
    assert await stored() == (5, 1)
    statistics.recorder.totals()
    assert [day.requests for day in await statistics.usage_by_day("key_1")] == [3]
    assert await stored() == (5, 5)
    statistics.recorder.record(call())
    await until(lambda: are_counted(6))
    await stop(running)
    await statistics.flush()
    assert await stored() == (6, 6)
