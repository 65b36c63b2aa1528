"""What the way in costs: microseconds a keyed events call spends in `Gate.answer`, in this process, without a server.

With `--profile` the twenty costliest functions are written to standard error.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import statistics
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from time import process_time
from typing import Any

from tollhouse import app, logs
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.http.server import Server

GOAL_MICROSECONDS = 35.0
PATH = "/defense/feeds/events"
CALLS = 5_000
ROUNDS = 15


def scope(path: str, query: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    """What granian hands an application for a GET of this path."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 40_000),
        "scheme": "http",
        "method": "GET",
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "extensions": {},
        "state": {},
    }


async def receive() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


class Sent:
    """Takes the answer in and keeps its last status and body."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body = message["body"]


async def timed(gate: Server, asked: dict[str, Any], calls: int) -> float:
    """Mean microseconds of processor time of one call; every answer must be a 200 with a body."""
    sent = Sent()
    begun = process_time()
    for _ in range(calls):
        await gate.handle(asked, receive, sent)
        assert sent.status == 200, f"answered {sent.status}: {sent.body!r}"
    assert sent.body, "answered without a body"
    return (process_time() - begun) / calls * 1e6


async def empty(calls: int) -> float:
    """What the loop of `timed` costs without a gate: two awaited sends a call."""
    sent = Sent()
    start, body = {"type": "http.response.start", "status": 200}, {"type": "http.response.body", "body": b"x"}
    begun = process_time()
    for _ in range(calls):
        await sent(start)
        await sent(body)
        assert sent.status == 200, "never"
    return (process_time() - begun) / calls * 1e6


async def measure(folder: str, *, profiled: bool) -> dict[str, Any]:
    settings = Settings(data_dir=folder, recorded=True, background_work=False)
    async with open_context(settings, answers_calls=False) as context:
        made = await context.keys.create("bench@example.org", "enterprise", per_minute=100_000_000)
    headers = {"host": "127.0.0.1:8000", "authorization": f"Bearer {made.text}"}
    asked = scope(PATH, b"limit=20", headers)
    async with app.serving(settings) as gate:
        await timed(gate, asked, CALLS)
        if profiled:
            await profile(gate, asked)
        overheads, costs = [], []
        for number in range(ROUNDS):
            overheads.append(await empty(CALLS))
            costs.append(await timed(gate, asked, CALLS))
            print(f"round {number + 1}/{ROUNDS}: {costs[-1]:.1f} µs", file=sys.stderr)
    overhead = statistics.median(overheads)
    cost = statistics.median(costs) - overhead
    return {
        "claim": "a keyed events call spends at most 35 microseconds in the gate",
        "calls": CALLS * ROUNDS,
        "microseconds": round(cost, 2),
        "microseconds_best": round(min(costs) - min(overheads), 2),
        "loop_microseconds": round(overhead, 2),
        "goal_microseconds": GOAL_MICROSECONDS,
        "is_met": cost <= GOAL_MICROSECONDS,
    }


async def profile(gate: Server, asked: dict[str, Any]) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    await timed(gate, asked, CALLS)
    profiler.disable()
    pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="also write the costliest functions to standard error")
    profiled = parser.parse_args().profile
    logs.configure("warning")
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(folder, profiled=profiled)), indent=2))


if __name__ == "__main__":
    main()
