"""Thousands of signed calls against a server that keeps dying, and the proof that the books are right all the same.

One seed decides everything: who calls what how often, how much money each wallet has, and where the process dies.
`python -m tests.payments.crashes.simulation --seeds 200` plays them on SQLite, with `--postgres` on PostgreSQL.
"""

import argparse
import asyncio
import contextlib
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.journeys.server import environment, free_port
from tests.payments.crashes.paid_app import serve
from tests.servers import shared
from tests.servers.postgres import postgres_databases
from tests.servers.processes import ForkedProcess
from tollhouse.admission.context import open_context
from tollhouse.client import Agent
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.types import TREASURY, Transfer, agent_account

PRICE = 10_000
WALLETS = 5
CALLS = 240
AT_ONCE = 24
LIVES = 3
REPLAYED_SHARE = 0.1
START_SECONDS = 120.0
ANSWER_SECONDS = 60.0
PLACES = (
    "ledger.reserve.before-commit",
    "ledger.reserve.after-commit",
    "ledger.post.before-commit",
    "ledger.post.after-commit",
    "ledger.void.before-commit",
    "ledger.void.after-commit",
    "ledger.release.before-commit",
    "ledger.release.after-commit",
    "paid-answer.before-send",
    "paid-answer.after-send",
)


class Outcome(NamedTuple):
    """What a seed came to: deaths, requests sent, and what is wrong with the books, in sentences."""

    seed: int
    crashes: int
    sent: int
    wrong: list[str]


@dataclass
class Call:
    """One signed call, and every answer that its caller got."""

    wallet: int
    path: str
    headers: dict[str, str]
    answers: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def nonce(self) -> str:
        return self.headers["X-Agent-Nonce"]

    @property
    def bodies(self) -> set[bytes]:
        return {body for status, body in self.answers if status == 200}


