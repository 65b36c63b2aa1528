"""How long the deletion of what x402 payments no longer need takes, at several numbers of stored payments.

The baseline is the former statement, which looked at every settled payment each minute. Goal: no transaction takes
longer than 20 ms at 1,000,000 payments.

`python benchmarks/x402_sweep.py [--database-url URL]`: an empty PostgreSQL database; SQLite without one.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from time import perf_counter, process_time
from typing import Any

from sqlalchemy import text

from tollhouse import clock, logs
from tollhouse.config.settings import Settings
from tollhouse.payments.x402 import retention_store
from tollhouse.payments.x402.retention_store import ROWS_AT_ONCE
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate

SIZES = (10_000, 100_000, 1_000_000)
STORED_RESPONSES = 500
RESPONSE_BYTES = 12_000
ROUNDS = 5
GOAL_MS = 20.0
DAY = 86_400.0
# Written so that the new partial index does not answer it.
FORMER = """UPDATE x402_payment SET answer = NULL
    WHERE settled_at < :before AND CASE WHEN answer IS NULL THEN 0 ELSE 1 END = 1"""
NUMBERS = {
    True: "WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :last)",
    False: "WITH n(i) AS (SELECT generate_series(CAST(:first AS bigint), CAST(:last AS bigint) - 1))",
}
PAYMENTS = """INSERT INTO x402_payment (payer, nonce, state, lease, lease_until, version, payment, requirement, digest,
    fingerprint, resource_url, since_block, claimed_at, settled_at, delivered_at, tx_hash, block_number)
    {numbers} SELECT '0x00000000000000000000000000000000000000aa', '0x' || i, 'delivered', '', 0, 2, :blob, :blob, :key,
    :key, 'https://api.example/feeds', 1, :old + i, :old + i, :old + i, '0x' || i, 1 FROM n"""


async def fill(database: Database, first: int, last: int, old: float) -> None:
    numbers = NUMBERS[database.is_sqlite]
    async with database.writing() as transaction:
        values: dict[str, Any] = {"first": first, "last": last, "old": old, "blob": b"x" * 700, "key": b"k" * 32}
        await transaction.execute(text(PAYMENTS.format(numbers=numbers)), values)
    async with database.writing() as transaction:
        await transaction.execute(text("ANALYZE"))


async def store_responses(database: Database, old: float, number: int) -> None:
    """Give the newest payments a response."""
    async with database.writing() as transaction:
        query = text("UPDATE x402_payment SET answer = :answer WHERE settled_at >= :since")
        newest = await transaction.scalar(text("SELECT max(settled_at) FROM x402_payment"))
        assert newest > old
        await transaction.execute(query, {"answer": b"a" * RESPONSE_BYTES, "since": newest - number + 1})


async def milliseconds(database: Database, work: Any) -> tuple[float, float]:
    """The time of a transaction, and the processor time of this process: with SQLite, all of it."""
    begun, used = perf_counter(), process_time()
    async with database.writing() as transaction:
        await work(transaction)
    return 1_000 * (perf_counter() - begun), 1_000 * (process_time() - used)


def median(taken: list[tuple[float, float]]) -> float:
    return round(statistics.median(each for each, _ in taken), 1)


def median_processor(taken: list[tuple[float, float]]) -> float:
    return round(statistics.median(each for _, each in taken), 1)


async def measure(settings: Settings) -> list[dict[str, object]]:
    database = open_database(settings)
    await migrate(database)
    now, old, results, first = clock.seconds(), 1_000_000.0, [], 0
    for size in SIZES:
        await fill(database, first, size, old)
        first = size

        async def former(transaction: Any) -> None:
            await transaction.execute(text(FORMER), {"before": now})

        async def responses(transaction: Any) -> None:
            await retention_store.delete_responses(transaction, now, ROWS_AT_ONCE)

        async def none(transaction: Any) -> None:
            await retention_store.delete_responses(transaction, 0.0, ROWS_AT_ONCE)

        async def attempts(transaction: Any) -> None:
            await retention_store.delete_attempts(transaction, now, ROWS_AT_ONCE)

        async def payments(transaction: Any) -> None:
            rows = await retention_store.settled_between(transaction, (0.0, "", ""), now, ROWS_AT_ONCE)
            await retention_store.delete_settled(transaction, [(row.payer, row.nonce) for row in rows])

        await store_responses(database, old, STORED_RESPONSES)
        before = [await milliseconds(database, former) for _ in range(ROUNDS)]
        await store_responses(database, old, STORED_RESPONSES)
        taken = {
            kind.__name__: [await milliseconds(database, kind) for _ in range(ROUNDS)]
            for kind in (responses, attempts, payments)
        }
        nothing = [await milliseconds(database, none) for _ in range(ROUNDS)]
        longest = max(median(each) for each in taken.values())
        results.append(
            {
                "payments": size,
                "former_sweep_ms": median(before[:1]),
                "former_processor_ms": median_processor(before[:1]),
                **{f"{name}_ms": median(each) for name, each in taken.items()},
                **{f"{name}_processor_ms": median_processor(each) for name, each in taken.items()},
                "nothing_to_delete_ms": median(nothing),
                "ratio": round(longest / median(before[:1]), 3),
                "is_met": longest <= GOAL_MS,
            }
        )
    await database.close()
    return results


def main() -> None:
    logs.configure("warning")
    parser = argparse.ArgumentParser()
    parser.add_argument("--database-url", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sizes = asyncio.run(measure(Settings(data_dir=folder, database_url=options.database_url)))
    claim = f"each deletion of up to {ROWS_AT_ONCE} rows takes {GOAL_MS:.0f} ms or less"
    print(json.dumps({"claim": claim, "sizes": sizes}, indent=2))


if __name__ == "__main__":
    main()
