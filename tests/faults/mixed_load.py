"""Three servers on PostgreSQL and Redis under mixed load while databases and processes fail, and an audit of the money.

`python -m tests.faults.mixed_load --seconds 120` sends keyed reads, signed calls, x402 payments, deposits and key
creations over HTTP on this machine alone. Each client sends the same request again until it is answered or refused for
good. It prints one JSON object and ends with 1 when something is wrong.
"""

import argparse
import asyncio
import contextlib
import json
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import asyncpg
from redis import Redis

from tests.attacks.target import FEED, FEED_PATH, PAGE, PAGE_MICROS, Answer, exchange, first, new_address
from tests.journeys.server import Server, free_port
from tests.payments.crashes.schedules import new_account
from tests.payments.x402.signed_payments import RELAYER, SELLER
from tests.servers import redis as redis_server
from tests.servers import shared
from tests.servers.postgres import OwnPostgres
from tollhouse.admission.context import open_context
from tollhouse.client import Agent
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS, Account, LocalChain
from tollhouse.payments.ledger.types import agent_account
from tollhouse.payments.x402.reconciliation import reconcile

TREASURY = ACCOUNTS[4]
DOLLAR, CALL_MICROS = 1_000_000, 10_000
SERVERS = 3
PLENTY = 10_000_000
PAUSE_SECONDS = 4.0
ANSWER_SECONDS = 30.0
PERSISTS_SECONDS = 120.0
PENDING = {0, 409, 429, 502, 503}
# Workers of each kind, and how long each rests between requests.
LOAD = {"read": (3, 0.03), "call": (3, 0.05), "payment": (2, 0.1), "deposit": (1, 1.0), "key": (1, 0.5)}


class Deployment:
    """Three servers, what they stand on, and how each of it fails."""

    def __init__(self, folder: Path, chain: LocalChain, seed: int) -> None:
        self.folder, self.chain, self.random = folder, chain, random.Random(seed)
        self.postgres, self.redis_port = OwnPostgres(), free_port()
        (folder / "redis").mkdir()
        self.redis = redis_server._start(folder / "redis", self.redis_port)
        self.settings = {
            "database_url": self.postgres.url, "redis_url": f"redis://127.0.0.1:{self.redis_port}/0",
            "evm_rpc_url": chain.url, "treasury_address": TREASURY.address, "deposit_confirmations": 1,
            "x402_pay_to": SELLER.address, "x402_facilitator_key": RELAYER.private_key, "free_per_ip_per_day": 0,
            "trusted_proxies": "127.0.0.0/8", "keys_per_address_per_hour": PLENTY, "log_level": "warning",
        }  # fmt: skip
        self.ports = [free_port() for _ in range(SERVERS)]
        self.servers = [self._started(number) for number in range(SERVERS)]
        self.faults = Counter[str]()

    def _started(self, number: int) -> Server:
        return Server(self.folder / f"server-{number}", "--recorded", port=self.ports[number], **self.settings)

    def stop(self) -> None:
        for server in self.servers:
            server.kill()
        self.redis.kill()
        with contextlib.suppress(ProcessLookupError):
            self.postgres.crash()

    async def fail_until(self, ends_at: float) -> None:
        """One fault after the other, with a pause between them in which everything has to work again."""
        faults: list[Callable[[], Awaitable[None]]] = [
            self.postgres_restart, self.postgres_crash, self.too_many_connections, self.redis_restart, self.redis_flush,
            self.process_frozen, self.process_killed, self.connections_cut,
        ]  # fmt: skip
        while time.monotonic() < ends_at:
            self.random.shuffle(faults)
            for fault in faults:
                await asyncio.sleep(PAUSE_SECONDS)
                if time.monotonic() > ends_at:
                    return
                sys.stderr.write(f"{fault.__name__}\n")
                self.faults[fault.__name__] += 1
                await fault()

    async def postgres_restart(self) -> None:
        self.postgres._server.send_signal(signal.SIGINT)
        await asyncio.to_thread(self.postgres._server.wait, 20)
        await self._postgres_again()

    async def postgres_crash(self) -> None:
        await asyncio.to_thread(self.postgres.crash)
        await self._postgres_again()

    async def _postgres_again(self) -> None:
        await asyncio.sleep(1.0)
        self.postgres.start()
        await asyncio.to_thread(self.postgres.wait_until_ready)

    async def too_many_connections(self) -> None:
        """Every connection that PostgreSQL has left is taken for two seconds."""
        url, taken = self.postgres.url.replace("+asyncpg", ""), []
        with contextlib.suppress(asyncpg.PostgresError, OSError):
            while True:
                connection = await asyncpg.connect(url)
                taken.append(connection)
        await asyncio.sleep(2.0)
        await asyncio.gather(*(connection.close() for connection in taken), return_exceptions=True)

    async def redis_restart(self) -> None:
        self.redis.terminate()
        await asyncio.to_thread(self.redis.wait, 10)
        await asyncio.sleep(1.0)
        self.redis = redis_server._start(self.folder / "redis", self.redis_port)

    async def redis_flush(self) -> None:
        def flush() -> None:
            with Redis(port=self.redis_port) as client:
                client.flushall()

        await asyncio.to_thread(flush)

    async def process_frozen(self) -> None:
        process = self.random.choice(self.servers).process
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(4.0)
        process.send_signal(signal.SIGCONT)

    async def process_killed(self) -> None:
        number = self.random.randrange(SERVERS)
        await asyncio.to_thread(self.servers[number].kill)
        self.servers[number] = await asyncio.to_thread(self._started, number)

    async def connections_cut(self) -> None:
        """Every connection of every server to PostgreSQL ends."""
        connection = await asyncpg.connect(self.postgres.url.replace("+asyncpg", ""))
        with contextlib.suppress(asyncpg.PostgresError, OSError):
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            )
        await connection.close()


