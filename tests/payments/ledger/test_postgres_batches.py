"""The function in PostgreSQL does what the rules in Python do: the same random batches, on both, to the same end."""

import asyncio
import random
import zlib
from collections import Counter

import asyncpg
import pytest

from tests.payments.ledger.transfers import deposit, reserve
from tests.waiting import until
from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.ledger.postgres_store import CALL, Batch
from tollhouse.payments.ledger.types import (
    RESPONSE_TTL_SECONDS,
    Delivered,
    Move,
    Moved,
    Post,
    Release,
    Reserve,
    StoredResponse,
    Sweep,
    Transfer,
    Used,
    Void,
)
from tollhouse.storage.database import open_database

pytestmark = pytest.mark.both_databases

# Names of locks of the version before.
BATCH_LOCK, OLD_OWNERS = zlib.crc32(b"ledger"), zlib.crc32(b"ledger-owners") >> 1
SEEDS, BATCHES = 12, 25
OTHERS = ("treasury", "revenue", "reversals", "x402")
ANSWERS = [StoredResponse(200, "text/plain", b"x" * size, etag=f'"{size}"') for size in (0, 1, 3_000)]


class Commands:
    """Random commands with few ids, accounts and little money, so that each refusal happens often."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.agents = [f"agent:{name}{seed}" for name in "abc"]
        self.number = 0
        self.made: list[tuple[str, tuple[int, int]]] = []

    def batch(self):
        size = self.random.choice((1, 1, 2, 5, 20, 60))
        return [self.command() for _ in range(size)]

    def command(self):
        make = self.random.choices(
            (self.move, self.reserve, self.post, self.void, self.release, self.delivered, self.sweep),
            (20, 30, 25, 5, 8, 8, 1),
        )[0]
        return make()

    def origin(self):
        """A new one, or that of a command whose outcome was not known."""
        if self.made and self.random.random() < 0.1:
            return self.random.choice(self.made)[1]
        self.number += 1
        return 1, self.number

    def move(self):
        number = self.random.randrange(200)
        kind = ("deposit", "deposit", "deposit", "fee", "reversal", "x402", "deposit")[number % 7]
        agent = self.agents[number % 3]
        debit, credit = {
            "deposit": ("treasury", agent), "fee": (agent, "revenue"), "reversal": (agent, "reversals"),
            "x402": ("x402", "revenue"),
        }[kind]  # fmt: skip
        # Now and then another content, or the id of a reservation.
        amount = 10 + number if self.random.random() < 0.9 else self.random.randint(1, 99)
        transfer_id = f"{kind}:{self.seed}:{number}" if self.random.random() < 0.95 else self.call_id()
        memo = {"block": number} if number % 5 else None
        origin = self.origin()
        self.made.append((transfer_id, origin))
        return Move(Transfer(transfer_id, debit, credit, amount, kind, memo), *origin)

    def call_id(self):
        number = self.random.randrange(200)
        return f"call:{self.agents[number % 3]}:{number}"

    def reserve(self):
        transfer_id = self.call_id()
        agent = transfer_id.partition(":")[2].rpartition(":")[0]
        # One agent pays another, too.
        credit = "revenue" if self.random.random() < 0.9 else next(name for name in self.agents if name != agent)
        origin = self.origin()
        self.made.append((transfer_id, origin))
        transfer = Transfer(transfer_id, agent, credit, self.random.randint(1, 40), "call", {"path": transfer_id})
        return Reserve(transfer, self.random.choice((b"f", b"g")), *origin)

    def post(self):
        transfer_id, origin = self.some_reservation()
        amount = self.random.choice((None, None, None, 1, 10, 1_000))
        return Post(transfer_id, self.random.choice((None, *ANSWERS)), origin, amount)

    def void(self):
        return Void(self.some_reservation()[0])

    def release(self):
        return Release(*self.some_reservation())

    def delivered(self):
        return Delivered(self.some_reservation()[0])

    def sweep(self):
        return Sweep(clock.seconds() - self.random.choice((0, RESPONSE_TTL_SECONDS)))

    def some_reservation(self):
        """An id with the origin that made it, with another one, or with none; mostly a recent one."""
        if not self.made or self.random.random() < 0.1:
            return self.call_id(), None
        transfer_id, origin = self.random.choice(self.made[-self.random.choice((3, 10, 10_000)) :])
        return transfer_id, self.random.choice((origin, origin, None, self.random.choice(self.made)[1]))


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def both(tmp_path, postgres_url):
    """A ledger on SQLite, where the rules in Python decide, and one on PostgreSQL."""
    opened = []
    for url in (f"sqlite:///{tmp_path}/tollhouse.db", postgres_url):
        settings = Settings(database_url=url)
        database = open_database(settings)
        opened += [await open_ledger(settings, database), database]
    yield opened[0], opened[2]
    for one in opened:
        await one.close()


async def accounts_of(ledger, commands):
    return [await ledger.account(name) for name in (*commands.agents, *OTHERS)]


async def state_of(ledger):
    store = ledger._store
    responses = [len(await store._read("SELECT 1 FROM kept")), await store._read("SELECT hash, body FROM kept_body")]
    responses[1] = sorted((bytes(digest), bytes(body)) for digest, body in responses[1])
    transfers = sorted(await ledger.recent(10_000), key=lambda one: one.id)
    pending = [(one.transfer.id, one.owner, one.number, bytes(one.fingerprint)) for one in await store.pending()]
    return transfers, sorted(pending), responses


async def test_any_batches_have_the_results_and_the_balances_of_the_rules(both, monkeypatch):
    rules, function = both
    time = Time()
    monkeypatch.setattr(clock, "seconds", time)
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        commands = Commands(seed)
        for _ in range(BATCHES):
            time.now += commands.random.choice((0.0, 0.5, 60.0, 60.0, RESPONSE_TTL_SECONDS))
            batch = commands.batch()
            expected = await rules._store.apply(batch)
            assert await function._store.apply(batch) == expected
            assert await accounts_of(function, commands) == await accounts_of(rules, commands)
            for ledger in both:
                await ledger.sum_up()
            seen.update(type(result).__name__ for result in expected)
            seen["answered again"] += sum(isinstance(one, Used) and one.response is not None for one in expected)
            seen["moved before"] += sum(isinstance(one, Moved) and not one.is_new for one in expected)
        assert await state_of(function) == await state_of(rules)
    for ledger in both:
        report = await ledger.verify()
        assert report.balanced, report.differences
    kinds = {"Moved", "Reserved", "Insufficient", "Used", "IdTaken", "Overdrawn", "Done", "Gone"}
    assert min(seen[kind] for kind in (*kinds, "answered again", "moved before")) >= 10, seen


# A reservation as a server of the version before makes it: numbered without the sequence, under a session's lock.
OWNER = 77
FORMER_BATCH = f"""
    SELECT pg_advisory_lock({OLD_OWNERS}, {OWNER});
    BEGIN;
    SELECT pg_advisory_xact_lock({BATCH_LOCK});
    INSERT INTO transfer SELECT max(seq) + n, 'call:agent:a:' || n, 'agent:a', 'revenue', 1000, 'call', NULL, 1, TRUE,
        {OWNER}, n FROM transfer, generate_series(1, 3) AS n GROUP BY n;
    INSERT INTO open_reservation SELECT seq, 'f' FROM transfer WHERE owner = {OWNER};
    UPDATE account SET reserved = reserved + 3000 WHERE name = 'agent:a';
    COMMIT"""  # noqa: S608 - numbers of our own


async def test_server_of_the_version_before_may_write_between_batches(both, postgres_url):
    _, ledger = both
    await ledger.move(deposit("1", 10_000))
    former = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    await former.execute(FORMER_BATCH)
    # It lives, and its numbers are not taken again.
    assert await ledger.recover() == 0
    for number in range(5):
        assert (await ledger.move(deposit(f"after-{number}", 1))).is_new
    assert (await ledger.verify()).pending == 3
    await former.close()
    await until(ledger.recover)
    account = await ledger.account("agent:a")
    assert (account.balance_micros, account.reserved_micros) == (10_005, 0)
    report = await ledger.verify()
    assert report.balanced, report.differences


async def test_server_of_the_version_before_does_not_see_the_reservations_of_this_one(both, postgres_url):
    _, ledger = both
    await ledger.move(deposit("1", 10_000))
    await reserve(ledger, "1", price=1_000)
    former = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    assert await former.fetchval("SELECT count(*) FROM open_reservation") == 0
    await former.close()
    assert (await ledger.verify()).pending == 1


async def test_batch_that_is_not_committed_yet_is_in_the_sums_afterwards(both, postgres_url):
    _, ledger = both
    await ledger.move(deposit("1", 10))
    slow = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    transaction = slow.transaction()
    await transaction.start()
    batch = Batch([Move(deposit("slow", 100, "agent:b"), 1, 1)])
    await slow.fetch(CALL, *batch.arguments(900, clock.seconds(), set()))
    await ledger.move(deposit("2", 1_000))
    summing = asyncio.create_task(ledger.sum_up())
    await asyncio.wait({summing}, timeout=0.2)
    assert not summing.done()
    await transaction.commit()
    assert await summing
    await slow.close()
    sums = await ledger.sums("treasury", "deposit", 0, 2**40 * 60, 60)
    assert sum(one.micros for one in sums) == 1_110
    assert not await ledger.sum_up()
    report = await ledger.verify()
    assert report.balanced, report.differences
