import asyncio
import contextlib
import random
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Self

import asyncpg
import pytest

from tests.payments.ledger.transfers import ANSWER, PRICE, charge, deposit, reserve
from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.payments.ledger import postgres_store, sqlite_store
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.ledger.types import Move, ReservationGoneError, Reserved, Transfer
from tollhouse.storage.database import open_database

pytestmark = pytest.mark.both_databases


@contextlib.asynccontextmanager
async def opened(url):
    settings = Settings(database_url=url)
    database = open_database(settings)
    ledger = await open_ledger(settings, database)
    try:
        yield ledger
    finally:
        await ledger.close()
        await database.close()


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/tollhouse.db"


@pytest.mark.parametrize(
    ("fault", "cure"),
    [("max_page_count=1", "max_page_count=1000000"), ("query_only=ON", "query_only=OFF")],
    ids=["disk full", "read-only"],
)
async def test_sqlite_that_cannot_be_written_is_a_clear_problem_and_no_more(sqlite_url, fault, cure):
    async with opened(sqlite_url) as ledger:
        await ledger.move(deposit("1", 9 * PRICE))
        await reserve(ledger, "1")
        ledger._store._writer.execute(f"PRAGMA {fault}")
        big = {"note": "x" * 4_000}
        moves = [ledger.move(deposit(f"more-{number}", PRICE, memo=big)) for number in range(20)]
        outcomes = await asyncio.gather(*moves, return_exceptions=True)
        assert {getattr(outcome, "code", None) for outcome in outcomes} == {"storage-unavailable"}
        ledger._store._writer.execute(f"PRAGMA {cure}")
        await ledger.post("call:agent:a:1", ANSWER)
        assert (await ledger.account("agent:a")).balance_micros == 8 * PRICE
        assert (await ledger.verify()).balanced


async def test_ledger_held_by_another_process_for_too_long_is_a_clear_problem(ledger, hold_the_ledger, monkeypatch):
    monkeypatch.setattr(postgres_store, "RETRY_SECONDS", 0.2)
    monkeypatch.setattr(sqlite_store, "BUSY_TIMEOUT_SECONDS", 0.2)
    if hasattr(ledger._store, "_readers"):
        ledger._store._writer._config = ledger._store._writer._config._replace(command_timeout=0.2)
    async with hold_the_ledger():
        with pytest.raises(Problem) as problem:
            await asyncio.wait_for(ledger.move(deposit("1", PRICE)), 30)
        assert problem.value.code == "storage-unavailable"
        assert problem.value.facts == {"retry_after_seconds": 5}
    assert (await ledger.move(deposit("1", PRICE))).is_new


async def test_damaged_file_is_a_clear_problem(sqlite_url, tmp_path):
    async with opened(sqlite_url) as ledger:
        await ledger.move(deposit("1", PRICE))
    (tmp_path / "ledger.db").write_bytes(b"no database at all" * 1_000)
    with pytest.raises(Problem, match="storage"):
        async with opened(sqlite_url):
            pass


async def test_mistake_in_one_operation_does_not_fail_its_neighbours(ledger, hold_the_ledger):
    wrong = Transfer("wrong", "treasury", "agent:a", 2**70, "deposit")
    async with hold_the_ledger():
        blocking = asyncio.create_task(ledger.move(deposit("0", PRICE)))
        await asyncio.sleep(0.05)
        good = [asyncio.create_task(ledger.move(deposit(str(number), PRICE))) for number in range(1, 5)]
        bad = ledger._batcher.submit(Move(wrong, 1, 1))
    assert all(moved.is_new for moved in await asyncio.gather(blocking, *good))
    with pytest.raises((OverflowError, asyncpg.DataError)):
        await bad
    assert (await ledger.account("agent:a")).balance_micros == 5 * PRICE
    assert (await ledger.verify()).balanced


async def test_rows_of_the_book_cannot_be_changed_by_hand(ledger, sql):
    await ledger.move(deposit("1", PRICE))
    await charge(ledger, "1")
    for statement in (
        "UPDATE transfer SET amount = 1",
        "DELETE FROM transfer",
        "UPDATE resolution SET state = 'voided'",
        "DELETE FROM resolution",
    ):
        with pytest.raises((sqlite3.IntegrityError, asyncpg.RaiseError), match="never changed"):
            await sql(statement)