class Load:
    """The clients: what they sent, and every answer that they got."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment, self.chain = deployment, deployment.chain
        self.statuses: dict[str, Counter[int]] = defaultdict(Counter)
        self.failures: list[str] = []
        self.calls: dict[str, tuple[Agent, list[Answer]]] = {}
        self.payments: dict[str, list[Answer]] = {}
        self.deposits: dict[str, list[Answer]] = {}
        self.wallets: list[Agent] = []
        self.payers: list[Account] = []
        self.turn = 0
        self.is_over = False

    async def persist(
        self, kind: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> list[Answer]:
        """Send this until it is answered or refused for good; every answer on the way."""
        answers: list[Answer] = []
        begun = time.monotonic()
        while time.monotonic() - begun < PERSISTS_SECONDS:
            answers.append(await self._sent(kind, path, headers, body))
            if answers[-1].status not in PENDING:
                return answers
            await asyncio.sleep(0.25)
        self.failures.append(f"{kind}: no answer within {PERSISTS_SECONDS:g} s: {answers[-1]}")
        return answers

    async def _sent(self, kind: str, path: str, headers: Mapping[str, str] | None, body: bytes) -> Answer:
        self.turn += 1
        port = self.deployment.ports[self.turn % SERVERS]
        told = {"Host": f"127.0.0.1:{port}", "X-Forwarded-For": new_address(), "Connection": "close", **(headers or {})}
        told |= {"Content-Length": str(len(body)), "Content-Type": "application/json"} if body else {}
        lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
        try:
            answer = await exchange(port, "\r\n".join([*lines, "", ""]).encode() + body, ANSWER_SECONDS)
        except (OSError, TimeoutError):
            answer = Answer(0)
        self.statuses[kind][answer.status] += 1
        if answer.status == 500:
            self.failures.append(f"{kind}: 500: {answer.body!r}")
        return answer

    async def read(self) -> None:
        [*_, answer] = await self.persist("read", FEED, {"Authorization": f"Bearer {self.key}"})
        if answer.status != 200 or not answer.json["events"]:
            self.failures.append(f"read: {answer}")

    async def call(self) -> None:
        wallet = random.choice(self.wallets)
        headers = wallet.headers(FEED_PATH)
        self.calls[headers["X-Agent-Nonce"]] = (wallet, await self.persist("call", FEED, headers))

    async def payment(self) -> None:
        headers = first(random.choice(self.payers))
        self.payments[headers["X-Payment"]] = await self.persist("payment", PAGE, headers)

    async def deposit(self) -> None:
        account = new_account()
        await self.chain.fund_usdc(account.address, DOLLAR)
        tx_hash = await self.chain.transfer_usdc(account.address, TREASURY.address, DOLLAR)
        registered = json.dumps({"wallet_address": account.address}).encode()
        await self.persist("register", "/api/agent/register", body=registered)
        claimed = json.dumps({"wallet_address": account.address, "tx_hash": tx_hash}).encode()
        # Two clients at once, as a caller does that lost patience.
        both = await asyncio.gather(*(self.persist("deposit", "/api/agent/deposit", body=claimed) for _ in range(2)))
        self.deposits[tx_hash] = [answer for answers in both for answer in answers]
        self.wallets.append(Agent(account.private_key))

    async def new_key(self) -> None:
        body = json.dumps({"email": f"{secrets.token_hex(6)}@example.org"}).encode()
        [*_, created] = await self.persist("key", "/api/keys/create", body=body)
        if created.status != 200:
            self.failures.append(f"key: {created}")

    async def prepare(self) -> None:
        self.key = self.deployment.servers[0].operators_key(
            "--tier", "enterprise", "--per-minute", PLENTY, database_url=self.deployment.settings["database_url"]
        )
        for _ in range(3):
            await self.deposit()
        for _ in range(8):
            self.payers.append(new_account())
            await self.chain.fund_usdc(self.payers[-1].address, DOLLAR)

    async def run(self) -> None:
        """Everything at once until `is_over`."""
        kinds = {
            "read": self.read,
            "call": self.call,
            "payment": self.payment,
            "deposit": self.deposit,
            "key": self.new_key,
        }

        async def work(kind: str, rest: float) -> None:
            while not self.is_over:
                await kinds[kind]()
                await asyncio.sleep(rest)

        await asyncio.gather(*(work(kind, rest) for kind, (count, rest) in LOAD.items() for _ in range(count)))


async def audit(load: Load, deployment: Deployment) -> list[str]:
    """Where what clients got differs from what they paid, in sentences."""
    wrong = list(load.failures)
    given = {name: deployment.settings[name] for name in (
        "database_url", "evm_rpc_url", "treasury_address", "deposit_confirmations")}  # fmt: skip
    async with open_context(Settings(data_dir=str(deployment.folder), **given), answers_calls=False) as context:
        await context.ledger.recover()
        report = await context.ledger.verify()
        wrong += report.differences + ([f"{report.pending} reservations are open"] if report.pending else [])
        calls = [one for one in await context.ledger.transfers("call", 0.0) if one.state == "posted"]
        charged = Counter(one.id.split(":")[2] for one in calls)
        paid = await context.ledger.transfers("x402", 0.0)
        wrong += (await reconcile(load.chain.client, context.ledger)).differences
        assert context.deposits is not None
        credited = await context.deposits.reconcile()
        wrong += credited.differences
        for wallet in load.wallets:
            agent = await context.wallets.agent_of(bytes.fromhex(wallet.address[2:]))
            assert agent is not None
            account = await context.ledger.account(agent_account(agent.agent_id))
            spent = sum(charged[nonce] for nonce, (owner, _) in load.calls.items() if owner is wallet)
            if account.balance_micros != DOLLAR - spent * CALL_MICROS:
                wrong.append(f"wallet {wallet.address} has {account.balance_micros} after {spent} charges")
    for nonce, (_, answers) in load.calls.items():
        wrong += _unequal("call", answers, charged[nonce])
    served = sum(any(answer.status == 200 for answer in answers) for answers in load.payments.values())
    earned = await token_balance(load.chain.client, load.chain.usdc_address, SELLER.address)
    if {earned, sum(one.amount_micros for one in paid)} != {served * PAGE_MICROS}:
        wrong.append(f"{served} payments were answered, {len(paid)} booked, {earned} earned")
    for answers in load.payments.values():
        wrong += _unequal("payment", answers, int(any(answer.status == 200 for answer in answers)))
    for tx_hash, answers in load.deposits.items():
        new = [answer for answer in answers if answer.status == 200 and not answer.json["already_credited"]]
        if len(new) > 1 or not any(answer.status == 200 for answer in answers):
            wrong.append(f"deposit {tx_hash} was credited {len(new)} times")
    if credited.ledger_micros != len(load.deposits) * DOLLAR:
        wrong.append(f"{len(load.deposits)} USD were deposited and {credited.ledger_micros} credited")
    return wrong


def _unequal(kind: str, answers: list[Answer], times: int) -> list[str]:
    statuses = [answer.status for answer in answers]
    bodies = {answer.body for answer in answers if answer.status == 200}
    if times > 1 or len(bodies) > 1 or bool(bodies) != bool(times):
        return [f"{kind}: answered {statuses}, charged {times} times"]
    if not bodies and 402 not in statuses:
        return [f"{kind}: its nonce is used, and it was answered {statuses}"]
    return []


async def play(seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """The run, as a report."""
    async with LocalChain.start() as chain:
        deployment = await asyncio.to_thread(Deployment, folder, chain, seed)
        try:
            load = Load(deployment)
            await load.prepare()
            running = asyncio.create_task(load.run())
            await deployment.fail_until(time.monotonic() + seconds)
            load.is_over = True
            await running
            wrong = await audit(load, deployment)
        finally:
            deployment.stop()
    return {
        "faults": dict(deployment.faults),
        "answers": {
            kind: {str(status): n for status, n in sorted(each.items())} for kind, each in load.statuses.items()
        },
        "calls": len(load.calls),
        "payments": len(load.payments),
        "deposits": len(load.deposits),
        "wrong": wrong[:50],
        "is_right": not wrong,
    }


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    shared.open_folder()
    folder = Path(tempfile.mkdtemp(prefix="tollhouse-faults-"))
    try:
        yield folder
    finally:
        shared.close_folder()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=120.0)
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    with _folder() as folder:
        report = asyncio.run(play(chosen.seconds, chosen.seed, folder))
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return int(not report["is_right"])


if __name__ == "__main__":
    sys.exit(main())
