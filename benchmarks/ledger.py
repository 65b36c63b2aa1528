"""How many transfers a second become durable, against one commit per transfer with the same driver.

`python benchmarks/ledger.py [--database-url URL]` prints one JSON object: SQLite in a temporary folder, and the
PostgreSQL database of that URL as well where one is given (empty, and with fsync on, or the figure says nothing).
"""

import argparse
import asyncio
import contextlib
import json
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from tollhouse import logs
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import Ledger, open_ledger
from tollhouse.payments.ledger.types import StoredResponse, Transfer
from tollhouse.storage.database import open_database

IN_FLIGHT = 64
TRANSFERS, PAIRS, BASELINE = 20_000, 10_000, 1_000
ROUNDS = 3
AGENTS = 50
GOAL_TRANSFERS, GOAL_PAIRS, GOAL_P99_MS = 5_000, 1_500, 50
# A feed's page as it is paid for: 20 events.
ANSWER = StoredResponse(200, "application/json", b"x" * 12_000, etag='"abc"')

_BASELINE_TABLES = (
    "CREATE TABLE transfer (id TEXT PRIMARY KEY, debit TEXT, credit TEXT, amount INTEGER)",
    "CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER)",
)
_BASELINE_CHANGE = "UPDATE account SET balance = balance + ? WHERE name = ?"


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Ledger]:
    settings = Settings(database_url=url)
    database = open_database(settings)
    ledger = await open_ledger(settings, database)
    try:
        yield ledger
    finally:
        report = await ledger.verify()
        if not report.balanced:
            raise RuntimeError(report.differences)
        await ledger.close()
        await database.close()


async def measured(work: Callable[[int], Awaitable[object]], times: int) -> dict[str, float]:
    """`times` runs of `work`, so many at once as IN_FLIGHT says."""
    numbers = iter(range(times))
    taken: list[float] = []

    async def client() -> None:
        for number in numbers:
            begun = perf_counter()
            await work(number)
            taken.append(perf_counter() - begun)

    begun = perf_counter()
    await asyncio.gather(*(client() for _ in range(IN_FLIGHT)))
    seconds = perf_counter() - begun
    taken.sort()
    return {
        "per_second": round(times / seconds),
        "p50_ms": round(1_000 * taken[times // 2], 2),
        "p99_ms": round(1_000 * taken[times * 99 // 100], 2),
    }


async def transfers(ledger: Ledger, round_number: int) -> dict[str, float]:
    async def move(number: int) -> None:
        agent = f"agent:{number % AGENTS}"
        await ledger.move(Transfer(f"m{round_number}:{number}", "treasury", agent, 10_000, "deposit"))

    return await measured(move, TRANSFERS)


async def pairs(ledger: Ledger, round_number: int) -> dict[str, float]:
    """A paid call: reserve, post with its answer, delivered."""

    async def call(number: int) -> None:
        name, agent = f"call:{number % AGENTS}:{round_number}:{number:064x}", f"agent:{number % AGENTS}"
        await ledger.reserve(name, agent, "revenue", 10_000, "call", b"f" * 16)
        await ledger.post(name, ANSWER)
        ledger.delivered(name)

    return await measured(call, PAIRS)


def baseline(folder: Path) -> dict[str, float]:
    """The same double entry without a batch: one transaction, and so one wait for the disk, per transfer."""
    connection = sqlite3.connect(folder / "baseline.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", *_BASELINE_TABLES):
        connection.execute(statement)
    names = ["treasury", *(f"agent:{number}" for number in range(AGENTS))]
    connection.executemany("INSERT INTO account VALUES (?, 0)", [(name,) for name in names])
    begun = perf_counter()
    for number in range(BASELINE):
        agent = f"agent:{number % AGENTS}"
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO transfer VALUES (?, 'treasury', ?, 10000)", (f"m:{number}", agent))
        connection.execute(_BASELINE_CHANGE, (-10_000, "treasury"))
        connection.execute(_BASELINE_CHANGE, (10_000, agent))
        connection.execute("COMMIT")
    seconds = perf_counter() - begun
    connection.close()
    return {"per_second": round(BASELINE / seconds)}


def middle(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


async def rounds(url: str, what: str) -> dict[str, Any]:
    moved, called, plain = [], [], []
    async with opened(url) as ledger:
        for number in range(ROUNDS):
            moved.append(await transfers(ledger, number))
            called.append(await pairs(ledger, number))
            with tempfile.TemporaryDirectory() as folder:
                plain.append(await asyncio.to_thread(baseline, Path(folder)))
            print(f"{what}: {moved[-1]}, {called[-1]}, baseline {plain[-1]}", file=sys.stderr)
    ratios = [round(ours["per_second"] / theirs["per_second"], 1) for ours, theirs in zip(moved, plain, strict=True)]
    found = {"transfers": middle(moved), "reserve_and_post": middle(called), "baseline": middle(plain)}
    return found | {"of_baseline": statistics.median(ratios), "of_baseline_by_round": ratios} | _met(found)


def _met(found: dict[str, dict[str, float]]) -> dict[str, bool]:
    calls = found["reserve_and_post"]
    return {
        "is_met": found["transfers"]["per_second"] >= GOAL_TRANSFERS
        and calls["per_second"] >= GOAL_PAIRS
        and calls["p99_ms"] <= GOAL_P99_MS
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database-url", default="")
    url = arguments.parse_args().database_url
    logs.configure("error")
    result: dict[str, Any] = {
        "claim": "5,000 transfers/s and 1,500 paid calls/s with a p99 of 50 ms become durable, 64 in flight",
        "in_flight": IN_FLIGHT,
        "goals": {"transfers": GOAL_TRANSFERS, "reserve_and_post": GOAL_PAIRS, "p99_ms": GOAL_P99_MS},
    }
    with tempfile.TemporaryDirectory() as folder:
        result["sqlite"] = asyncio.run(rounds(f"sqlite:///{folder}/tollhouse.db", "sqlite"))
    if url:
        result["postgres"] = asyncio.run(rounds(url, "postgres"))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
