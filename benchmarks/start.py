"""From the start of the process to the first 200 of a keyed events call, and the memory of the server after load.

Goals: at most 2 s on a fresh data folder and on one in use, at most 300 MB for all processes of the server. The
baseline is an empty ASGI application on the same server.
"""

import contextlib
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from measuring.load import Target, saturate
from measuring.servers import first_answer, free_port, new_key, running, tollhouse

HERE = Path(__file__).parent
PATH = "/defense/feeds/events?limit=20"
ROUNDS = 5
LOAD_SECONDS = 5
GOAL_SECONDS = 2.0
GOAL_MEGABYTES = 300


@contextlib.contextmanager
def bare(folder: Path) -> Iterator[tuple[int, int]]:
    """The port and process id of an ASGI application without anything in it, which has answered."""
    port, prepared = free_port(), folder / "empty.json"
    prepared.write_text('{"headers": [], "body": "x"}', "utf-8")
    command = [sys.executable, HERE / "baselines" / "bare.py", str(port), prepared]
    with running(command, folder / "bare.log", PYTHONPATH=str(HERE / "baselines")) as process:
        first_answer(process, port, "/", {})
        yield port, process.pid


def bare_started(folder: Path) -> float:
    """Seconds until it answers."""
    begun = time.perf_counter()
    with bare(folder):
        return time.perf_counter() - begun


def started(folder: Path, data_dir: Path, key: str) -> float:
    """Seconds until Tollhouse answers the keyed call."""
    port = free_port()
    begun = time.perf_counter()
    with running(tollhouse(port, data_dir), folder / "tollhouse.log") as process:
        first_answer(process, port, PATH, {"Authorization": f"Bearer {key}"})
        return time.perf_counter() - begun


def loaded(folder: Path, data_dir: Path, key: str) -> dict[str, Any]:
    """The memory of the server's processes before and after a load."""
    port = free_port()
    with running(tollhouse(port, data_dir), folder / "tollhouse.log") as process:
        _, body = first_answer(process, port, PATH, {"Authorization": f"Bearer {key}"})
        idle = _megabytes(process.pid)
        load = saturate(Target(port, PATH, key, len(body)), LOAD_SECONDS)
        after = _megabytes(process.pid)
    with bare(folder) as (port, pid):
        saturate(Target(port, "/", key, 1), LOAD_SECONDS)
        baseline = sum(_megabytes(pid))
    return {
        "requests": load.requests,
        "idle_megabytes": round(sum(idle)),
        "megabytes": round(sum(after)),
        "bare_megabytes": round(baseline),
        "megabytes_of_bare": round(sum(after) / baseline, 2),
        "megabytes_by_process": [round(each) for each in after],
    }


def _megabytes(pid: int) -> list[float]:
    """The resident memory of a process and of those it started, the largest first."""
    parent = psutil.Process(pid)
    return sorted((each.memory_info().rss / 2**20 for each in [parent, *parent.children(recursive=True)]), reverse=True)


def measure(folder: Path) -> dict[str, Any]:
    # A fresh folder holds a key and nothing else: without one no call is answered with 200.
    fresh, in_use = folder / "fresh", folder / "in-use"
    key: str = json.loads(new_key(fresh, folder / "keys.log"))["api_key"]
    shutil.copytree(fresh, in_use)
    started(folder, in_use, key)
    runs: dict[str, list[float]] = {"bare": [], "fresh": [], "in_use": []}
    for number in range(ROUNDS):
        copy = folder / f"fresh-{number}"
        shutil.copytree(fresh, copy)
        runs["bare"].append(bare_started(folder))
        runs["fresh"].append(started(folder, copy, key))
        runs["in_use"].append(started(folder, in_use, key))
        told = ", ".join(f"{name} {seconds[-1]:.2f} s" for name, seconds in runs.items())
        print(f"round {number + 1}/{ROUNDS}: {told}", file=sys.stderr)
    memory = loaded(folder, in_use, key)
    medians = {name: round(statistics.median(seconds), 2) for name, seconds in runs.items()}
    return {
        "claim": "the first answer within 2 s of the start, in at most 300 MB",
        "rounds": ROUNDS,
        "bare_seconds": medians["bare"],
        "fresh_seconds": medians["fresh"],
        "in_use_seconds": medians["in_use"],
        "fresh_of_bare": _times(runs, "fresh"),
        "in_use_of_bare": _times(runs, "in_use"),
        **memory,
        "goal_seconds": GOAL_SECONDS,
        "goal_megabytes": GOAL_MEGABYTES,
        "is_met": max(medians["fresh"], medians["in_use"]) <= GOAL_SECONDS and memory["megabytes"] <= GOAL_MEGABYTES,
    }


def _times(runs: dict[str, list[float]], name: str) -> float:
    """How many times as long as the bare application, the median of the rounds."""
    return round(statistics.median(ours / theirs for ours, theirs in zip(runs[name], runs["bare"], strict=True)), 2)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder)), indent=2))


if __name__ == "__main__":
    main()
