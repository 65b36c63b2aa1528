"""A proxied GET of 5 KB with a key against applications that only pass it on, on the same server, in the same run.

These are bare ASGI applications with the client of Tollhouse, pyreqwest and aiohttp, the fastest of which counts; and a
FastAPI application behind the x402 SDK's middleware, whose called route is free of payment: it looks the route up and
passes the call on, where Tollhouse verifies the key, counts the call and states its limits. Then what the toll adds to
the latency at 200 requests a second, and the memory of 1,000 streams of events at once, before and after the load.
Goals: at least .6 of the fastest bare application; ahead of the SDK; p99 at most 2 ms more than the bare one's; at most
150 MB before the load.
`python benchmarks/proxy.py [ROUNDS [SECONDS]]`. The first run makes a virtual environment in .venv/benchmarks.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
from keyed_events import usual_python
from measuring.load import Target, exactly, saturate
from measuring.servers import BIN, first_answer, free_port, get, new_key, processor_seconds, running

HERE = Path(__file__).parent
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
COUNTED = 1_000
PACE = 200
PACED_SECONDS = 5
STREAMS = 1_000
BARE = ("bare", "pyreqwest", "aiohttp")
GOAL_OF_BARE = 0.6
GOAL_OF_SDK = 1.0
GOAL_ADDED_MS = 2.0
GOAL_MB = 150
DECLARATION = """title = "Weather"
access = "key"
other_routes = "key"

