"""What is refused when requests wait too long, and that nothing else is."""

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest

from tests.waiting import until
from tollhouse.errors import Problem
from tollhouse.http import overload
from tollhouse.http.overload import FEWEST_AT_ONCE, QueueOfLoop, QueueOfThreads

PATH = "/defense/feeds/events"


@pytest.fixture
def now(monkeypatch):
    """The time that the rules read, in a list of one."""
    moment = [1_000.0]
    monkeypatch.setattr(overload, "perf_counter", lambda: moment[0])
    return moment


async def turn(queue, now, requests, seconds, path=PATH):
    """Requests that are handled in one turn of the loop, each of which takes so long; which of them were refused."""
    refused = []
    for _ in range(requests):
        refused.append(queue.is_overdue(path))
        if not refused[-1]:
            now[0] += seconds
    await asyncio.sleep(0)
    return refused


@contextmanager
def handling(queue, operation, path):
    known, begun = queue.begin(operation, path)
    try:
        yield
    finally:
        queue.end(known, begun)


async def test_burst_is_worked_off(now):
    queue = QueueOfLoop()
    assert not any(await turn(queue, now, 400, 0.001))


async def test_queue_that_stays_long_is_cut_to_the_target_and_recovers(now):
    queue = QueueOfLoop()
    for _ in range(8):
        refused = await turn(queue, now, 100, 0.001)
    assert refused.count(False) == pytest.approx(overload.OVERLOADED_SECONDS * 1_000 + 1, abs=1)
    assert refused == sorted(refused)
    for _ in range(3):
        assert not any(await turn(queue, now, 5, 0.001))
    assert any(await turn(queue, now, 100, 0.001)), "a short queue does not yet mean that it stays short"
    now[0] += overload.REMEMBER_SECONDS + 0.1
    assert not any(await turn(queue, now, 100, 0.001))


async def test_requests_that_take_long_are_not_refused_for_it(now):
    queue = QueueOfLoop()
    for _ in range(100):
        assert not any(await turn(queue, now, 3, 0.05))


@pytest.mark.parametrize("path", ["/defense/health", "/metrics", "/operator/api/traffic", "/status.json"])
async def test_health_and_the_operators_pages_are_never_refused(now, path):
    queue = QueueOfLoop()
    for _ in range(6):
        assert not any(await turn(queue, now, 100, 0.001, path))


async def searches(queue, count, release):
    """Searches that wait for a thread until `release`; how many of them were refused."""
    refused = 0

    async def search() -> None:
        nonlocal refused
        try:
            with handling(queue, "search", PATH):
                await asyncio.to_thread(release.wait)
        except Problem as problem:
            refused += (problem.code, problem.headers["Retry-After"]) == ("overloaded", "1")

    tasks = [asyncio.create_task(search()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks, lambda: refused


async def test_searches_beyond_a_few_are_refused_while_others_wait_for_threads_and_other_calls_are_not():
    queue, release = QueueOfThreads(), threading.Event()
    asyncio.get_running_loop().call_later(overload.INTERVAL_SECONDS + 0.2, release.set)
    first, refused = await searches(queue, 40, release)
    await asyncio.gather(*first)
    assert refused() == 0
    release.clear()
    # The first ones took long: now the operation counts as slow, and the threads are all taken.
    begun = time.monotonic()
    held, refused = await searches(queue, FEWEST_AT_ONCE + 32, release)
    await until(lambda: time.monotonic() - begun > overload.INTERVAL_SECONDS)
    assert refused() == 0
    more, refused = await searches(queue, 5, release)
    assert refused() == 5
    with handling(queue, "quick", PATH):
        pass
    release.set()
    await asyncio.gather(*held, *more)
