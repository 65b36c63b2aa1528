"""Failed attempts meet 429, whoever makes them and however many at once; successes cost nothing."""

import asyncio
import socket
from typing import Any

import pytest

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.metering.attempts import Attempts
from tollhouse.metering.meter import CounterMeter
from tollhouse.metering.redis_meter import RedisMeter
from tollhouse.storage.counters_file import FileCounters

LIMIT = 10
HOME = "198.51.100.7"
FAILURE = Problem("invalid-key", "No.")


class Work:
    """Something that an attempt costs: how often it was done, and how often at once."""

    def __init__(self) -> None:
        self.done = self.running = self.most_at_once = 0

    async def __call__(self, failure=None) -> None:
        self.done += 1
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if failure:
            raise failure


@pytest.fixture
async def meter(tmp_path):
    meter = CounterMeter(FileCounters(tmp_path))
    yield meter
    await meter.close()


@pytest.fixture
def attempts(meter):
    return Attempts(meter, LIMIT)


@pytest.fixture
def work():
    return Work()


async def tried(attempts, work, failure=None, address=HOME, party="", **options: Any):
    """The code of the problem that an attempt ended in; empty if it succeeded."""
    try:
        async with attempts.attempt(address, party, **options):
            await work(failure)
    except Problem as problem:
        is_said_when = problem.code != "rate-limited" or int(problem.headers["Retry-After"]) >= 1
        return problem.code if is_said_when else "without Retry-After"
    return ""


async def test_failures_meet_429_before_the_work(attempts, work):
    codes = [await tried(attempts, work, FAILURE) for _ in range(LIMIT + 5)]
    assert codes == ["invalid-key"] * LIMIT + ["rate-limited"] * 5
    assert work.done == LIMIT
    assert await tried(attempts, work, address="198.51.100.8") == ""


async def test_failures_at_once_do_no_more_work_than_one_after_another(attempts, work):
    codes = await asyncio.gather(*(tried(attempts, work, FAILURE) for _ in range(300)))
    assert sorted(codes) == ["invalid-key"] * LIMIT + ["rate-limited"] * (300 - LIMIT)
    assert work.done == LIMIT


async def test_caller_who_succeeds_is_never_refused_however_many_at_once(attempts, work):
    codes = await asyncio.gather(*(tried(attempts, work) for _ in range(300)))
    assert set(codes) == {""}
    assert (work.done, work.most_at_once) == (300, LIMIT)
    assert not attempts._budgets


async def test_failures_are_forgotten_after_a_minute(meter, attempts, work, monkeypatch):
    for _ in range(LIMIT + 1):
        await tried(attempts, work, FAILURE)
    now, loop = clock.seconds() + 61, asyncio.get_running_loop()
    later = loop.time() + 61
    monkeypatch.setattr(clock, "seconds", lambda: now)
    monkeypatch.setattr(loop, "time", lambda: later)
    assert await tried(attempts, work) == ""
    monkeypatch.undo()


async def test_two_processes_share_the_count(meter, attempts, work):
    other = Attempts(meter, LIMIT)
    for _ in range(LIMIT):
        await tried(attempts, work, FAILURE)
    assert await tried(other, work, FAILURE) == "invalid-key"  # it learns the count with its first failure
    assert await tried(other, work, FAILURE) == "rate-limited"


async def test_networks_around_an_ipv6_address_have_four_and_sixteen_times_the_budget(attempts, work):
    def network(number) -> str:
        return f"2001:db8:1:{number:x}::/64"

    for number in range(4):
        for _ in range(LIMIT):
            assert await tried(attempts, work, FAILURE, network(number)) == "invalid-key"
    assert await tried(attempts, work, FAILURE, network(4)) == "rate-limited"
    assert await tried(attempts, work, FAILURE, network(0x100)) == "invalid-key"
    assert await tried(attempts, work, FAILURE, "2001:db8:2::/64") == "invalid-key"
    codes = [
        await tried(attempts, work, FAILURE, network(0x100 * (1 + number // 4) + number % 4))
        for number in range(60)
        for _ in range(LIMIT)
    ]
    assert codes.count("invalid-key") == 16 * LIMIT - 4 * LIMIT - 1


async def test_party_that_succeeded_is_not_held_to_the_address_it_shares(attempts, work):
    assert await tried(attempts, work, party="wallet:a") == ""
    for _ in range(LIMIT + 1):
        await tried(attempts, work, FAILURE, party="wallet:b")
    assert await tried(attempts, work, party="wallet:c") == "rate-limited"
    assert await tried(attempts, work, party="wallet:a") == ""
    # One failure, and it is a stranger like any other.
    assert await tried(attempts, work, FAILURE, party="wallet:a") == "invalid-key"
    assert await tried(attempts, work, party="wallet:a") == "rate-limited"


async def test_party_has_a_budget_wherever_it_calls_from(attempts, work):
    unfunded = Problem("insufficient-balance", "No.", balance_usd="0")
    codes = [
        await tried(attempts, work, unfunded, f"198.51.100.{number}", "wallet:a", is_partys_fault=lambda _: True)
        for number in range(LIMIT + 3)
    ]
    assert codes == ["insufficient-balance"] * LIMIT + ["rate-limited"] * 3


async def test_stranger_who_names_a_payer_does_not_use_its_budget(attempts, work):
    for number in range(3 * LIMIT):
        await tried(
            attempts, work, FAILURE, f"203.0.113.{number}", "payer:a",
            is_authentic=lambda: False, is_partys_fault=lambda _: True,
        )  # fmt: skip
    assert await tried(attempts, work, party="payer:a") == ""


async def test_failure_of_the_server_costs_no_budget(attempts, work):
    broken = Problem("storage-unavailable", "No.")
    assert {await tried(attempts, work, broken) for _ in range(3 * LIMIT)} == {"storage-unavailable"}
    assert await tried(attempts, work) == ""


async def test_meter_that_is_gone_leaves_the_budget_of_this_process(work):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        meter = RedisMeter(f"redis://127.0.0.1:{closed.getsockname()[1]}/0")
        attempts = Attempts(meter, LIMIT)
        codes = [await tried(attempts, work, FAILURE) for _ in range(LIMIT + 3)]
        await meter.close()
    assert codes == ["invalid-key"] * LIMIT + ["rate-limited"] * 3


async def test_waiting_caller_who_goes_away_leaves_its_turn_to_the_next(attempts, work):
    hold = asyncio.Event()

    async def held() -> None:
        async with attempts.attempt(HOME):
            await hold.wait()

    holders = [asyncio.create_task(held()) for _ in range(LIMIT)]
    await asyncio.sleep(0)
    gone, stays = (asyncio.create_task(tried(attempts, work)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    hold.set()
    assert await asyncio.wait_for(stays, 5) == ""
    await asyncio.gather(*holders)
    assert not attempts._budgets