[upstream]
url = "http://127.0.0.1:{port}"
"""


async def paced(target: Target, seconds: float) -> list[float]:
    """The seconds that each of `PACE` requests a second took, counted from when it was due."""
    connections: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(16):
        connections.put_nowait(await asyncio.open_connection("127.0.0.1", target.port))
    sent = f"GET {target.path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {target.key}\r\n\r\n".encode()

    async def one(due: float) -> float:
        await asyncio.sleep(due - time.perf_counter())
        reader, writer = connection = await connections.get()
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(head.decode())
        await reader.readexactly(target.body_bytes)
        connections.put_nowait(connection)
        return time.perf_counter() - due

    begin = time.perf_counter() + 0.1
    waits = await asyncio.gather(*(one(begin + number / PACE) for number in range(int(seconds * PACE))))
    while not connections.empty():
        connections.get_nowait()[1].close()
    return sorted(waits)


def megabytes(pid: int) -> float:
    """The memory of a server and the processes it started; what several share is counted once, on Linux."""
    parent = psutil.Process(pid)
    held = [each.memory_full_info() for each in [parent, *parent.children(recursive=True)]]
    return sum(getattr(one, "pss", one.rss) for one in held) / 1e6


async def streams(pid: int, port: int, key: str) -> dict[str, float]:
    """The memory before and while `STREAMS` streams are open, each of which goes on to receive events."""
    before = megabytes(pid)
    head = f"GET /events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\r\n".encode()

    async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4_096)
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(answer.decode())
        return reader, writer

    connections = []
    for _ in range(STREAMS // 50):
        connections += await asyncio.gather(*(opened() for _ in range(50)))
    for _ in range(3):
        await asyncio.gather(*(reader.readuntil(b"data: 1\n\n") for reader, _ in connections))
    during = megabytes(pid)
    for _, writer in connections:
        writer.close()
    return {
        "streams": STREAMS,
        "mb_before": round(before),
        "mb_during": round(during),
        "during_of_before": round(during / before, 2),
    }


def compare(folder: Path) -> dict[str, Any]:
    ports = {name: free_port() for name in ("upstream", *BARE, "x402", "tollhouse")}
    upstream = f"http://127.0.0.1:{ports['upstream']}"
    passing = {
        kind: [usual_python(), HERE / "baselines" / "passing.py", kind, str(ports[kind]), upstream]
        for kind in ("pyreqwest", "aiohttp", "x402")
    }
    (folder / "services").mkdir()
    (folder / "services" / "weather.toml").write_text(DECLARATION.format(port=ports["upstream"]), "utf-8")
    key: str = json.loads(new_key(folder / "data", folder / "keys.log"))["api_key"]
    weather = [sys.executable, HERE / "baselines" / "weather.py"]
    commands = {
        "upstream": [*weather, "upstream", str(ports["upstream"])],
        "bare": [*weather, "passing", str(ports["bare"]), upstream],
        **passing,
        "tollhouse": [BIN / "tollhouse", "serve", "weather", "--port", str(ports["tollhouse"]), "--data-dir",
                      str(folder / "data")],
    }  # fmt: skip
    targets, pids = {}, {}
    with ExitStack() as stack:
        for name, command in commands.items():
            variables = {"PYTHONPATH": str(HERE / "baselines"), "TOLLHOUSE_SERVICES_DIR": str(folder / "services")}
            process = stack.enter_context(running(command, folder / f"{name}.log", **variables))
            _, body = first_answer(process, ports[name], "/json", {"Authorization": f"Bearer {key}"})
            targets[name], pids[name] = Target(ports[name], "/json", key, len(body)), process.pid
        return measured(targets, pids)


def used(target: Target) -> int:
    """How many calls the meter has counted for this key today."""
    _, _, body = get(target.port, "/api/keys/verify", {"Authorization": f"Bearer {target.key}"})
    return int(json.loads(body)["usage"]["day"]["used"])


def processor_microseconds(target: Target, pid: int) -> float:
    """The processor time of a request, which other work on the machine disturbs least."""
    before = processor_seconds(pid)
    exactly(target, 5 * COUNTED)
    return (processor_seconds(pid) - before) / (5 * COUNTED) * 1e6


def ratios(rates: dict[str, list[float]], others: Sequence[str]) -> list[float]:
    """Of each round: the rate of Tollhouse, divided by that of the fastest of the others."""
    return [
        round(mine / max(theirs), 3)
        for mine, *theirs in zip(rates["tollhouse"], *(rates[name] for name in others), strict=True)
    ]


def measured(targets: dict[str, Target], pids: dict[str, int]) -> dict[str, Any]:
    ours = targets["tollhouse"]
    held = asyncio.run(streams(pids["tollhouse"], ours.port, ours.key))
    before = used(ours)
    exactly(ours, COUNTED)
    if used(ours) - before != COUNTED:
        raise RuntimeError(f"{COUNTED} requests were answered, the meter counted {used(ours) - before}")
    rates: dict[str, list[float]] = {name: [] for name in targets}
    for number in range(ROUNDS):
        for name, target in targets.items():
            load = saturate(target, SECONDS)
            print(f"round {number + 1}/{ROUNDS} {name}: {load.per_second:,.0f} requests/s", file=sys.stderr)
            rates[name].append(load.per_second)
    of_bare = ratios(rates, BARE)
    of_sdk = ratios(rates, ["x402"])
    waits = {name: asyncio.run(paced(target, PACED_SECONDS)) for name, target in targets.items()}
    p99 = {name: each[len(each) * 99 // 100] * 1e3 for name, each in waits.items()}
    p50 = {name: each[len(each) // 2] * 1e3 for name, each in waits.items()}
    loaded = asyncio.run(streams(pids["tollhouse"], ours.port, ours.key))
    cost = {name: processor_microseconds(target, pids[name]) for name, target in targets.items()}
    return {
        "claim": "proxied calls with a key: at least .6 of the fastest application that only passes them on",
        "body_bytes": ours.body_bytes,
        "calls_checked_against_meter": COUNTED,
        **{f"{name}_per_second": round(statistics.median(each)) for name, each in rates.items()},
        "of_bare": round(statistics.median(of_bare), 3),
        "of_bare_by_round": of_bare,
        "of_sdk": round(statistics.median(of_sdk), 3),
        "of_sdk_by_round": of_sdk,
        **{f"{name}_processor_microseconds": round(each, 1) for name, each in cost.items()},
        "requests_per_second_paced": PACE,
        **{f"{name}_p50_ms": round(each, 2) for name, each in p50.items()},
        **{f"{name}_p99_ms": round(each, 2) for name, each in p99.items()},
        "added_p50_ms": round(p50["tollhouse"] - p50["bare"], 2),
        "added_p99_ms": round(p99["tollhouse"] - p99["bare"], 2),
        **held,
        **{f"{name}_after_load": each for name, each in loaded.items() if name != "streams"},
        "is_met": statistics.median(of_bare) >= GOAL_OF_BARE
        and statistics.median(of_sdk) > GOAL_OF_SDK
        and p99["tollhouse"] - p99["bare"] <= GOAL_ADDED_MS
        and held["mb_during"] <= GOAL_MB,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(Path(folder)), indent=2))


if __name__ == "__main__":
    main()