@pytest.mark.parametrize(
    ("tampering", "finding"),
    [
        ("UPDATE account SET balance = balance + 1 WHERE name = 'agent:a'", "balances add up to 1 "),
        ("UPDATE account SET posted_count = 9 WHERE name = 'agent:a'", "posted_count is 9, its transfers give 1"),
        ("UPDATE account SET last_at = 1 WHERE name = 'revenue'", "revenue: last_at is 1.0"),
        ("DELETE FROM account WHERE name = 'treasury'", "treasury: balance_micros is 0, its transfers give -"),
        ("INSERT INTO resolution VALUES (999, 'posted', 1, NULL)", "999 is resolved and there is no such reservation"),
        ("INSERT INTO resolution VALUES (1, 'posted', 1, NULL)", "1 is resolved and there is no such reservation"),
        ("DELETE FROM open_reservation", "call:agent:a:open is pending and not listed as open"),
        ("INSERT INTO open_reservation VALUES (1, '')", "1 is listed as open and not pending"),
        (
            "INSERT INTO transfer VALUES (50, 'x', 'agent:a', 'revenue', 9000000, 'x', NULL, 1, '0', 1, 1)",
            "agent:a: balance_micros is ",
        ),
    ],
)
async def test_audit_finds_what_was_tampered_with(ledger, sql, tampering, finding, database_url):
    if not database_url.startswith("sqlite"):
        # There the accounts that may go below zero stand in parts, and open reservations in a table of their own.
        tampering = tampering.replace("open_reservation", "pending_reservation")
        if "'agent:a'" not in tampering:
            tampering = tampering.replace("account", "account_part")
    await ledger.move(deposit("1", 5 * PRICE))
    await charge(ledger, "1")
    await reserve(ledger, "open")
    assert (await ledger.verify()).balanced
    await sql(tampering)
    report = await ledger.verify()
    assert not report.balanced
    assert any(finding in difference for difference in report.differences), report.differences


# What the server says when a batch is committed and the next one may come.
READY = b"Z\x00\x00\x00\x05I"


class Proxy:
    """A wire to PostgreSQL that can be cut: at once, for good, or right after the server has committed."""

    def __init__(self, port) -> None:
        self.server_port, self.port = port, 0
        self.loses_commits = self.is_cut = False
        self.lost = 0
        self._wires = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._wires, return_exceptions=True)

    def cut(self):
        for wire in self._wires:
            wire.cancel()

    async def _serve(self, reader, writer) -> None:
        task = asyncio.current_task()
        self._wires.add(task)
        try:
            if not self.is_cut:
                await self._carry(reader, writer)
        except (asyncio.CancelledError, OSError):
            pass
        finally:
            self._wires.discard(task)
            writer.close()

    async def _carry(self, reader, writer) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        back = asyncio.create_task(self._back(far_reader, writer))
        try:
            while chunk := await reader.read(65_536):
                if self.loses_commits and b"agent:a" in chunk:
                    self.loses_commits = False
                    back.cancel()
                    await asyncio.wait([back])
                    far_writer.write(chunk)
                    await far_reader.readuntil(READY)
                    self.lost += 1
                    return
                far_writer.write(chunk)
        finally:
            back.cancel()
            far_writer.close()

    async def _back(self, far_reader, writer) -> None:
        with contextlib.suppress(OSError):
            while chunk := await far_reader.read(65_536):
                writer.write(chunk)
            writer.close()


@pytest.fixture
async def proxy(postgres_url):
    async with Proxy(int(postgres_url.rpartition("/")[0].rpartition(":")[2])) as proxy:
        yield proxy


@pytest.fixture
async def through_proxy(proxy, postgres_url):
    async with opened(postgres_url.replace(f":{proxy.server_port}/", f":{proxy.port}/")) as ledger:
        yield ledger


async def test_commit_whose_answer_was_lost_happened_exactly_once(through_proxy, proxy):
    ledger = through_proxy
    proxy.loses_commits = True
    assert (await ledger.move(deposit("1", 9 * PRICE))).is_new
    proxy.loses_commits = True
    assert isinstance(await reserve(ledger, "1"), Reserved)
    proxy.loses_commits = True
    await ledger.post("call:agent:a:1", ANSWER)
    proxy.loses_commits = True
    assert isinstance(await reserve(ledger, "2"), Reserved)
    proxy.loses_commits = True
    await ledger.void("call:agent:a:2")
    assert proxy.lost == 5
    account = await ledger.account("agent:a")
    assert (account.balance_micros, account.reserved_micros, account.posted_count) == (8 * PRICE, 0, 1)
    assert (await ledger.verify()).balanced


async def test_database_out_of_reach_is_a_clear_problem_and_leaves_nothing_reserved(through_proxy, proxy, monkeypatch):
    monkeypatch.setattr(postgres_store, "RETRY_SECONDS", 0.3)
    ledger = through_proxy
    await ledger.move(deposit("1", PRICE))
    proxy.is_cut = True
    proxy.cut()
    with pytest.raises(Problem) as problem:
        await reserve(ledger, "1")
    assert problem.value.code == "storage-unavailable"
    with pytest.raises(Problem):
        await ledger.account("agent:a")
    proxy.is_cut = False
    assert (await ledger.account("agent:a")).available_micros == PRICE
    assert isinstance(await reserve(ledger, "2"), Reserved)


