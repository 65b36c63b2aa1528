"""Paid calls a second of three processes on one PostgreSQL, against one process in the same run.

`python benchmarks/ledger_processes.py --database-url URL` prints one JSON object: calls that are reserved, posted and
delivered a second, at 0, 1 and 5 ms of added round-trip time; how long a process that is stopped within a batch delays
another; and the most connections that a server opens under load. URL names an empty PostgreSQL database, with fsync on.
Needs two cores.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import httpx2
from measuring.servers import first_answer, free_port, running, tollhouse
from sqlalchemy.engine import make_url

from tollhouse import logs
from tollhouse.accounts.keys import new_key
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import Ledger, open_ledger
from tollhouse.payments.ledger.types import StoredResponse, Transfer
from tollhouse.storage.database import Database, open_database

IN_FLIGHT = 64
AGENTS = 10_000
PRICE = 10_000
PROCESSES = 3
DELAYS_MS = (0, 1, 5)
GOALS = {0: 1.2, 1: 1.2, 5: 2.2}
GOAL_FREEZE_SECONDS = 1.0
GOAL_CONNECTIONS = 8
WARM_SECONDS = 1.0
FREEZES, FROZEN_SECONDS = 10, 3.0
CALLERS, CALLING_SECONDS = 64, 10.0
COUNT_CONNECTIONS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
# A feed's page as it is paid for: 20 events.
ANSWER = StoredResponse(200, "application/json", b"x" * 12_000, etag='"abc"')


async def opened(url: str) -> tuple[Ledger, Database]:
    settings = Settings(database_url=url)
    database = open_database(settings)
    return await open_ledger(settings, database), database


async def call(ledger: Ledger, name: str, agent: str) -> None:
    """A paid call: reserve, post with its response, delivered."""
    await ledger.reserve(name, agent, "revenue", PRICE, "call", b"f" * 16)
    await ledger.post(name, ANSWER)
    ledger.delivered(name)


async def work(url: str, name: str, seconds: float) -> int:
    """The calls of one process in that time, after a second that does not count."""
    ledger, database = await opened(url)
    agents = random.Random(name)
    done = 0
    begun = time.monotonic() + WARM_SECONDS

    async def client(number: int) -> None:
        nonlocal done
        turn = 0
        while (now := time.monotonic()) < begun + seconds:
            agent = f"agent:{agents.randrange(AGENTS)}"
            await call(ledger, f"call:{agent}:{name}:{number}:{turn}", agent)
            turn += 1
            done += now >= begun

    await asyncio.gather(*(client(number) for number in range(IN_FLIGHT)))
    await ledger.close()
    await database.close()
    return done


async def forward(port: int, far_port: int, seconds: float) -> None:
    """A TCP proxy that hands on what clients send after a delay, and what the server sends at once."""
    loop = asyncio.get_running_loop()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
        while chunk := await reader.read(1 << 20):
            if delay:
                loop.call_later(delay, writer.write, chunk)
            else:
                writer.write(chunk)
        loop.call_later(delay, writer.close)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", far_port)
        with contextlib.suppress(OSError):
            await asyncio.gather(pipe(reader, far_writer, seconds), pipe(far_reader, writer, 0))

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


@contextlib.contextmanager
def delayed(url: str, delay_ms: int) -> Iterator[str]:
    """The URL of the database with that much added to each round trip."""
    if not delay_ms:
        yield url
        return
    port = free_port()
    command = [sys.executable, __file__, "--role", "proxy", "--port", str(port), "--far", str(make_url(url).port)]
    process = subprocess.Popen([*command, "--seconds", str(delay_ms / 1_000)])
    time.sleep(1)
    try:
        yield make_url(url).set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
    finally:
        process.terminate()
        process.wait()


def worker(url: str, name: str, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--role", "work", "--database-url", url, "--name", name]
    return subprocess.Popen([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)


def calls_per_second(url: str, name: str, count: int, seconds: float) -> float:
    processes = [worker(url, f"{name}-{number}", seconds) for number in range(count)]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("a worker failed")
    return sum(map(int, outputs)) / seconds


def growth(url: str, rounds: int, seconds: float) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for delay in DELAYS_MS:
        one, three, ratios = [], [], []
        with delayed(url, delay) as address:
            for number in range(rounds):
                for count, rates in ((1, one), (PROCESSES, three)):
                    rates.append(calls_per_second(address, f"{delay}ms-{number}-{count}", count, seconds))
                ratios.append(round(three[-1] / one[-1], 2))
                print(f"{delay} ms: {one[-1]:.0f} and {three[-1]:.0f} calls/s", file=sys.stderr)
        ratio = statistics.median(ratios)
        result[f"{delay}_ms"] = {
            "one_process": round(statistics.median(one)),
            "three_processes": round(statistics.median(three)),
            "ratio": ratio,
            "ratio_by_round": ratios,
            "goal": GOALS[delay],
            "is_met": ratio >= GOALS[delay],
        }
    return result


async def freeze(url: str) -> dict[str, Any]:
    """The longest call of this process while another one, in the middle of its batches, is stopped and goes on."""
    seconds = FREEZES * (FROZEN_SECONDS + 2) + 10
    process = worker(url, "frozen", seconds)
    ledger, database = await opened(url)
    moments = random.Random(1)
    before, during = [0.0], [0.0]
    longest = before

    async def client(number: int) -> None:
        turn = 0
        while process.poll() is None:
            begun = time.monotonic()
            agent = f"agent:{moments.randrange(AGENTS)}"
            await call(ledger, f"call:{agent}:beside:{number}:{turn}", agent)
            longest[0] = max(longest[0], time.monotonic() - begun)
            turn += 1

    clients = [asyncio.create_task(client(number)) for number in range(8)]
    await asyncio.sleep(3)
    for _ in range(FREEZES):
        longest = before
        await asyncio.sleep(moments.uniform(0.5, 1.5))
        longest = during
        os.kill(process.pid, signal.SIGSTOP)
        await asyncio.sleep(FROZEN_SECONDS)
        os.kill(process.pid, signal.SIGCONT)
    process.kill()
    process.wait()
    await asyncio.gather(*clients)
    await ledger.close()
    await database.close()
    print(f"frozen: {during[0]:.3f} s, both running: {before[0]:.3f} s", file=sys.stderr)
    return {
        "freezes": FREEZES,
        "longest_call_seconds": round(during[0], 3),
        "longest_call_seconds_while_both_run": round(before[0], 3),
        "goal": GOAL_FREEZE_SECONDS,
        "is_met": during[0] <= GOAL_FREEZE_SECONDS,
    }


async def connections(url: str) -> dict[str, Any]:
    """The most connections of one server while many callers send keys that it must look up, and read balances."""
    counting = await asyncpg.connect(url.replace("+asyncpg", ""))
    port = free_port()
    most = answers = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TOLLHOUSE_DATABASE_URL"] = url
        with running(tollhouse(port, Path(folder)), Path(folder) / "log") as server:
            await asyncio.to_thread(first_answer, server, port, "/health", {})
            until = time.monotonic() + CALLING_SECONDS

            async def caller() -> None:
                nonlocal answers
                async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                    while time.monotonic() < until:
                        await client.get("/defense/feeds/events", headers={"Authorization": f"Bearer {new_key()}"})
                        await client.get(
                            "/api/agent/balance", params={"wallet_address": f"0x{random.randbytes(20).hex()}"}
                        )
                        answers += 2

            callers = [asyncio.create_task(caller()) for _ in range(CALLERS)]
            while time.monotonic() < until:
                most = max(most, await counting.fetchval(COUNT_CONNECTIONS))
                await asyncio.sleep(0.01)
            await asyncio.gather(*callers)
        del os.environ["TOLLHOUSE_DATABASE_URL"]
    await counting.close()
    return {"most": most, "requests": answers, "goal": GOAL_CONNECTIONS, "is_met": most <= GOAL_CONNECTIONS}


async def fund(url: str) -> None:
    ledger, database = await opened(url)
    deposits = (Transfer(f"d:{n}", "treasury", f"agent:{n}", 10**12, "deposit") for n in range(AGENTS))
    await asyncio.gather(*(ledger.move(one) for one in deposits))
    await ledger.close()
    await database.close()


async def verify(url: str) -> dict[str, Any]:
    """Raises RuntimeError when the ledger does not balance after everything."""
    ledger, database = await opened(url)
    report = await ledger.verify()
    await ledger.close()
    await database.close()
    if not report.balanced:
        raise RuntimeError(report.differences)
    return {"balanced": report.balanced, "transfers": report.transfers}


def measure(url: str, rounds: int, seconds: float) -> dict[str, Any]:
    asyncio.run(fund(url))
    return {
        "claim": "three processes on one PostgreSQL carry more paid calls than one, and none waits for a frozen one",
        "in_flight": IN_FLIGHT,
        "agents": AGENTS,
        "processes": growth(url, rounds, seconds),
        "freeze": asyncio.run(freeze(url)),
        "connections": asyncio.run(connections(url)),
        "ledger": asyncio.run(verify(url)),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database-url", default="")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=6.0)
    # What this script starts itself as.
    arguments.add_argument("--role", choices=["work", "proxy"], help=argparse.SUPPRESS)
    arguments.add_argument("--name", default="", help=argparse.SUPPRESS)
    arguments.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--far", type=int, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    logs.configure("error")
    if chosen.role == "proxy":
        asyncio.run(forward(chosen.port, chosen.far, chosen.seconds))
    elif chosen.role == "work":
        print(asyncio.run(work(chosen.database_url, chosen.name, chosen.seconds)))
    elif not chosen.database_url:
        print("needs --database-url: an empty PostgreSQL database", file=sys.stderr)
    else:
        print(json.dumps(measure(chosen.database_url, chosen.rounds, chosen.seconds), indent=2))


if __name__ == "__main__":
    main()
