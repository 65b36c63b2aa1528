"""Overload: requests that arrive at a constant rate, whatever is answered, at .5, 1, 2 and 4 times the capacity.

The capacity is the most that four connections, too few to be refused, get in three attempts. Latency counts from the
moment at which a request was due. The first two seconds of a rate, in which the server notices, are counted apart.
Goals at 2 and 4 times: p99 of what is answered at most 4 times that at half of the capacity; 503 with Retry-After
within 100 ms for the rest.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from measuring.servers import first_answer, free_port, new_key, running, tollhouse

PATH = "/mattress/api/products?limit=20&q=firm+cool+{number}"
RATES = (0.5, 1, 2, 4)
SECONDS = 12.0
SETTLING_SECONDS = 2.0
CAPACITY_CONNECTIONS = 4
CAPACITY_SECONDS = 5.0
CAPACITY_ATTEMPTS = 3
ANSWER_SECONDS = 10.0
GOAL_RATIO = 4
GOAL_REFUSED_SECONDS = 0.1

# The server remembers answers: no generator may repeat the searches of the one before.
_numbers = count(time.time_ns() // 1_000_000)


class Outcome(msgspec.Struct):
    """One request: when it was due, the seconds until its answer and until it was sent, and the status (0 for none)."""

    due: float
    seconds: float
    status: int
    says_when: bool = False
    late: float = 0.0


class Client:
    """Connections that are used again."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(self, due: float) -> Outcome:
        """One request with a search of its own."""
        status, says_when, late = 0, False, 0.0
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                status, says_when, late = await self._exchange(due)
        except (OSError, EOFError, TimeoutError):
            pass
        return Outcome(due, time.perf_counter() - due, status, says_when, late)

    async def _exchange(self, due: float) -> tuple[int, bool, float]:
        reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
        path = PATH.format(number=next(_numbers))
        head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\nauthorization: Bearer {self._key}\r\n\r\n"
        writer.write(head.encode())
        late = time.perf_counter() - due
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = answer.index(b"content-length: ") + 16
        await reader.readexactly(int(answer[length : answer.index(b"\r", length)]))
        if b"connection: close" in answer:
            writer.close()
        else:
            self._idle.append((reader, writer))
        return int(answer[9:12]), b"retry-after: " in answer, late


async def capacity(port: int, key: str) -> float:
    """Requests a second, one after another on a few connections."""
    client, answered = Client(port, key), 0
    until = time.perf_counter() + CAPACITY_SECONDS

    async def one_connection() -> None:
        nonlocal answered
        while time.perf_counter() < until:
            outcome = await client.call(time.perf_counter())
            answered += outcome.status == 200

    await asyncio.gather(*(one_connection() for _ in range(CAPACITY_CONNECTIONS)))
    return answered / CAPACITY_SECONDS


async def constant_rate(port: int, key: str, per_second: float) -> list[Outcome]:
    """Requests that are due at equal distances."""
    client, begun = Client(port, key), time.perf_counter()
    calls = []
    for number in range(int(per_second * SECONDS)):
        due = begun + number / per_second
        if (early := due - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        calls.append(asyncio.create_task(client.call(due)))
    outcomes = await asyncio.gather(*calls)
    for outcome in outcomes:
        outcome.due -= begun
    return outcomes


def generate(port: int, key: str, per_second: float, file: Path) -> Any:
    """What the generator, a process of its own, writes: the capacity for a rate of 0, else the outcomes."""
    subprocess.run([sys.executable, __file__, "--generate", str(port), key, str(per_second), file], check=True)
    return msgspec.json.decode(file.read_bytes(), type=list[Outcome] if per_second else float)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[int(len(ordered) * share)] * 1e3, 1) if ordered else 0.0


def summed_up(outcomes: list[Outcome], unloaded_p99_ms: float) -> dict[str, Any]:
    settled = [each for each in outcomes if each.due >= SETTLING_SECONDS]
    served = [each.seconds for each in settled if each.status == 200]
    refused = [each for each in settled if each.status == 503]
    p99 = percentile(served, 0.99)
    return {
        "requests": len(settled),
        "served_per_second": round(len(served) / (SECONDS - SETTLING_SECONDS)),
        "served_p50_ms": percentile(served, 0.5),
        "served_p99_ms": p99,
        "p99_of_unloaded": round(p99 / unloaded_p99_ms, 2) if unloaded_p99_ms else 1.0,
        "refused": len(refused),
        "refused_p50_ms": percentile([each.seconds for each in refused], 0.5),
        "refused_p99_ms": percentile([each.seconds for each in refused], 0.99),
        "refused_with_retry_after": sum(each.says_when for each in refused),
        "sent_late_p99_ms": percentile([each.late for each in settled], 0.99),
        "other_or_none": len(settled) - len(served) - len(refused),
        "while_settling": {
            "served_p99_ms": percentile(
                [each.seconds for each in outcomes if each.status == 200 and each.due < 2], 0.99
            ),
            "none": sum(each.status == 0 for each in outcomes if each.due < SETTLING_SECONDS),
        },
    }


def measure(folder: Path) -> dict[str, Any]:
    key: str = json.loads(new_key(folder / "data", folder / "keys.log"))["api_key"]
    port = free_port()
    # All clients have one address here.
    command, options = tollhouse(port, folder / "data"), {"TOLLHOUSE_IDLE_CONNECTIONS_PER_ADDRESS": "10000"}
    with running(command, folder / "server.log", **options) as process:
        first_answer(process, port, PATH.format(number=0), {"Authorization": f"Bearer {key}"})
        file = folder / "generated"
        per_second: float = max(generate(port, key, 0, file) for _ in range(CAPACITY_ATTEMPTS))
        print(f"capacity {per_second:.0f} requests/s", file=sys.stderr)
        rates: dict[str, dict[str, Any]] = {}
        for share in RATES:
            unloaded = rates["0.5"]["served_p99_ms"] if rates else 0.0
            rates[str(share)] = summed_up(generate(port, key, share * per_second, file), unloaded)
            print(share, rates[str(share)], file=sys.stderr)
            time.sleep(1)
    above = [rates["2"], rates["4"]]
    return {
        "claim": "above capacity, what is served is served in time, and the rest is refused at once",
        "capacity_per_second": round(per_second),
        "seconds_a_rate": SECONDS,
        "rates": rates,
        "is_met": all(
            rate["p99_of_unloaded"] <= GOAL_RATIO
            and rate["refused_p99_ms"] <= GOAL_REFUSED_SECONDS * 1e3
            and rate["refused_with_retry_after"] == rate["refused"]
            and not rate["other_or_none"]
            for rate in above
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generate", nargs=4, metavar=("PORT", "KEY", "RATE", "FILE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.generate:
        port, key, rate = int(chosen.generate[0]), chosen.generate[1], float(chosen.generate[2])
        done = uvloop.run(constant_rate(port, key, rate)) if rate else uvloop.run(capacity(port, key))
        Path(chosen.generate[3]).write_bytes(msgspec.json.encode(done))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder)), indent=2))


if __name__ == "__main__":
    main()
