"""Seeded schedules of crashes in signed calls, x402 payments and deposits together, thousands of them.

One seed decides who sends what how often, how many processes serve, and where each of them dies. A process is forked
from one that has imported everything and calls the server without a socket, so that a schedule takes about a second.
`python -m tests.payments.crashes.schedules --seeds 1000` plays them on SQLite, with `--postgres` on PostgreSQL.
"""

import argparse
import asyncio
import contextlib
import gc
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from tests.payments.crashes.in_process_server import MOST_MICROS, MUTANTS, PAGE_MICROS, open_server, shift_clock
from tests.payments.x402.signed_payments import (
    UPTO_REQUIREMENT,
    authorization,
    encoded,
    payload,
    permit,
    permit_signature,
    signature,
    upto,
)
from tests.servers import shared
from tests.servers.postgres import postgres_databases
from tollhouse import failpoints, logs
from tollhouse.admission.context import open_context
from tollhouse.client import Agent
from tollhouse.config.settings import Settings
from tollhouse.evm.address import checksummed
from tollhouse.evm.signature import address_of, parse_private_key
from tollhouse.payments.chain.contracts import call_data, token_balance
from tollhouse.payments.chain.local_chain import Account, LocalChain
from tollhouse.payments.ledger.types import agent_account
from tollhouse.payments.x402.reconciliation import reconcile

CALL_MICROS = 10_000
DOLLAR = 1_000_000
LIVES = 3
AT_ONCE = 10
LEASE_SECONDS = 40.0
"""So much later is each life, so that what the dead held has lapsed."""
LIFE_SECONDS = 90.0
RETRIES = 60
SCHEDULES_PER_DATABASE = 25
MOMENTS = ("before-commit", "after-commit")
PLACES = (
    *(f"ledger.{command}.{moment}" for command in ("move", "reserve", "post", "void",
    "delivered") for moment in MOMENTS),
    "paid-answer.before-send", "paid-answer.after-send", "x402.claimed", "x402.before-settling", "x402.after-settling",
    "x402.after-ledger", "x402.after-settled", "facilitator.before-send", "facilitator.after-send",
)  # fmt: skip
PENDING = {409, 429, 502, 503}
DIED = failpoints.EXIT_STATUS


T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class Attempt(Struct):
    """One request as it is sent; `about` is what it is about: a nonce, or the hash of a deposit."""

    kind: str
    owner: int
    about: str
    method: str
    path: str
    headers: dict[str, str]
    body: str = ""


class House(Struct):
    """The accounts of the servers of one database."""

    seller: Account
    treasury: Account
    relayer: Account


class Plan(Struct):
    """What a schedule sends, and the accounts it belongs to."""

    attempts: list[Attempt]
    wallets: list[str]
    agents: list[str]
    deposits: dict[str, int]


class Answer(Struct):
    """What the client of an attempt got."""

    attempt: int
    status: int
    body: str