async def test_every_batch_is_durable_although_the_server_would_not_wait_for_the_disk(postgres_url):
    name = postgres_url.rpartition("/")[2]
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await connection.close()
    async with opened(postgres_url) as ledger:
        writer = ledger._store._writer
        assert await writer.fetchval("SHOW synchronous_commit") == "off"
        async with writer.transaction():
            await ledger.move(deposit("1", PRICE))
            assert await writer.fetchval("SHOW synchronous_commit") == "on"


BUSY = """
import asyncio, sys
from itertools import count
from tests.payments.ledger.transfers import charge, deposit
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.config.settings import Settings
from tollhouse.storage.database import open_database

async def main():
    settings = Settings(database_url=sys.argv[1])
    ledger = await open_ledger(settings, open_database(settings))
    await ledger.move(deposit("busy", 10**12))
    print("busy", flush=True)
    for number in count():
        await charge(ledger, str(number))

asyncio.run(main())
"""


async def test_process_that_is_frozen_within_a_batch_holds_no_lock(postgres_url):
    async with opened(postgres_url) as ledger:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", BUSY, postgres_url, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
        )
        try:
            assert await process.stdout.readline() == b"busy\n"
            for number in range(10):
                await asyncio.sleep(random.Random(number).uniform(0.01, 0.05))
                process.send_signal(signal.SIGSTOP)
                assert (await ledger.move(deposit(f"beside-{number}", PRICE))).is_new
                held = (
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE '% in %'"
                )
                assert (await ledger._store._read(held))[0][0] == 0
                process.send_signal(signal.SIGCONT)
        finally:
            process.kill()
            await process.wait()
        assert (await ledger.verify()).balanced


async def test_machine_that_vanishes_is_noticed_within_seconds(postgres_url):
    async with opened(postgres_url) as ledger:
        shown = {
            name: await ledger._store._writer.fetchval(f"SHOW {name}")
            for name in ("idle_in_transaction_session_timeout", "tcp_user_timeout", "tcp_keepalives_idle")
        }
    assert shown == {
        "idle_in_transaction_session_timeout": "2min", "tcp_user_timeout": "10000", "tcp_keepalives_idle": "4"
    }  # fmt: skip


async def test_process_that_lost_its_connection_posts_what_nobody_released(through_proxy, proxy):
    await through_proxy.move(deposit("1", PRICE))
    await reserve(through_proxy, "1")
    proxy.cut()
    await through_proxy.post("call:agent:a:1", ANSWER)
    assert (await through_proxy.account("agent:a")).posted_count == 1


async def test_process_that_lost_its_connection_cannot_post_what_was_released_meanwhile(
    through_proxy, proxy, postgres_url
):
    await through_proxy.move(deposit("1", PRICE))
    await reserve(through_proxy, "1")
    async with opened(postgres_url) as other:
        proxy.cut()
        await until(other.recover)
        with pytest.raises(ReservationGoneError):
            await through_proxy.post("call:agent:a:1", ANSWER)
        assert (await other.account("agent:a")).balance_micros == PRICE


async def test_backends_terminated_again_and_again_lose_and_double_nothing(postgres_url):
    async with opened(postgres_url) as ledger:
        await ledger.move(deposit("0", 10_000 * PRICE))
        killing = asyncio.create_task(_terminate_again_and_again(postgres_url, times=20))

        async def work(number) -> None:
            assert (await ledger.move(deposit(str(number), 100))).is_new
            await charge(ledger, str(number))

        done = 0
        while not killing.done() and done < 10_000:
            await asyncio.gather(*(work(number) for number in range(done + 1, done + 21)))
            done += 20
        assert await killing >= 10
        account = await ledger.account("agent:a")
        assert account.total_in_micros == 10_000 * PRICE + done * 100
        assert (account.total_out_micros, account.posted_count) == (done * PRICE, done)
        report = await ledger.verify()
        assert report.balanced, report.differences


async def _terminate_again_and_again(url, times) -> int:
    """Tells how many connections were ended."""
    moments = random.Random(1)
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    ended = 0
    try:
        for _ in range(times):
            await asyncio.sleep(moments.uniform(0.05, 0.4))
            ended += await connection.fetchval(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    finally:
        connection.terminate()
    return ended


async def test_files_of_the_dead_do_not_pile_up(sqlite_url, tmp_path):
    async with opened(sqlite_url):
        assert len(living(tmp_path)) == 1
    assert living(tmp_path) == []


def living(folder):
    return list((folder / "ledger-owners").iterdir())
