"""Graceful stops under load: how many requests get no answer when the server is stopped with SIGTERM, of 20 stops.

The baseline is the stop of the HTTP server alone (Granian), which SIGINT to its processes starts.

Half of the clients keep their connection, half open one for each request. A request is lost where its connection was
made and ends without a whole answer. A connection that is refused was not accepted. Goal: none is lost.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from measuring.servers import first_answer, free_port, new_key, running, tollhouse

STOPS = 20
CLIENTS = 48
LOAD_SECONDS = 1.0
PATH = "/defense/feeds/events?limit=20"


async def client(port: int, head: bytes, outcomes: Counter[str], *, keeps: bool) -> None:
    """Call again and again, until no connection can be made."""
    writer: asyncio.StreamWriter | None = None
    while True:
        try:
            if writer is None:
                reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 0.9)
        except (OSError, TimeoutError):
            outcomes["not accepted"] += 1
            return
        try:
            is_idle = reader.at_eof()  # the server ended the connection before the request
            writer.write(head)
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
            lines = answer.decode("latin-1").lower().split("\r\n")
            length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
            await reader.readexactly(length)
            outcomes[lines[0].split()[1]] += 1
            ends = "connection: close" in lines
            outcomes["closing"] += ends
        except (OSError, EOFError, TimeoutError):
            outcomes["ended while idle" if is_idle else "lost"] += 1
            ends = True
        if ends or not keeps:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            writer = None
        await asyncio.sleep(0.005)


async def load(
    port: int, key: str, process: subprocess.Popen[bytes], *, is_baseline: bool
) -> tuple[Counter[str], float]:
    head = f"GET {PATH} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n\r\n".encode()
    outcomes: Counter[str] = Counter()
    clients = [asyncio.create_task(client(port, head, outcomes, keeps=bool(n % 2))) for n in range(CLIENTS)]
    await asyncio.sleep(LOAD_SECONDS)
    begun = time.perf_counter()
    if is_baseline:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.terminate()
    await asyncio.to_thread(process.wait)
    taken = time.perf_counter() - begun
    await asyncio.gather(*clients)
    return outcomes, taken


def measure(folder: Path, stops: int) -> dict[str, Any]:
    key: str = json.loads(new_key(folder / "data", folder / "keys.log"))["api_key"]
    total: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    losing: Counter[bool] = Counter()
    seconds: list[float] = []
    for number in range(2 * stops):
        port, is_baseline = free_port(), number % 2 == 1
        with running(tollhouse(port, folder / "data"), folder / "server.log") as process:
            first_answer(process, port, PATH, {"Authorization": f"Bearer {key}"})
            outcomes, taken = asyncio.run(load(port, key, process, is_baseline=is_baseline))
        name = "baseline" if is_baseline else "stop"
        print(f"{name} {number // 2 + 1}/{stops}: {dict(outcomes)}, {taken:.1f} s", file=sys.stderr)
        total[is_baseline] += outcomes
        losing[is_baseline] += outcomes["lost"] > 0
        if not is_baseline:
            seconds.append(taken)
    return {
        "claim": "no stop under load loses a request",
        "stops": stops,
        "clients": CLIENTS,
        "stops_that_lost_a_request": losing[False],
        "requests": dict(total[False]),
        "longest_stop_seconds": round(max(seconds), 2),
        "baseline_stops_that_lost_a_request": losing[True],
        "baseline_requests": dict(total[True]),
        "is_met": losing[False] == 0,
    }


def main() -> None:
    stops = int(sys.argv[1]) if len(sys.argv) > 1 else STOPS
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), stops), indent=2))


if __name__ == "__main__":
    main()
