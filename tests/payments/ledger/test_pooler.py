"""Behind a pooler in transaction mode, where each transaction has another session, everything works."""

import asyncio

import pytest

from tests.payments.ledger.transfers import ANSWER, PRICE, charge, deposit, reserve
from tests.servers.pooler import TransactionPooler
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import Ledger, open_ledger
from tollhouse.payments.ledger.postgres_store import READERS
from tollhouse.payments.ledger.types import ReservationGoneError, Used
from tollhouse.storage.database import CONNECTIONS, Database, open_database

pytestmark = pytest.mark.both_databases


@pytest.fixture
async def pooler(postgres_url):
    async with TransactionPooler(int(postgres_url.rpartition("/")[0].rpartition(":")[2])) as pooler:
        yield pooler


@pytest.fixture
async def open_pooled(pooler, postgres_url):
    opened = []

    async def another() -> tuple[Ledger, Database]:
        settings = Settings(database_url=pooler.url(postgres_url))
        database = open_database(settings)
        opened.append(database)
        opened.append(await open_ledger(settings, database))
        return opened[-1], database

    yield another
    for one in reversed(opened):
        await one.close()


async def test_ledgers_behind_a_pooler_charge_each_call_once(open_pooled, pooler):
    (first, _), (second, _) = await open_pooled(), await open_pooled()
    for agent in ("agent:a", "agent:b"):
        await first.move(deposit(agent, 100 * PRICE, agent))

    async def call(number) -> None:
        ledger = (first, second)[number % 2]
        await charge(ledger, str(number), ("agent:a", "agent:b")[number // 2 % 2])

    before = pooler.transactions
    recovered, *_ = await asyncio.gather(second.recover(), *(call(number) for number in range(100)))
    assert recovered == 0
    assert pooler.transactions > before
    assert [(await first.account(name)).posted_count for name in ("agent:a", "agent:b", "revenue")] == [50, 50, 100]
    assert await reserve(second, "0") == Used("posted", ANSWER)
    await first.sweep()
    assert (await second.verify()).balanced


async def test_reservation_is_released_once_the_lease_of_its_process_has_expired(open_pooled):
    (first, _), (second, _) = await open_pooled(), await open_pooled()
    await first.move(deposit("1", PRICE))
    await reserve(first, "1")
    # The session is the pooler's: only the lease shows whether the process lives.
    assert await second.recover() == 0
    first._store._renewing.cancel()
    await second._store._read("UPDATE ledger_process SET expires_at = now() WHERE owner = $1", first._store.owner)
    assert await second.recover() == 1
    with pytest.raises(ReservationGoneError):
        await first.post("call:agent:a:1", ANSWER)
    assert (await second.account("agent:a")).available_micros == PRICE


async def test_transactions_leases_and_turns_work_behind_a_pooler(open_pooled, tmp_path):
    (_, first), (_, second) = await open_pooled(), await open_pooled()
    async with first.leading("work", tmp_path) as leads, second.leading("work", tmp_path) as too:
        assert (leads, too) == (True, False)
    async with second.turn("work", tmp_path), second.writing(lock="work") as connection:
        await connection.exec_driver_sql("CREATE TABLE pooled (id INTEGER PRIMARY KEY)")
    await asyncio.gather(*(_insert(database, n) for n in range(20) for database in (first, second)[n % 2 : n % 2 + 1]))
    async with first.reading() as connection:
        assert (await connection.exec_driver_sql("SELECT count(*) FROM pooled")).scalar() == 20


async def test_process_opens_at_most_eight_connections(postgres_url):
    settings = Settings(database_url=postgres_url)
    database = open_database(settings)
    ledger = await open_ledger(settings, database)

    async def read() -> None:
        async with database.reading() as connection:
            await connection.exec_driver_sql("SELECT pg_sleep(0.1)")

    async def count() -> int:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        return (await ledger._store._read(query))[0][0]

    counts, *_ = await asyncio.gather(
        asyncio.gather(*(count() for _ in range(50))),
        *(read() for _ in range(30)),
        *(ledger.move(deposit(str(number), PRICE)) for number in range(30)),
    )
    await ledger.close()
    await database.close()
    assert max(counts) == CONNECTIONS + READERS + 1 == 8


async def _insert(database, number) -> None:
    async with database.writing() as connection:
        await connection.exec_driver_sql("INSERT INTO pooled VALUES ($1)", (number,))
