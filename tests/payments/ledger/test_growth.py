"""What a call, a balance and the operator's pages read in the ledger hardly grows with the stored transfers."""

import asyncio
from itertools import count

import pytest

from tests.storage.work import MOST_EXPONENT, SIZES, database_work, exponents
from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.payments.credit import CALL, SECONDS_PER_DAY, agent_balance, agent_spending
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.ledger.types import (
    REVENUE,
    REVERSAL,
    REVERSALS,
    TREASURY,
    Reserved,
    StoredResponse,
    Transfer,
    agent_account,
)
from tollhouse.storage.database import open_database

pytestmark = pytest.mark.both_databases

MY_CALLS = 20
MINUTE, HOUR, DAY = 60, 3_600, SECONDS_PER_DAY
RESPONSE = StoredResponse(200, "application/json", b"{}")
MINE = agent_account("me")


async def call(ledger, name, agent, response=None):
    assert isinstance(await ledger.reserve(name, agent, REVENUE, 10, CALL, b"f", {"service": "a"}), Reserved)
    await ledger.post(name, response)


async def fill(ledger, size, monkeypatch):
    """Calls of other wallets this morning, my own of the months before, and some of mine at noon; some reversals."""
    now = clock.seconds() // SECONDS_PER_DAY * SECONDS_PER_DAY + SECONDS_PER_DAY / 2
    agents = [agent_account(f"{number}") for number in range(size // 10)]
    for agent in (MINE, *agents):
        await ledger.move(Transfer(f"deposit:{agent}", TREASURY, agent, 10**9, "deposit"))
    for part in range(0, size, 250):
        monkeypatch.setattr(clock, "seconds", lambda part=part: now - 100 * SECONDS_PER_DAY + part)
        await asyncio.gather(*(call(ledger, f"old:{part + n}", MINE) for n in range(125)))
    for part in range(0, size, 250):
        monkeypatch.setattr(clock, "seconds", lambda part=part: now - 10_000 + part)
        await asyncio.gather(*(call(ledger, f"call:{part + n}", agents[n % len(agents)]) for n in range(250)))
        reversals = (Transfer(f"reversal:{part + n}", agents[n], REVERSALS, 1, REVERSAL) for n in range(25))
        await asyncio.gather(*map(ledger.move, reversals))
    monkeypatch.setattr(clock, "seconds", lambda: now)
    for number in range(MY_CALLS):
        await call(ledger, f"mine:{number}", MINE)
    await ledger.move(Transfer("reversal:mine", MINE, REVERSALS, 1, REVERSAL))


async def work_by_operation(url, size, monkeypatch):
    """The least that each operation reads, of several times."""
    database = open_database(Settings(database_url=url))
    numbers = count()
    async with database_work(monkeypatch, url) as work:
        ledger = await open_ledger(Settings(database_url=url), database)
        await fill(ledger, size, monkeypatch)
        while await ledger.sum_up():
            pass
        await work.analyze()
        now = int(clock.seconds())
        minute, day = now - now % MINUTE, now - now % DAY

        async def held(outcome) -> None:
            name = f"held:{next(numbers)}"
            await ledger.reserve(name, MINE, REVENUE, 10, CALL, b"f")
            await outcome(name)

        async def deposited() -> None:
            await ledger.move(Transfer(f"deposit:{next(numbers)}", TREASURY, MINE, 10, "deposit"))

        operations = {
            "balance": lambda: agent_balance(ledger, "me"),
            "spending of a day": lambda: agent_spending(ledger, "me", int(now) // SECONDS_PER_DAY),
            "account": lambda: ledger.account(REVENUE),
            "newest of a wallet": lambda: ledger.recent(50, MINE),
            "newest": lambda: ledger.recent(50),
            "find": lambda: ledger.find("mine:3"),
            "kinds": ledger.kinds,
            "an hour of a statement": lambda: ledger.between(CALL, now - 60, now + 60),
            "new transfers of a kind": lambda: ledger.transfers(CALL, now - 60),
            "hold and settle": lambda: call(ledger, f"new:{next(numbers)}", MINE),
            "hold and settle with a response": lambda: call(ledger, f"new:{next(numbers)}", MINE, RESPONSE),
            "hold and give back": lambda: held(ledger.void),
            "hold and release": lambda: held(ledger.release),
            "deposit": deposited,
            "revenue of 35 days": lambda: ledger.sums(REVENUE, CALL, day - 34 * DAY, day + DAY, DAY),
            "revenue of an hour": lambda: ledger.sums(REVENUE, CALL, minute - HOUR, minute + MINUTE, MINUTE),
            "what a wallet paid": lambda: ledger.sums(MINE, CALL, day - 100 * DAY, day + DAY, DAY),
            "new sums": ledger.sum_up,
            "recover": ledger.recover,
            "sweep": ledger.sweep,
            "audit": ledger.verify,
        }  # fmt: skip
        least = {}
        for name, operation in operations.items():
            counts = []
            for _ in range(4):
                before = await work.read()
                await operation()
                counts.append(await work.read() - before)
            least[name] = min(counts)
        balance = await agent_balance(ledger, "me")
        assert balance.deposited_micros == 10**9 + 4 * 10 - 1
        await ledger.close()
    await database.close()
    return least


@pytest.mark.timeout(240)
async def test_operations_read_hardly_more_of_more_transfers(new_database, tmp_path, monkeypatch):
    counts = [await work_by_operation(new_database(tmp_path / str(size)), size, monkeypatch) for size in SIZES]
    growth = exponents(counts)
    assert growth.pop("audit") > 0.8, "counting shows an operation that reads every transfer"
    assert {name: round(power, 2) for name, power in growth.items() if power > MOST_EXPONENT} == {}, counts
