"""Incidents: begun and ended once, continued when they return, kept over restarts, on both databases."""

import asyncio

import pytest

from tests.waiting import until
from tollhouse import clock, jobs
from tollhouse.status.incident_store import KEPT_SECONDS, SAME_SECONDS, Fault, Incidents

NOON = 1_700_000_000.0
SOURCE, OTHER = ("feeds", "wire"), ("shop", "rows")
FAILING = Fault("Wire", "failing", "The last attempt failed.")


@pytest.fixture
def at(monkeypatch):
    """Set the clock to so many seconds after noon."""

    def set_clock(seconds: float) -> None:
        monkeypatch.setattr(clock, "seconds", lambda: NOON + seconds)

    set_clock(0)
    return set_clock


async def listed(incidents):
    newest = await incidents.newest(10)
    return [(one.service, one.kind, one.began_at - NOON, one.ended_at and one.ended_at - NOON) for one in newest]


@pytest.mark.both_databases
async def test_incident_has_a_begin_and_an_end_and_returns_as_the_same(database, at):
    first, second = Incidents(database), Incidents(database)
    await first.observe({SOURCE, OTHER}, {SOURCE: FAILING})
    at(5)
    # Another process, or this one after a restart, sees the same fault: it stays one incident.
    await second.observe({SOURCE, OTHER}, {SOURCE: FAILING})
    # What was not checked is not ended.
    await second.observe({OTHER}, {})
    assert await listed(first) == [("feeds", "failing", 0, None)]
    at(60)
    await second.observe({SOURCE, OTHER}, {SOURCE: Fault("Wire", "stale", "An hour old.")})
    assert await listed(first) == [("feeds", "stale", 0, None)]
    at(90)
    await first.observe({SOURCE, OTHER}, {})
    assert await listed(first) == [("feeds", "stale", 0, 90)]

    at(90 + SAME_SECONDS - 1)
    await first.observe({SOURCE}, {SOURCE: FAILING})
    assert await listed(first) == [("feeds", "failing", 0, None)]
    await first.observe({SOURCE}, {})
    later = 90 + 3 * SAME_SECONDS
    at(later)
    await first.observe({SOURCE, OTHER}, {SOURCE: FAILING, OTHER: FAILING})
    began = [begin for _, _, begin, _ in await listed(first)]
    assert began == [later, later, 0]

    await first.observe({SOURCE, OTHER}, {})
    at(later + KEPT_SECONDS + 1)
    assert await first.newest(10, NOON + later + 1) == []
    await first.forget()
    assert await listed(first) == []


@pytest.mark.both_databases
async def test_gap_between_two_heartbeats_is_an_incident_with_both_ends(database, at):
    incidents = Incidents(database)
    assert await incidents.last_beat("serving") is None
    await incidents.beat("serving")
    at(3_600)
    last = await incidents.last_beat("serving")
    await incidents.record_gap(("server", "requests"), Fault("Server", "stopped", "It did not run."), last)
    await incidents.beat("serving")
    assert await listed(incidents) == [("server", "stopped", 0, 3_600)]
    assert await incidents.last_beat("serving") == NOON + 3_600
    assert await incidents.last_beat("background") is None


@pytest.mark.both_databases
async def test_background_task_that_fails_is_an_incident_until_it_runs_again(database, monkeypatch):
    runs = []

    async def task() -> None:
        runs.append(len(await incidents.newest(10)))
        if len(runs) == 1:
            raise RuntimeError("a cause that no stranger may read")
        await asyncio.Event().wait()

    incidents = Incidents(database)
    monkeypatch.setattr(jobs, "RESTART_TASK_SECONDS", 0.01)
    running = asyncio.create_task(jobs.run_forever(incidents, "shop", task))
    await until(lambda: len(runs) == 2)
    [one] = await incidents.newest(10)
    assert (one.service, one.kind) == ("shop", "stopped")
    assert one.ended_at is not None
    assert "stranger" not in one.detail
    running.cancel()
