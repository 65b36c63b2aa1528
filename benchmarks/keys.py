"""What many keys cost: keyed calls over HTTP with 10,000 different keys, against the same calls with one key.

Goal: 10,000 keys cost at most 1.3 times one, in requests a second and in the server's processor time for each. With
`--shared` the server has PostgreSQL and Redis instead of SQLite, with `--workers` more processes. Each worker looks up
every key once, which two workers have done after about five rounds: `--warm-up` rounds come before those measured.
`--lookups` measures, in this process, only what a first lookup costs on SQLite, against the same through the pool.
"""

import argparse
import asyncio
import json
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec
from measuring.load import Load, Target
from measuring.load import exactly as calls_of_one_key
from measuring.servers import first_answer, free_port, processor_seconds, running, tollhouse

from tollhouse import clock
from tollhouse.accounts.keys import KeyRing, key_hash, new_key
from tollhouse.accounts.store import api_key
from tollhouse.config.settings import Settings
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

ROOT = Path(__file__).resolve().parents[1]
PATH = "/defense/feeds/events?limit=20"
KEYS = 10_000
SECRET = "a secret of the benchmark"  # noqa: S105 - of the benchmark's own database
ROUNDS = 5
CALLS = 20_000
CONNECTIONS = 32
GOAL = 1.3
LOOKUPS = 1_000
AT_ONCE = (1, 16)
SHED_SECONDS = 0.05


class KeysLoad(Load):
    """`shed` calls were refused by the overloaded server and made again."""

    shed: int = 0


@contextmanager
def stores(*, is_shared: bool) -> Iterator[dict[str, str]]:
    """The settings of the stores: none for SQLite, else a PostgreSQL and a Redis of this run's own."""
    if not is_shared:
        yield {}
        return
    sys.path.insert(0, str(ROOT))
    from tests.servers import redis, shared
    from tests.servers.postgres import postgres_databases

    shared.open_folder()
    try:
        with postgres_databases() as make:
            port = shared.port_of("redis", redis._start, signal.SIGTERM)  # noqa: SLF001 - as its fixture does
            yield {"database_url": make(), "redis_url": f"redis://127.0.0.1:{port}/0"}
    finally:
        shared.close_folder()


async def make_keys(settings: Settings, count: int) -> list[str]:
    """Keys whose limits are never reached, written at once."""
    database, texts = open_database(settings), [new_key() for _ in range(count)]
    await migrate(database)
    rows = [
        {
            "id": f"key_{number:016x}",
            "hash": key_hash(text, SECRET.encode()),
            "email": f"bench{number}@example.org",
            "tier": "enterprise",
            "per_minute": 100_000_000,
            "created_at": clock.iso(clock.now()),
        }
        for number, text in enumerate(texts)
    ]
    async with database.writing() as connection:
        await connection.execute(api_key.insert(), rows)
    await database.close()
    return texts


def load(port: int, keys: Path, count: int, body_bytes: int) -> KeysLoad:
    """So many calls with the first `count` keys of the file in turn, from a process of their own."""
    command = [sys.executable, __file__, "--load", str(port), str(keys), str(count), str(body_bytes)]
    return msgspec.json.decode(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, type=KeysLoad)


