"""Seeded schedules of crashes in calls with a key, signed calls, payments and deposits together, thousands of them.

One seed decides who sends what how often, how many processes serve, and where each of them dies. A process is forked
from one that has imported everything and calls the server without a socket, so that a schedule takes a few seconds.
Some of the operations are those of an upstream, a process of its own that is killed in the middle of its answers.
`python -m tests.payments.crashes.schedules --seeds 1000` plays them on SQLite, with `--postgres` on PostgreSQL.
"""

import argparse
import asyncio
import contextlib
import gc
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Container, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from tests.payments.crashes import upstream
from tests.payments.crashes.checks import (
    BEGAN,
    CUT,
    GAVE_UP,
    Answer,
    Charges,
    differences,
    is_final,
    is_of_upstream,
)
from tests.payments.crashes.in_process_server import MUTANTS, PAGE_MICROS, open_server, shift_clock
from tests.payments.crashes.plan import Attempt, House, Plan, Planner, new_account
from tests.payments.x402.signed_payments import authorization, signature
from tests.servers import shared
from tests.servers.postgres import postgres_databases
from tollhouse import clock, failpoints, logs
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.http.server import ResponseCut
from tollhouse.metering.meter import SECONDS_PER_DAY
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import LocalChain
from tollhouse.payments.ledger.types import agent_account
from tollhouse.payments.x402.reconciliation import reconcile

CALL_MICROS = 10_000
LIVES = 3
AT_ONCE = 10
LEASE_SECONDS = 70.0
"""So much later is each life, so that what the dead held has lapsed."""
LIFE_SECONDS = 90.0
RETRIES = 120
SCHEDULES_PER_DATABASE = 25
MOMENTS = ("before-commit", "after-commit")
PLACES = (
    *(f"ledger.{command}.{moment}" for command in ("move", "reserve", "post", "void",
    "delivered") for moment in MOMENTS),
    "paid-answer.before-send", "paid-answer.after-send", "x402.claimed", "x402.before-settling", "x402.after-settling",
    "x402.after-ledger", "x402.after-settled", "facilitator.before-send", "facilitator.after-send",
)  # fmt: skip
UPSTREAM_DEATHS = 16
DIED = failpoints.EXIT_STATUS


T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class Played(Struct):
    """What a seed came to."""

    seed: int
    crashes: list[str]
    upstream_deaths: int
    wrong: list[str]


