"""Thousands of signed calls against a server that keeps dying, and the proof that the books are right all the same.

One seed decides everything: who calls what how often, how much money each wallet has, and where the process dies.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests.journeys.server import environment, free_port
from tollhouse import app
from tollhouse.client import Agent
from tollhouse.payments.ledger.words import TREASURY, Transfer, agent_account
from tollhouse.settings import Settings

ROOT = Path(__file__).parents[3]
GRANIAN = Path(sys.executable).parent / "granian"
PRICE = 10_000
WALLETS = 5
CALLS = 240
AT_ONCE = 24
LIVES = 3
REPLAYED_SHARE = 0.1
START_SECONDS = 30.0
PLACES = (
    "ledger.reserve.before-commit",
    "ledger.reserve.after-commit",
    "ledger.post.before-commit",
    "ledger.post.after-commit",
    "ledger.void.before-commit",
    "ledger.void.after-commit",
    "paid-answer.before-send",
    "paid-answer.after-send",
)


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
                self._stop(process)
            if unanswered:
                self.crashed_at.append(place)
        assert not unanswered, f"{len(unanswered)} calls were never answered"
        return await self._audit(calls)

    def _place(self) -> str:
        return f"{self.random.choice(PLACES)}:{self.random.randint(1, 8)}"

    async def _prepare(self) -> list[Call]:
        """Register and fund the wallets: some can pay everything, some little, one nothing."""
        wallets = [Agent(self.random.randbytes(32)) for _ in range(WALLETS)]
        async with app.rooms_of(self.settings, answers_calls=False) as rooms:
            for number, wallet in enumerate(wallets):
                agent = await rooms.wallets.register(wallet.address)
                micros = self.random.choice((CALLS * PRICE, 15 * PRICE, 4 * PRICE - 1)) if number else 0
                if micros:
                    account = agent_account(agent.agent_id)
                    await rooms.ledger.move(Transfer(f"deposit:{number}", TREASURY, account, micros, "deposit"))
                self.agents.append(agent.agent_id)
                self.deposits.append(micros)
        paths = ("/page", "/page", "/page", "/missing", "/fails")
        return [self._call(wallets, self.random.randrange(WALLETS), self.random.choice(paths)) for _ in range(CALLS)]

    def _call(self, wallets: list[Agent], wallet: int, path: str) -> Call:
        return Call(wallet, path, wallets[wallet].headers(path))

    async def _start(self, place: str) -> "subprocess.Popen[bytes]":
        command = [GRANIAN, "--interface", "asgi", "--factory", "--loop", "uvloop", "--port", str(self.port),
                   "--no-access-log", f"tests.payments.crashes.paid_app:{self.factory}"]  # fmt: skip
        settings = {"data_dir": self.settings.data_dir, "database_url": self.settings.database_url,
                    "log_level": "error", "failpoint": place}  # fmt: skip
        process = self._spawn(command, environment(**settings))
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.port}") as client:
            async with asyncio.timeout(START_SECONDS):
                while not await _is_up(client):  # noqa: ASYNC110 - another process is waited for
                    await asyncio.sleep(0.02)
        return process

    def _spawn(self, command: list[object], variables: dict[str, str]) -> "subprocess.Popen[bytes]":
        with (self.folder / "server.log").open("ab") as log:
            return subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log, start_new_session=True)

    def _stop(self, process: "subprocess.Popen[bytes]") -> None:
        """As a power cut: the whole group at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    async def _send(self, calls: list[Call]) -> list[Call]:
        """Send what is left, AT_ONCE at a time; what got no answer comes back. Stops when the server is gone."""
        waiting, unanswered, gone = list(calls), [], asyncio.Event()
        limits = httpx2.Limits(max_connections=AT_ONCE)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", limits=limits, timeout=20) as client:

            async def work() -> None:
                while waiting and not gone.is_set():
                    call = waiting.pop()
                    try:
                        answer = await client.get(call.path, headers=call.headers)
                        call.answers.append((answer.status_code, answer.content))
                    except httpx2.TransportError:
                        unanswered.append(call)
                        gone.set()

            await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        return waiting + unanswered

    async def _audit(self, calls: list[Call]) -> list[str]:
        wrong: list[str] = []
        async with app.rooms_of(self.settings, answers_calls=False) as rooms:
            await rooms.ledger.recover()
            report = await rooms.ledger.verify()
            wrong += report.differences
            if report.pending:
                wrong.append(f"{report.pending} reservations are still open")
            transfers = [t for t in await rooms.ledger.listed("call", 0.0) if t.state == "posted"]
            charged = Counter(transfer.id.split(":")[2] for transfer in transfers)
            for number, agent_id in enumerate(self.agents):
                account = await rooms.ledger.account(agent_account(agent_id))
                paid = sum(charged[call.nonce] for call in calls if call.wallet == number)
                if account.balance_micros != self.deposits[number] - paid * PRICE:
                    wrong.append(f"wallet {number} has {account.balance_micros} after {paid} charges")
        return wrong + _unlike(calls, charged)


def _unlike(calls: list[Call], charged: Counter[str]) -> list[str]:
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


async def _is_up(client: httpx2.AsyncClient) -> bool:
    try:
        return (await client.get("/health")).status_code == 200
    except httpx2.TransportError:
        return False


def main() -> None:
    """`python -m tests.payments.crashes.simulation FIRST LAST FOLDER`: play these seeds, tell what is wrong."""
    first, last, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    places: Counter[str] = Counter()
    wrong = {}
    for seed in range(first, last + 1):
        own = folder / str(seed)
        own.mkdir(parents=True)
        simulation = Simulation(seed, own, "")
        found = asyncio.run(simulation.run())
        places.update(place.partition(":")[0] for place in simulation.crashed_at)
        if found:
            wrong[seed] = found
    sys.stdout.write(json.dumps({"seeds": last - first + 1, "crashes": dict(places), "wrong": wrong}, indent=2))


if __name__ == "__main__":
    main()