class Played(Struct):
    """What a seed came to."""

    seed: int
    crashes: list[str]
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

    def play(self) -> list[str]:
        """The schedule to its end; what is wrong with the money, in sentences."""
        plan = msgspec.json.decode(self._forked(self._prepare), type=Plan)
        order = [number for number in range(len(plan.attempts)) for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
        self.random.shuffle(order)
        answers: list[Answer] = []
        left: list[int] = []
        for life in range(LIVES + 1):
            left += order[life * len(order) // LIVES : (life + 1) * len(order) // LIVES]
            got = self._live(plan, life, left)
            answers += got
            final = Counter(answer.attempt for answer in got if is_final(answer.status, answer.body))
            left = [number for number in left if not _take(final, number)]
        wrong = [f"{plan.attempts[number].kind} was never answered" for number in left]
        return wrong + msgspec.json.decode(self._forked(partial(self._audit, plan, answers)), type=list[str])

    def _live(self, plan: Plan, life: int, left: Sequence[int]) -> list[Answer]:
        """Serve what is left in one process, or in two that share the database; all but the last life's may die."""
        journal = self.folder / f"life-{life}"
        processes = 2 if self.random.random() < 0.4 else 1
        places = [
            f"{self.random.choice(PLACES)}:{self.random.choice((1, 1, 2, 3))}" if life < LIVES else ""
            for _ in range(processes)
        ]
        seeds = [self.random.random() for _ in places]
        shift = life * LEASE_SECONDS
        children = {
            _fork(
                partial(self._serve, plan, left[number::processes], journal, place, seeds[number], shift), self.log
            ): place
            for number, place in enumerate(places)
        }
        for pid, place in children.items():
            status = _waited(pid)
            assert status in {0, DIED}, f"the process ended with {status}: {self._told()}"
            if status == DIED:
                self.crashes.append(place)
        lines = journal.read_bytes().splitlines() if journal.exists() else []
        return [msgspec.json.decode(line, type=Answer) for line in lines]

    async def _prepare(self) -> bytes:
        """Accounts with tokens, wallets registered, deposits mined, and everything signed."""
        chain = LocalChain(self.base["evm_rpc_url"])
        await chain.request("anvil_setBalance", self.house.relayer.address, hex(10**20))
        wallets = [new_account() for _ in range(4)]
        payers = [new_account() for _ in range(3)]
        attempts: list[Attempt] = []
        deposits: dict[str, int] = {}
        async with open_context(self._settings(), answers_calls=False) as context:
            agents = [(await context.wallets.register(wallet.address)).agent_id for wallet in wallets]
        # The last wallet deposits nothing and claims what others sent.
        for owner, wallet in enumerate(wallets[:-1]):
            for _ in range(self.random.choice((1, 1, 2))):
                micros = DOLLAR + self.random.randrange(1_000)
                await chain.fund_usdc(wallet.address, micros)
                transfer = call_data("transfer(address,uint256)", self.house.treasury.address, micros)
                tx_hash = await chain.send(wallet.address, chain.usdc_address, transfer)
                await chain.wait_mined(tx_hash)
                deposits[tx_hash] = owner
                claimants = (owner, owner, len(wallets) - 1)
                attempts += [_claim(claimant, wallets[claimant].address, tx_hash) for claimant in claimants]
        for number, payer in enumerate(payers):
            # The last payer cannot pay everything.
            await chain.fund_usdc(payer.address, PAGE_MICROS * (1 if number == len(payers) - 1 else 9))
            await chain.approve_permit2(payer.address)
            attempts += [self._payment(number, payer) for _ in range(3)]
        signers = [Agent(wallet.private_key) for wallet in wallets]
        for _ in range(16):
            owner, path = (
                self.random.randrange(len(wallets)),
                self.random.choice(("/page", "/page", "/missing", "/fails")),
            )
            headers = signers[owner].headers(path)
            attempts.append(Attempt("call", owner, headers["X-Agent-Nonce"], "GET", path, headers))
        await chain.client.close()
        return msgspec.json.encode(Plan(attempts, [one.address for one in wallets], agents, deposits))

    def _payment(self, number: int, payer: Account) -> Attempt:
        far = str(int(time.time()) + 3_000)
        if self.random.random() < 0.4:
            return self._maximum(number, payer, far)
        told = authorization(
            **{"from": payer.address, "to": self.house.seller.address, "value": str(PAGE_MICROS), "validBefore": far}
        )
        sent = {"x402Version": 1, "scheme": "exact", "network": "base",
                "payload": payload(told, signature(told, payer.private_key))}  # fmt: skip
        path = self.random.choice(("/bought", "/bought", "/bought-missing"))
        return Attempt("payment", number, told["nonce"], "GET", path, {"x-payment": encoded(sent)})

    def _maximum(self, number: int, payer: Account, deadline: str) -> Attempt:
        """A payment of scheme `upto` for a page that costs less."""
        seller, relayer = self.house.seller.address, self.house.relayer.address
        required = msgspec.structs.replace(
            UPTO_REQUIREMENT, amount_micros=MOST_MICROS, pay_to=seller, facilitator=relayer
        )
        witness = {"to": seller, "facilitator": relayer}
        told = permit({"amount": str(MOST_MICROS)}, witness, **{"from": payer.address}, deadline=deadline)
        sent = upto(told, permit_signature(told, payer.private_key), accepted=required.v2())
        nonce = f"0x{int(told['nonce']):064x}"
        return Attempt("payment", number, nonce, "GET", "/measured", {"payment-signature": encoded(sent)})

    async def _serve(
        self, plan: Plan, left: Sequence[int], journal: Path, place: str, seed: float, shift: float
    ) -> None:
        """One process: send what is left to a server in it, and write down each answer that leaves it."""
        shift_clock(shift)
        if self.mutant:
            MUTANTS[self.mutant]()
        failpoints.arm(place)
        file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        waiting = list(left)
        random.Random(seed).shuffle(waiting)
        async with open_server(self._settings()) as server:

            async def work() -> None:
                while waiting:
                    number = waiting.pop()
                    for _ in range(RETRIES):
                        status, body = await _exchange(server, plan.attempts[number], number, file)
                        if is_final(status, body):
                            break
                        await asyncio.sleep(0.05)

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
        return msgspec.json.encode(wrong + _differences(plan, answers, charged, paid))

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


def _differences(plan: Plan, answers: Sequence[Answer], charged: Counter[str], paid: Counter[str]) -> list[str]:
    """Where what clients got differs from what they paid: answered = charged, once, and always the same answer."""
    wrong = []
    by_subject: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        attempt = plan.attempts[answer.attempt]
        by_subject.setdefault((attempt.kind, attempt.about), []).append(answer)
        if answer.status == 500 and attempt.path != "/fails":
            wrong.append(f"{attempt.kind} was answered 500: {answer.body}")
        if attempt.kind == "deposit" and answer.status == 200 and plan.deposits[attempt.about] != attempt.owner:
            wrong.append("a deposit was credited to a wallet that did not send it")
    for (kind, about), got in by_subject.items():
        wrong += (
            _credited_once(about, got)
            if kind == "deposit"
            else _paid_once(kind, about, got, (charged if kind == "call" else paid)[about])
        )
    return wrong


def _credited_once(about: str, got: Sequence[Answer]) -> list[str]:
    bodies = {answer.body for answer in got if answer.status == 200}
    if not bodies:
        return [f"deposit {about} was never credited: {sorted({(answer.status, answer.body) for answer in got})}"]
    new = [body for body in bodies if not json.loads(body)["already_credited"]]
    return [f"deposit {about} was credited {len(new)} times"] if len(new) > 1 else []


def _paid_once(kind: str, about: str, got: Sequence[Answer], times: int) -> list[str]:
    wrong = []
    bodies = {answer.body for answer in got if answer.status == 200}
    if times > 1:
        wrong.append(f"{kind} {about} was charged {times} times")
    if len(bodies) > 1:
        wrong.append(f"{kind} {about} was worked out {len(bodies)} times")
    if bool(bodies) != bool(times):
        statuses = sorted(answer.status for answer in got)
        wrong.append(f"{kind} {about} was answered {statuses} and charged {times} times")
    return wrong


def _client(context: Any) -> Any:
    return context.per_request.chain


def _claim(owner: int, wallet: str, tx_hash: str) -> Attempt:
    body = json.dumps({"wallet_address": wallet, "tx_hash": tx_hash})
    return Attempt("deposit", owner, tx_hash, "POST", "/api/agent/deposit", {"content-type": "application/json"}, body)


def new_account() -> Account:
    key = os.urandom(32)
    return Account(checksummed(address_of(parse_private_key(key).public_key)), "0x" + key.hex())


def is_final(status: int, body: str) -> bool:
    """Whether the client need not send the same again: it was answered, or refused for good."""
    return status not in PENDING or "deposit-conflict" in body


def _take(counted: Counter[int], number: int) -> bool:
    if not counted[number]:
        return False
    counted[number] -= 1
    return True


async def _exchange(server: Any, attempt: Attempt, number: int, journal: int) -> tuple[int, str]:
    """One request without a socket. The answer is written down when its last byte is handed over."""
    told = {"host": "toll.example", **attempt.headers}
    address = f"10.{number}.{os.getpid() // 250 % 250}.{os.getpid() % 250}"
    scope = {"type": "http", "http_version": "1.1", "method": attempt.method, "path": attempt.path, "raw_path": None,
             "query_string": b"", "scheme": "http", "client": (address, 9), "server": ("127.0.0.1", 80),
             "headers": [(name.lower().encode(), value.encode()) for name, value in told.items()]}  # fmt: skip
    status, body, requested = 0, b"", False

    async def receive() -> dict[str, Any]:
        nonlocal requested
        if requested:
            await asyncio.Event().wait()
        requested = True
        return {"type": "http.request", "body": attempt.body.encode(), "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
            return
        body += message.get("body", b"")
        if not message.get("more_body"):
            os.write(journal, msgspec.json.encode(Answer(number, status, body.decode())) + b"\n")

    await server.handle(scope, receive, send)
    return status, body.decode()


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
        yield Played(seed, schedule.crashes, wrong)


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


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=20)
    arguments.add_argument("--first", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=1e9, help="stop after the schedule that is playing then")
    arguments.add_argument("--postgres", action="store_true")
    arguments.add_argument("--mutant", choices=sorted(MUTANTS), default="", help="play until it is found")
    chosen = arguments.parse_args()
    warm_up()
    folder = Path(tempfile.mkdtemp(prefix="tollhouse-schedules-"))
    begun, places, schedules, failed = time.monotonic(), Counter[str](), 0, 0
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    with databases(on_postgres=chosen.postgres) as new_database, running_chain() as chain_url:
        for one in played(seeds, folder, new_database, chain_url, chosen.mutant):
            schedules += 1
            places.update(place.partition(":")[0] for place in one.crashes)
            if one.wrong:
                failed += 1
                sys.stdout.write(f"seed {one.seed}, died at {one.crashes}: {one.wrong[:5]}\n")
            if time.monotonic() - begun > chosen.seconds or (failed and chosen.mutant):
                break
    minutes = (time.monotonic() - begun) / 60
    shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(
        f"{schedules} schedules, {places.total()} crashes at {len(places)} places, {failed} with something wrong, "
        f"{schedules / minutes:.0f} a minute\n{dict(places.most_common())}\n"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