class Schedule:
    """One seed on one database."""

    def __init__(
        self, seed: int, folder: Path, database_url: str, chain_url: str, house: House, mutant: str = ""
    ) -> None:
        self.random = random.Random(seed)
        self.folder, self.mutant, self.log = folder, mutant, folder / "log"
        self.base = {"data_dir": str(folder), "database_url": database_url, "evm_rpc_url": chain_url,
                     "log_level": "error",
                     "free_per_ip_per_day": 0, "deposit_confirmations": 1, "workers": 2, "background_work": False,
                     "treasury_address": house.treasury.address, "x402_pay_to": house.seller.address,
                     "x402_facilitator_key": house.relayer.private_key}  # fmt: skip
        self.house = house
        self.crashes: list[str] = []
        self.crashed: set[int] = set()
        self.upstream_deaths = 0
        self.upstream_port = shared.free_port()

    def play(self) -> list[str]:
        """The schedule to its end; what is wrong with the money, in sentences."""
        plan = msgspec.json.decode(self._forked(self._prepare), type=Plan)
        order = [number for number in range(len(plan.attempts)) for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
        self.random.shuffle(order)
        answers: list[Answer] = []
        left: list[int] = []
        with self._upstream():
            for life in range(LIVES + 1):
                interrupted = {*left}
                left += order[life * len(order) // LIVES : (life + 1) * len(order) // LIVES]
                got = self._live(plan, life, left, interrupted)
                answers += got
                final = Counter(answer.attempt for answer in got if is_final(answer.status, answer.body))
                left = [number for number in left if not _take(final, number)]
        wrong = [f"{plan.attempts[number].kind} was never answered" for number in left]
        return wrong + msgspec.json.decode(self._forked(partial(self._audit, plan, answers)), type=list[str])

    @contextlib.contextmanager
    def _upstream(self) -> Iterator[None]:
        """The upstream, which dies in some of its answers."""
        deaths = [(self.random.randint(1, 4), self.random.choice(upstream.DEATHS)) for _ in range(UPSTREAM_DEATHS)]
        journal = self.folder / "upstream-deaths"
        journal.write_bytes(b"")
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            upstream.run(self.upstream_port, deaths, journal)
        os.setpgid(pid, pid)
        try:
            yield
        finally:
            os.killpg(pid, signal.SIGKILL)
            _waited(pid)
            self.upstream_deaths = len(journal.read_bytes())

    def _live(self, plan: Plan, life: int, left: Sequence[int], interrupted: Container[int]) -> list[Answer]:
        """Serve what is left in one process, or in two that share the database; all but the last life's may die.

        A client of what a crash `interrupted` may have paid, and does not give up.
        """
        journal = self.folder / f"life-{life}"
        processes = 2 if self.random.random() < 0.4 else 1
        places = [
            f"{self.random.choice(PLACES)}:{self.random.choice((1, 1, 2, 3))}" if life < LIVES else ""
            for _ in range(processes)
        ]
        seeds = [self.random.random() for _ in places]
        shift = life * LEASE_SECONDS
        children = {}
        for number, place in enumerate(places):
            own = left[number::processes]
            served = partial(self._serve, plan, own, interrupted, journal, place, seeds[number], shift)
            children[_fork(served, self.log)] = place
        for pid, place in children.items():
            status = _waited(pid)
            assert status in {0, DIED}, f"the process ended with {status}: {self._told()}"
            if status == DIED:
                self.crashes.append(place)
                self.crashed.add(pid)
        lines = journal.read_bytes().splitlines() if journal.exists() else []
        return [msgspec.json.decode(line, type=Answer) for line in lines]

    async def _prepare(self) -> bytes:
        chain = LocalChain(self.base["evm_rpc_url"])
        await chain.request("anvil_setBalance", self.house.relayer.address, hex(10**20))
        async with open_context(self._settings(), answers_calls=False) as context:
            plan = await Planner(self.random, self.house).plan(context, chain)
        await chain.client.close()
        return msgspec.json.encode(plan)

    async def _serve(
        self, plan: Plan, left: Sequence[int], interrupted: Container[int], journal: Path, place: str, seed: float,
        shift: float,
    ) -> None:  # fmt: skip
        """One process: send what is left to a server in it, and write down each answer that leaves it."""
        shift_clock(shift)
        if self.mutant:
            MUTANTS[self.mutant]()
        failpoints.arm(place)
        clients = Clients(os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        waiting = list(left)
        random.Random(seed).shuffle(waiting)
        async with open_server(self._settings(), f"http://127.0.0.1:{self.upstream_port}") as server:

            async def work() -> None:
                while waiting:
                    number = waiting.pop()
                    await clients.send(server, plan.attempts[number], number, may_give_up=number not in interrupted)

            await asyncio.wait_for(asyncio.gather(*(work() for _ in range(AT_ONCE))), LIFE_SECONDS)

    async def _audit(self, plan: Plan, answers: Sequence[Answer]) -> bytes:
        shift_clock((LIVES + 1) * LEASE_SECONDS)
        wrong: list[str] = []
        async with open_context(self._settings()) as context:
            await context.ledger.recover()
            x402 = context.per_request.x402
            assert x402 is not None
            for _ in range(2):
                await x402.recover()
            report = await context.ledger.verify()
            wrong += report.differences
            wrong += [f"{report.pending} reservations are still open"] if report.pending else []
            calls = [one for one in await context.ledger.transfers("call", 0.0) if one.state == "posted"]
            charged = Counter(transfer.id.split(":")[2] for transfer in calls)
            paid = Counter(transfer.id.split(":")[2] for transfer in await context.ledger.transfers("x402", 0.0))
            booked = await reconcile(_client(context), context.ledger)
            wrong += booked.differences
            assert context.deposits is not None
            credited = await context.deposits.reconcile()
            wrong += credited.differences
            chain = LocalChain(self.base["evm_rpc_url"])
            earned = await token_balance(chain.client, chain.usdc_address, self.house.seller.address)
            deposited = await token_balance(chain.client, chain.usdc_address, self.house.treasury.address)
            await chain.client.close()
            if earned != PAGE_MICROS * paid.total():
                wrong.append(f"the seller holds {earned} after {paid.total()} payments")
            for owner, agent in enumerate(plan.agents):
                account = await context.ledger.account(agent_account(agent))
                spent = sum(charged[one.about] for one in plan.attempts if one.kind == "call" and one.owner == owner)
                if account.balance_micros != account.total_in_micros - spent * CALL_MICROS:
                    wrong.append(f"wallet {owner} has {account.balance_micros} after {spent} charges")
            if credited.ledger_micros != deposited:
                wrong.append(f"{deposited} were deposited and {credited.ledger_micros} credited")
            holder = await context.keys.holder(plan.key)
            usage = await context.meter.peek(holder.subject, context.plans.windows_of(holder))
            # The count begins anew at midnight.
            is_same_day = (time.time() - 2 * LIFE_SECONDS) // SECONDS_PER_DAY == clock.seconds() // SECONDS_PER_DAY
            charges = Charges(charged, paid, usage.day.used if is_same_day else None)
        return msgspec.json.encode(wrong + differences(plan, answers, charges, self.crashed))

    def _settings(self) -> Settings:
        return Settings(**self.base)

    def _forked(self, work: Work[bytes]) -> bytes:
        """What the work answers, in a process of its own."""
        result = self.folder / "result"

        async def written() -> None:
            result.write_bytes(await work())

        status = _waited(_fork(written, self.log))
        assert status == 0, f"the process ended with {status}: {self._told()}"
        return result.read_bytes()

    def _told(self) -> str:
        return self.log.read_text()[-3_000:]


def _client(context: Any) -> Any:
    return context.per_request.chain


def _take(counted: Counter[int], number: int) -> bool:
    if not counted[number]:
        return False
    counted[number] -= 1
    return True


class Clients:
    """Those who send the attempts. Each answer is written to the journal when its last byte is handed over."""

    def __init__(self, journal: int) -> None:
        self._journal = journal

    async def send(self, server: Any, attempt: Attempt, number: int, *, may_give_up: bool) -> None:
        """Send an attempt until its answer is final."""
        for _ in range(RETRIES):
            if attempt.kind == "keyed":
                self._write(number, BEGAN)
            status, body = await self._exchange(server, attempt, number)
            if is_final(status, body):
                return
            if attempt.gives_up and may_give_up and is_of_upstream(status, body):
                self._write(number, GAVE_UP)
                return
            await asyncio.sleep(0.05)

    async def _exchange(self, server: Any, attempt: Attempt, number: int) -> tuple[int, str]:
        """One request without a socket."""
        told = {"host": "toll.example", **attempt.headers}
        address = f"10.{number}.{os.getpid() // 250 % 250}.{os.getpid() % 250}"
        scope = {"type": "http", "http_version": "1.1", "method": attempt.method, "path": attempt.path,
                 "raw_path": None, "query_string": b"", "scheme": "http", "client": (address, 9),
                 "server": ("127.0.0.1", 80),
                 "headers": [(name.lower().encode(), value.encode()) for name, value in told.items()]}  # fmt: skip
        status, length, body, requested = 0, -1, b"", False

        async def receive() -> dict[str, Any]:
            nonlocal requested
            if requested:
                await asyncio.Event().wait()
            requested = True
            return {"type": "http.request", "body": attempt.body.encode(), "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, length, body
            if message["type"] == "http.response.start":
                status, length = message["status"], int(dict(message["headers"]).get(b"content-length", -1))
                return
            had, body = len(body), body + message.get("body", b"")
            # With these bytes the client has all of it, whatever follows.
            if had < length <= len(body) or (not message.get("more_body") and length != len(body)) or not length:
                self._write(number, status, body.decode())

        try:
            await server.handle(scope, receive, send)
        except ResponseCut:
            self._write(number, CUT)
            return CUT, ""
        return status, body.decode()

    def _write(self, number: int, status: int, body: str = "") -> None:
        os.write(self._journal, msgspec.json.encode(Answer(number, status, body, os.getpid())) + b"\n")


def _fork(work: Work[None], log: Path) -> int:
    """A process that does the work and ends, with the status 1 if it fails. Its id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        logs.configure("error")
        asyncio.run(work())
        status = 0
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must not go on as its parent would
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(status)


def _waited(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def played(
    seeds: Sequence[int], folder: Path, new_database: Callable[[], str], chain_url: str, mutant: str = ""
) -> Iterator[Played]:
    """What each seed came to. Several schedules share a database, as callers do; each has its own accounts."""
    database = ""
    for number, seed in enumerate(seeds):
        if number % SCHEDULES_PER_DATABASE == 0:
            database, own = new_database(), folder / f"{seed}"
            house = House(new_account(), new_account(), new_account())
            own.mkdir(parents=True)
        for left in own.glob("life-*"):
            left.unlink()
        schedule = Schedule(seed, own, database, chain_url, house, mutant)
        wrong = schedule.play()
        yield Played(seed, schedule.crashes, schedule.upstream_deaths, wrong)


@contextlib.contextmanager
def running_chain() -> Iterator[str]:
    """The URL of a chain that a process of its own runs, so that this one has neither threads nor an event loop."""
    url_end, url_in = os.pipe()
    stop_end, stop_in = os.pipe()

    async def run() -> None:
        os.close(stop_in)
        async with LocalChain.start() as chain:
            os.write(url_in, chain.url.encode() + b"\n")
            await asyncio.to_thread(os.read, stop_end, 1)

    pid = _fork(run, Path(os.devnull))
    os.close(stop_end)
    try:
        url = os.read(url_end, 200).decode().strip()
        yield url
    finally:
        os.close(stop_in)
        _waited(pid)
        os.close(url_end)
        os.close(url_in)


@contextlib.contextmanager
def databases(*, on_postgres: bool) -> Iterator[Callable[[], str]]:
    """A function that answers the URL of an empty database; the empty text is SQLite in the folder."""
    is_test = shared.FOLDER_VARIABLE in os.environ
    if not is_test:
        shared.open_folder()
    try:
        if on_postgres:
            with postgres_databases() as new_database:
                yield new_database
        else:
            yield str
    finally:
        if not is_test:
            shared.close_folder()


def warm_up() -> None:
    """Import now what each process would import again."""
    told = authorization()
    signature(told)
    for name in (
        "aiosqlite",
        "asyncpg",
        "sqlalchemy.dialects.sqlite.aiosqlite",
        "sqlalchemy.dialects.postgresql.asyncpg",
    ):
        importlib.import_module(name)
    gc.freeze()


def main(words: Sequence[str] | None = None) -> None:
    """Play schedules. Exit with 1 if something is wrong with the money of one."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=20)
    arguments.add_argument("--first", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=1e9, help="stop after the schedule that is playing then")
    arguments.add_argument("--postgres", action="store_true")
    arguments.add_argument("--mutant", choices=sorted(MUTANTS), default="", help="play until it is found")
    chosen = arguments.parse_args(words)
    warm_up()
    folder = Path(tempfile.mkdtemp(prefix="tollhouse-schedules-"))
    begun, places, schedules, failed, deaths = time.monotonic(), Counter[str](), 0, 0, 0
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    with databases(on_postgres=chosen.postgres) as new_database, running_chain() as chain_url:
        for one in played(seeds, folder, new_database, chain_url, chosen.mutant):
            schedules += 1
            deaths += one.upstream_deaths
            places.update(place.partition(":")[0] for place in one.crashes)
            if one.wrong:
                failed += 1
                sys.stdout.write(f"seed {one.seed}, died at {one.crashes}: {one.wrong[:5]}\n")
            if time.monotonic() - begun > chosen.seconds or (failed and chosen.mutant):
                break
    minutes = (time.monotonic() - begun) / 60
    shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(
        f"{schedules} schedules, {places.total()} crashes at {len(places)} places, {deaths} deaths of the "
        f"upstream, {failed} with something wrong, "
        f"{schedules / minutes:.0f} a minute\n{dict(places.most_common())}\n"
    )
    sys.stdout.flush()
    sys.exit(int(failed > 0))


if __name__ == "__main__":
    main()
