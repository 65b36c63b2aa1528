import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.payments.ledger.transfers import ANSWER, PRICE, charge, deposit, reserve
from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.ledger.types import ReservationGoneError, Reserve, Reserved, Transfer, Used
from tollhouse.storage.database import open_database

pytestmark = pytest.mark.both_databases

OWNER = """
import asyncio, sys
from tests.payments.ledger.transfers import reserve
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.config.settings import Settings
from tollhouse.storage.database import open_database

async def main():
    settings = Settings(database_url=sys.argv[1])
    ledger = await open_ledger(settings, open_database(settings))
    for nonce in ("1", "2"):
        await reserve(ledger, nonce)
    print("reserved", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def owner(database_url, ledger):
    """Another process that has reserved twice for `agent:a` and goes on living."""
    started = []

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", OWNER, database_url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
        started.append(process)
        assert process.stdout.readline().strip() == "reserved"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


async def test_reservations_of_a_living_process_are_left_alone_and_those_of_a_dead_one_released(ledger, owner):
    await ledger.move(deposit("1", 5 * PRICE))
    await reserve(ledger, "mine")
    process = await asyncio.to_thread(owner)
    assert await ledger.recover() == 0
    assert (await ledger.account("agent:a")).reserved_micros == 3 * PRICE
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert await released(ledger) == 2
    assert await ledger.recover() == 0
    await ledger.post("call:agent:a:mine", ANSWER)
    account = await ledger.account("agent:a")
    assert (account.balance_micros, account.reserved_micros) == (4 * PRICE, 0)
    assert isinstance(await reserve(ledger, "1"), Reserved)
    assert (await ledger.verify()).balanced


async def released(ledger):
    """How many, once there are any: PostgreSQL takes a moment to see that a client was killed."""
    counts: list[int] = []

    async def is_any() -> bool:
        counts.append(await ledger.recover())
        return counts[-1] > 0

    await until(is_any)
    return counts[-1]


async def test_opening_a_ledger_releases_what_a_dead_process_left(open_another, owner):
    ledger = await open_another()
    await ledger.move(deposit("1", 5 * PRICE))
    process = await asyncio.to_thread(owner)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(100):
        another = await open_another()
        if not (await another.account("agent:a")).reserved_micros:
            break
        await asyncio.sleep(0.05)
    assert (await another.verify()).pending == 0


async def test_two_living_ledgers_never_release_each_others_reservations(open_another):
    ledgers = [await open_another() for _ in range(2)]
    await ledgers[0].move(deposit("1", 100 * PRICE))

    async def call(number) -> None:
        ledger = ledgers[number % 2]
        assert isinstance(await reserve(ledger, str(number)), Reserved)
        await asyncio.sleep(0.01)
        await ledger.post(f"call:agent:a:{number}", ANSWER)

    async def recover() -> int:
        return sum([await ledgers[turn % 2].recover() for turn in range(20)])

    released_count, *_ = await asyncio.gather(recover(), *(call(number) for number in range(100)))
    assert released_count == 0
    assert (await ledgers[0].account("agent:a")).posted_count == 100


async def test_closed_ledger_counts_as_dead(open_another, database_url):
    ledger = await open_another()
    await ledger.move(deposit("1", 5 * PRICE))
    settings = Settings(database_url=database_url)
    database = open_database(settings)
    leaving = await open_ledger(settings, database)
    await reserve(leaving, "1")
    await leaving.close()
    await database.close()
    assert await released(ledger) == 1


async def test_reservation_voided_meanwhile_cannot_be_posted(open_another):
    ledger, other = await open_another(), await open_another()
    await ledger.move(deposit("1", PRICE))
    await reserve(ledger, "1")
    await other.void("call:agent:a:1")
    with pytest.raises(ReservationGoneError):
        await ledger.post("call:agent:a:1", ANSWER)
    assert (await ledger.account("agent:a")).balance_micros == PRICE


async def test_reservation_whose_caller_gave_up_waiting_is_given_back(ledger, hold_the_ledger):
    await ledger.move(deposit("1", PRICE))
    async with hold_the_ledger():
        reserving = asyncio.create_task(reserve(ledger, "1"))
        await asyncio.sleep(0.05)
        reserving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reserving
    await ledger.sweep()
    assert await ledger.find("call:agent:a:1") is None
    assert (await ledger.account("agent:a")).available_micros == PRICE


async def test_one_who_gives_up_does_not_release_what_another_reserved_under_the_same_id(ledger, hold_the_ledger):
    await ledger.move(deposit("1", PRICE))
    async with hold_the_ledger():
        first, second = (asyncio.create_task(reserve(ledger, "1")) for _ in range(2))
        await asyncio.sleep(0.05)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
    assert isinstance(await first, Reserved)
    await ledger.post("call:agent:a:1", ANSWER)


async def test_reservation_of_ours_that_nobody_here_knows_of_is_released(ledger):
    """Its commit happened, and its caller was told that nobody can tell."""
    await ledger.move(deposit("1", 3 * PRICE))
    await reserve(ledger, "known")
    call = Transfer("call:agent:a:lost", "agent:a", "revenue", PRICE, "call")
    await ledger._store.apply([Reserve(call, b"f", ledger._store.owner, 1_000_000)])
    assert await ledger.recover() == 1
    assert await ledger.find("call:agent:a:lost") is None
    await ledger.post("call:agent:a:known", ANSWER)


async def test_nonce_of_a_charged_call_stays_used(open_another, ledger):
    await ledger.move(deposit("1", PRICE))
    await charge(ledger, "1", answer=None)
    assert await reserve(await open_another(), "1") == Used("posted")