class Simulation:
    """A server, its callers and what they were told."""

    def __init__(self, seed: int, folder: Path, database_url: str, factory: str = "create") -> None:
        self.random = random.Random(seed)
        self.settings = Settings(data_dir=str(folder), database_url=database_url, log_level="error")
        self.folder, self.factory = folder, factory
        self.port = free_port()
        self.crashed_at: list[str] = []
        self.sent = 0
        self.agents: list[str] = []
        self.deposits: list[int] = []

    async def run(self) -> list[str]:
        """Play the seed to its end; what is wrong with the books, in sentences."""
        calls = await self._prepare()
        sent = calls + [call for call in calls if self.random.random() < REPLAYED_SHARE]
        self.random.shuffle(sent)
        unanswered: list[Call] = []
        for life in range(LIVES + 1):
            place = self._place() if life < LIVES else ""
            share = sent[life * len(sent) // LIVES : (life + 1) * len(sent) // LIVES]
            process = await self._start(place)
            try:
                unanswered = await self._send(unanswered + share)
            finally:
                process.kill_group()
            if unanswered:
                self.crashed_at.append(place)
        assert not unanswered, f"{len(unanswered)} calls were never answered"
        return await self._audit(calls)

    def _place(self) -> str:
        return f"{self.random.choice(PLACES)}:{self.random.randint(1, 8)}"

    async def _prepare(self) -> list[Call]:
        """Register and fund the wallets: some can pay everything, some little, one nothing."""
        wallets = [Agent(self.random.randbytes(32)) for _ in range(WALLETS)]
        async with open_context(self.settings, answers_calls=False) as context:
            for number, wallet in enumerate(wallets):
                agent = await context.wallets.register(wallet.address)
                micros = self.random.choice((CALLS * PRICE, 15 * PRICE, 4 * PRICE - 1)) if number else 0
                if micros:
                    account = agent_account(agent.agent_id)
                    await context.ledger.move(Transfer(f"deposit:{number}", TREASURY, account, micros, "deposit"))
                self.agents.append(agent.agent_id)
                self.deposits.append(micros)
        paths = ("/page", "/page", "/page", "/missing", "/fails")
        return [self._call(wallets, self.random.randrange(WALLETS), self.random.choice(paths)) for _ in range(CALLS)]

    def _call(self, wallets: list[Agent], wallet: int, path: str) -> Call:
        return Call(wallet, path, wallets[wallet].headers(path))

    async def _start(self, place: str) -> ForkedProcess:
        """A server that answers. One that dies while it gives back what its dead forerunner held is followed by one."""
        process = self._fork(place)
        try:
            async with asyncio.timeout(START_SECONDS):
                while not await _is_up(self.port):
                    if place and process.poll() is not None:
                        self.crashed_at.append(place)
                        place, process = "", self._fork("")
                    await asyncio.sleep(0.02)
        except TimeoutError:
            process.kill_group()
            told = self._log.read_text()
            raise AssertionError(f"the server does not answer after {START_SECONDS} s:\n{told}") from None
        return process

    def _fork(self, place: str) -> ForkedProcess:
        settings = {"data_dir": self.settings.data_dir, "database_url": self.settings.database_url,
                    "log_level": "error", "failpoint": place, "failed_attempts_per_minute": "100000"}  # fmt: skip
        return ForkedProcess(serve, self.factory, self.port, cwd=self.folder, variables=environment(**settings),
                             stdout=self._log, stderr=self._log)  # fmt: skip

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    async def _send(self, calls: list[Call]) -> list[Call]:
        """Send what is left, AT_ONCE at a time; what got no answer comes back. Stops when the server is gone."""
        waiting, unanswered, gone = list(calls), [], asyncio.Event()

        async def work() -> None:
            while waiting and not gone.is_set():
                call = waiting.pop()
                self.sent += 1
                try:
                    call.answers.append(await _answer(self.port, call.path, call.headers))
                except (OSError, EOFError):
                    unanswered.append(call)
                    gone.set()

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        return waiting + unanswered

    async def _audit(self, calls: list[Call]) -> list[str]:
        wrong: list[str] = []
        async with open_context(self.settings, answers_calls=False) as context:
            await context.ledger.recover()
            report = await context.ledger.verify()
            wrong += report.differences
            if report.pending:
                wrong.append(f"{report.pending} reservations are still open")
            transfers = [t for t in await context.ledger.transfers("call", 0.0) if t.state == "posted"]
            charged = Counter(transfer.id.split(":")[2] for transfer in transfers)
            for number, agent_id in enumerate(self.agents):
                account = await context.ledger.account(agent_account(agent_id))
                paid = sum(charged[call.nonce] for call in calls if call.wallet == number)
                if account.balance_micros != self.deposits[number] - paid * PRICE:
                    wrong.append(f"wallet {number} has {account.balance_micros} after {paid} charges")
        return wrong + _differences(calls, charged)


def _differences(calls: list[Call], charged: Counter[str]) -> list[str]:
    """Where what callers got differs from what they paid: answered = charged, once, and always the same answer."""
    wrong = []
    for call in calls:
        times = charged[call.nonce]
        if times > 1:
            wrong.append(f"{call.path} was charged {times} times for one nonce")
        if len(call.bodies) > 1:
            wrong.append(f"{call.path} was worked out {len(call.bodies)} times for one nonce")
        if bool(call.bodies) != bool(times):
            wrong.append(f"{call.path} was answered {[s for s, _ in call.answers]} and charged {times} times")
        if any(status not in {200, 401, 402, 404, 500} for status, _ in call.answers):
            wrong.append(f"{call.path} got {call.answers}")
    return wrong


async def _is_up(port: int) -> bool:
    """Whether it answers. It listens before it does, and an early question waits."""
    with contextlib.suppress(OSError, EOFError):
        return (await _answer(port, "/health", {}))[0] == 200
    return False


async def _answer(port: int, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Status and body, on a connection of its own. OSError or EOFError when the server dies on the way."""
    told = {"host": f"127.0.0.1:{port}", "connection": "close", **headers}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items()), "", ""]
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            writer.write("\r\n".join(lines).encode())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length:")[2].split(maxsplit=1)[0]
            return int(head.split(maxsplit=2)[1]), await reader.readexactly(int(length))


def played(seeds: range, folder: Path, new_database: Callable[[], str], factory: str) -> Iterator[Outcome]:
    """What each seed came to."""
    for seed in seeds:
        own = folder / f"{seed}"
        own.mkdir(parents=True)
        simulation = Simulation(seed, own, new_database(), factory)
        wrong = asyncio.run(simulation.run())
        yield Outcome(seed, len(simulation.crashed_at), simulation.sent, wrong)
        shutil.rmtree(own)


def main() -> int:
    """Play the seeds; status 1 and a line for each complaint where the books are wrong."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=200)
    arguments.add_argument("--first", type=int, default=1)
    arguments.add_argument("--postgres", action="store_true", help="on PostgreSQL instead of SQLite")
    arguments.add_argument(
        "--mutant", action="store_true", help="a server that forgets nonces, which must be found out"
    )
    chosen = arguments.parse_args()
    crashes = sent = failed = 0
    with tempfile.TemporaryDirectory() as folder, _databases(on_postgres=chosen.postgres) as new_database:
        seeds = range(chosen.first, chosen.first + chosen.seeds)
        for outcome in played(seeds, Path(folder), new_database, "create_mutant" if chosen.mutant else "create"):
            crashes, sent, failed = crashes + outcome.crashes, sent + outcome.sent, failed + bool(outcome.wrong)
            for sentence in outcome.wrong:
                sys.stdout.write(f"seed {outcome.seed}: {sentence}\n")
            sys.stderr.write(f"seed {outcome.seed}: {outcome.crashes} crashes, {len(outcome.wrong)} wrong\n")
    sys.stdout.write(f"{chosen.seeds} seeds, {crashes} crashes, {sent} calls, {failed} seeds with something wrong\n")
    return int(failed > 0)


@contextlib.contextmanager
def _databases(*, on_postgres: bool) -> Iterator[Callable[[], str]]:
    """A function that answers the address of an empty database; the empty text is SQLite in the seed's own folder."""
    if not on_postgres:
        yield str
        return
    shared.open_folder()
    try:
        with postgres_databases() as new_database:
            yield new_database
    finally:
        shared.close_folder()


if __name__ == "__main__":
    sys.exit(main())
