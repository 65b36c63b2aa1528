"""Signed calls a second on one process with the durable ledger, against the same calls with a key in the same run.

Goals: at least 1,500 a second, 99 of 100 within 50 ms, at 64 connections, on SQLite with synchronous=FULL. Every
request is signed beforehand by one of many wallets, so that neither signing nor a wallet's minute is measured.
Needs two cores.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from measuring.servers import first_answer, free_port, new_key, running, tollhouse

from tollhouse.admission.context import open_context
from tollhouse.client import Agent
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.types import TREASURY, Transfer, agent_account

SIGNED_PATH = "/feeds/events"
PATH = f"/defense{SIGNED_PATH}?limit=20"
CONNECTIONS = 64
ROUNDS = 3
# Each wallet has 1,000 calls a minute and makes 450.
CALLS = 9_000
WALLETS = 60
PRICE_MICROS = 10_000
GOAL_PER_SECOND = 1_500
GOAL_P99_MS = 50.0


class Load(NamedTuple):
    """What a round came to. Latencies are milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float


async def register(folder: Path) -> list[Agent]:
    """Wallets with enough credit for every round, put into the books before the server starts."""
    wallets = [Agent(number.to_bytes(32)) for number in range(1, WALLETS + 1)]
    async with open_context(Settings(data_dir=str(folder), recorded=True), answers_calls=False) as context:
        for wallet in wallets:
            agent = await context.wallets.register(wallet.address)
            account = agent_account(agent.agent_id)
            await context.ledger.move(Transfer(f"deposit:{agent.agent_id}", TREASURY, account, 10**9, "deposit"))
    return wallets


async def charged(folder: Path) -> int:
    """How many calls the books say were paid. RuntimeError when they do not balance."""
    async with open_context(Settings(data_dir=str(folder), recorded=True), answers_calls=False) as context:
        report = await context.ledger.verify()
        if not report.balanced or report.pending:
            raise RuntimeError(f"the books are off: {report}")
        return (await context.ledger.account("revenue")).balance_micros // PRICE_MICROS


def requests(port: int, heads: Sequence[dict[str, str]]) -> list[bytes]:
    """One request for each set of headers."""
    return [
        f"GET {PATH} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n".encode()
        + "".join(f"{name}: {value}\r\n" for name, value in head.items()).encode()
        + b"\r\n"
        for head in heads
    ]


async def asked(port: int, every: Sequence[bytes]) -> Load:
    """Send each request once, over CONNECTIONS connections. RuntimeError when one is not answered with 200."""
    left = iter(every)
    begun = time.perf_counter()
    waits = await asyncio.gather(*(one_connection(port, left) for _ in range(CONNECTIONS)))
    taken = time.perf_counter() - begun
    ordered = sorted(wait for each in waits for wait in each)
    count = len(ordered)
    return Load(count / taken, ordered[count // 2] * 1e3, ordered[count * 99 // 100] * 1e3)


async def one_connection(port: int, left: Iterator[bytes]) -> list[float]:
    """The seconds that each answer took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    waits: list[float] = []
    for request in left:
        sent = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(head.decode("latin-1").splitlines()[0])
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        waits.append(time.perf_counter() - sent)
    writer.close()
    await writer.wait_closed()
    return waits


def measure(folder: Path) -> dict[str, Any]:
    """All rounds, signed and keyed in turn, and the proof that each signed call was charged once."""
    data, port = folder / "data", free_port()
    key: str = json.loads(new_key(data, folder / "keys.log"))["api_key"]
    wallets = asyncio.run(register(data))
    keyed = requests(port, [{"authorization": f"Bearer {key}"}] * CALLS)
    rounds: dict[str, list[Load]] = {"signed": [], "keyed": []}
    with running(tollhouse(port, data), folder / "server.log") as server:
        first_answer(server, port, PATH, {"Authorization": f"Bearer {key}"})
        for number in range(ROUNDS):
            heads = [wallets[call % WALLETS].headers(SIGNED_PATH) for call in range(CALLS)]
            for name, every in (("signed", requests(port, heads)), ("keyed", keyed)):
                load = asyncio.run(asked(port, every))
                print(f"round {number + 1}/{ROUNDS} {name}: {load.per_second:,.0f} calls/s", file=sys.stderr)
                rounds[name].append(load)
    paid = asyncio.run(charged(data))
    if paid != ROUNDS * CALLS:
        raise RuntimeError(f"{ROUNDS * CALLS} calls were answered, {paid} were charged")
    return summed_up(rounds, paid)


def summed_up(rounds: dict[str, list[Load]], paid: int) -> dict[str, Any]:
    """Medians of the rounds."""
    medians = {
        name: {field: round(statistics.median(getattr(load, field) for load in loads), 2) for field in Load._fields}
        for name, loads in rounds.items()
    }
    ratios = [s.per_second / k.per_second for s, k in zip(rounds["signed"], rounds["keyed"], strict=True)]
    signed = medians["signed"]
    return {
        "claim": "signed calls with a durable ledger: 1,500/s, 99 of 100 within 50 ms",
        "connections": CONNECTIONS,
        "calls_a_round": CALLS,
        "rounds": ROUNDS,
        "answered_and_charged": paid,
        **medians,
        "of_keyed": round(statistics.median(ratios), 3),
        "is_met": signed["per_second"] >= GOAL_PER_SECOND and signed["p99_ms"] <= GOAL_P99_MS,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder)), indent=2))


if __name__ == "__main__":
    main()