async def call(port: int, keys: Sequence[str], body_bytes: int) -> KeysLoad:
    """CALLS calls on CONNECTIONS connections."""
    turns, left, waits, shed = cycle(keys), iter(range(CALLS)), [], 0

    async def one_connection() -> None:
        nonlocal shed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            head = f"GET {PATH} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {next(turns)}\r\n\r\n"
            sent = time.perf_counter()
            writer.write(head.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            while answer.startswith(b"HTTP/1.1 503 "):
                # On a busy machine: the same call again.
                shed += 1
                await reader.readexactly(int(answer.partition(b"content-length: ")[2].split()[0]))
                await asyncio.sleep(SHED_SECONDS)
                writer.write(head.encode())
                answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(answer.decode("latin-1"))
            await reader.readexactly(body_bytes)
            waits.append(time.perf_counter() - sent)
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(one_connection() for _ in range(CONNECTIONS)))
    taken = time.perf_counter() - begun
    waits.sort()
    return KeysLoad(CALLS, CALLS / taken, waits[CALLS // 2] * 1e3, waits[CALLS * 99 // 100] * 1e3, shed)


def measure(folder: Path, *, is_shared: bool, workers: int, warm_up: int) -> dict[str, Any]:
    with ExitStack() as stack:
        chosen = stack.enter_context(stores(is_shared=is_shared))
        texts = asyncio.run(make_keys(Settings(data_dir=str(folder / "data"), **chosen), KEYS))
        keys = folder / "keys"
        keys.write_text("\n".join(texts))
        port = free_port()
        environment = {f"TOLLHOUSE_{name.upper()}": value for name, value in chosen.items()}
        environment["TOLLHOUSE_KEY_HASH_SECRET"] = SECRET
        command = [*tollhouse(port, folder / "data"), "--workers", str(workers)]
        server = stack.enter_context(running(command, folder / "server.log", **environment))
        _, body = first_answer(server, port, PATH, {"Authorization": f"Bearer {texts[0]}"})
        calls_of_one_key(Target(port, PATH, texts[0], len(body)), 2_000)
        for _ in range(warm_up):
            load(port, keys, KEYS, len(body))
        loads: dict[int, list[KeysLoad]] = {1: [], KEYS: []}
        costs: dict[int, list[float]] = {1: [], KEYS: []}
        for number in range(ROUNDS):
            for count in (1, KEYS):
                before = processor_seconds(server.pid)
                done = load(port, keys, count, len(body))
                loads[count].append(done)
                costs[count].append((processor_seconds(server.pid) - before) / done.requests * 1e6)
                print(
                    f"round {number + 1}/{ROUNDS}, {count} keys: {done.per_second:,.0f} requests/s, "
                    f"{costs[count][-1]:.0f} µs",
                    file=sys.stderr,
                )
    ratios = [one.per_second / many.per_second for one, many in zip(loads[1], loads[KEYS], strict=True)]
    cost_ratios = [many / one for one, many in zip(costs[1], costs[KEYS], strict=True)]
    return {
        "claim": f"{KEYS} different keys cost at most {GOAL} times one key",
        "stores": "PostgreSQL, Redis" if is_shared else "SQLite",
        "workers": workers,
        "calls_a_round": CALLS,
        "rounds": ROUNDS,
        "warm_up_rounds": warm_up,
        **{
            f"{count}_keys": {
                "requests_per_second": round(statistics.median(each.per_second for each in loads[count])),
                "p99_ms": round(statistics.median(each.p99_ms for each in loads[count]), 2),
                "processor_microseconds": round(statistics.median(costs[count]), 1),
                "shed_calls": sum(each.shed for each in loads[count]),
            }
            for count in loads
        },
        "first_round_ratio": round(ratios[0], 3),
        "ratio": round(statistics.median(ratios), 3),
        "processor_ratio": round(statistics.median(cost_ratios), 3),
        "ratio_by_round": [round(each, 3) for each in ratios],
        "processor_ratio_by_round": [round(each, 3) for each in cost_ratios],
        "is_met": statistics.median(ratios) <= GOAL and statistics.median(cost_ratios) <= GOAL,
    }


async def first_lookups(settings: Settings) -> dict[str, Any]:
    """Processor time of looking up keys that are not remembered, so many at once."""
    texts, database = await make_keys(settings, LOOKUPS), open_database(settings)
    quick = database._rows_at_once  # noqa: SLF001 - the baseline is without it

    def locked(*_: object) -> Any:
        raise sqlite3.OperationalError("database is locked")

    async def spent(at_once: int) -> float:
        ring, remaining = KeyRing(database, SECRET.encode()), iter(texts)

        async def one_after_another() -> None:
            for text in remaining:
                await ring.holder(text)

        begun = time.process_time()
        await asyncio.gather(*(one_after_another() for _ in range(at_once)))
        return (time.process_time() - begun) / LOOKUPS * 1e6

    costs: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for name, read in (("pool", locked), ("quick", quick)):
            database._rows_at_once = read  # type: ignore[method-assign] # noqa: SLF001
            for at_once in AT_ONCE:
                costs.setdefault((name, at_once), []).append(await spent(at_once))
    await database.close()
    return {
        f"{at_once}_at_once": {
            "microseconds": round(statistics.median(costs["quick", at_once]), 1),
            "microseconds_with_the_pool": round(statistics.median(costs["pool", at_once]), 1),
            "ratio_by_round": [
                round(quick / pool, 3)
                for quick, pool in zip(costs["quick", at_once], costs["pool", at_once], strict=True)
            ],
        }
        for at_once in AT_ONCE
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", action="store_true", help="PostgreSQL and Redis instead of SQLite")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=0, metavar="ROUNDS")
    parser.add_argument("--lookups", action="store_true", help="first lookups only, in process")
    parser.add_argument("--load", nargs=4, metavar=("PORT", "KEYS", "COUNT", "BODY_BYTES"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.load:
        port, keys, count, body_bytes = chosen.load
        texts = list(islice(Path(keys).read_text().split(), int(count)))
        print(msgspec.json.encode(asyncio.run(call(int(port), texts, int(body_bytes)))).decode())
        return
    with tempfile.TemporaryDirectory() as folder:
        report = (
            asyncio.run(first_lookups(Settings(data_dir=folder)))
            if chosen.lookups
            else measure(Path(folder), is_shared=chosen.shared, workers=chosen.workers, warm_up=chosen.warm_up)
        )
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
