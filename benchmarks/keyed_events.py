"""Requests a second of a keyed events call, against a bare ASGI application and against FastAPI doing the same.

Goals: at least half of the bare application on the same server, at least five times FastAPI. Needs two cores. The
first run makes a virtual environment for FastAPI in .venv/benchmarks.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from measuring.load import CONNECTIONS, Load, Target, exactly, saturate
from measuring.servers import first_answer, free_port, get, new_key, processor_seconds, running, tollhouse

HERE = Path(__file__).parent
PATH = "/defense/feeds/events?limit=20"
ROUNDS = 4
SECONDS = 3
COUNTED = 2_000
GOAL_OF_BARE = 0.5
GOAL_OF_USUAL = 5.0
# Each server adds these by itself, or they belong to one request.
ADDED_BY_SERVER = {"server", "date"}


def usual_python() -> Path:
    """The interpreter of the environment that has FastAPI, made on the first run."""
    folder = HERE.parent / ".venv" / "benchmarks"
    python, stamp, wanted = folder / "bin" / "python", folder / "made-from", HERE / "requirements.txt"
    if not stamp.exists() or stamp.read_bytes() != wanted.read_bytes():
        print("installing FastAPI into .venv/benchmarks", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--require-hashes"]
        subprocess.run([*install, "--requirement", wanted], check=True, stdout=sys.stderr)
        stamp.write_bytes(wanted.read_bytes())
    return python


class Server(NamedTuple):
    """One of the servers compared, and what to ask of it."""

    name: str
    pid: int
    target: Target


class Run(NamedTuple):
    """One round's load, and the processor time that the server took for each request."""

    load: Load
    processor_microseconds: float


def used(target: Target) -> int:
    """How many calls the meter has counted for this key today."""
    status, _, body = get(target.port, "/defense/api/keys/verify", {"Authorization": f"Bearer {target.key}"})
    if status != 200:
        raise RuntimeError(f"the key's status answered {status}")
    return int(json.loads(body)["usage"]["day"]["used"])


def check_counting(target: Target) -> None:
    """The meter counts each of COUNTED answers once."""
    before = used(target)
    exactly(target, COUNTED)
    counted = used(target) - before
    if counted != COUNTED:
        raise RuntimeError(f"{COUNTED} requests were answered, the meter counted {counted}")


def compare(folder: Path, python: Path) -> dict[str, Any]:
    ports = {name: free_port() for name in ("tollhouse", "bare", "usual")}
    key: str = json.loads(new_key(folder / "data", folder / "keys.log"))["api_key"]
    headers = {"Authorization": f"Bearer {key}"}
    with ExitStack() as stack:
        server = stack.enter_context(running(tollhouse(ports["tollhouse"], folder / "data"), folder / "tollhouse.log"))
        received, body = first_answer(server, ports["tollhouse"], PATH, headers)
        sent = [(name, value) for name, value in received if name.lower() not in ADDED_BY_SERVER]
        prepared, events = folder / "answer.json", folder / "events.json"
        prepared.write_text(json.dumps({"headers": sent, "body": body.decode()}), "utf-8")
        events.write_bytes(body)
        commands = {
            "bare": [sys.executable, HERE / "baselines" / "bare.py", str(ports["bare"]), prepared],
            "usual": [python, HERE / "baselines" / "usual.py", str(ports["usual"]), events, key],
        }
        sizes, pids = {"tollhouse": len(body)}, {"tollhouse": server.pid}
        for name, command in commands.items():
            process = stack.enter_context(running(command, folder / f"{name}.log", PYTHONPATH=str(HERE / "baselines")))
            _, answered = first_answer(process, ports[name], PATH, headers)
            if json.loads(answered) != json.loads(body):
                raise RuntimeError(f"{name} answers something else")
            sizes[name], pids[name] = len(answered), process.pid
        return measured([Server(name, pids[name], Target(ports[name], PATH, key, sizes[name])) for name in ports])


def measured(servers: list[Server]) -> dict[str, Any]:
    ours = servers[0].target
    check_counting(ours)
    runs: dict[str, list[Run]] = {server.name: [] for server in servers}
    for number in range(ROUNDS):
        for server in servers:
            before, spent = used(ours), processor_seconds(server.pid)
            load = saturate(server.target, SECONDS)
            spent = processor_seconds(server.pid) - spent
            print(f"round {number + 1}/{ROUNDS} {server.name}: {load.per_second:,.0f} requests/s", file=sys.stderr)
            runs[server.name].append(Run(load, spent / load.requests * 1e6))
            # At the end a connection may have one answer under way that the generator no longer reads.
            asked_of_us = load.requests if server.target == ours else 0
            if not 0 <= used(ours) - before - asked_of_us <= CONNECTIONS * 2:
                raise RuntimeError(f"{asked_of_us} requests were answered, the meter counted another number")
    of_bare, of_usual = ratios(runs, "bare"), ratios(runs, "usual")
    return {
        "claim": "keyed events calls: at least half of a bare ASGI application, five times FastAPI",
        "rounds": ROUNDS,
        "seconds_a_round": SECONDS,
        "connections": CONNECTIONS,
        "body_bytes": ours.body_bytes,
        "calls_checked_against_meter": COUNTED,
        **{name: summed_up(each) for name, each in runs.items()},
        "of_bare": statistics.median(of_bare),
        "of_bare_by_round": of_bare,
        "of_usual": statistics.median(of_usual),
        "of_usual_by_round": of_usual,
        "is_met": statistics.median(of_bare) >= GOAL_OF_BARE and statistics.median(of_usual) >= GOAL_OF_USUAL,
    }


def ratios(runs: dict[str, list[Run]], other: str) -> list[float]:
    """Tollhouse's requests/s over another's, round by round."""
    pairs = zip(runs["tollhouse"], runs[other], strict=True)
    return [round(ours.load.per_second / theirs.load.per_second, 3) for ours, theirs in pairs]


def summed_up(runs: list[Run]) -> dict[str, float]:
    """Processor time is told because other work on the machine disturbs it least."""
    return {
        "requests_per_second": round(statistics.median(run.load.per_second for run in runs)),
        "p50_ms": round(statistics.median(run.load.p50_ms for run in runs), 2),
        "p99_ms": round(statistics.median(run.load.p99_ms for run in runs), 2),
        "processor_microseconds_a_request": round(statistics.median(run.processor_microseconds for run in runs), 1),
    }


def main() -> None:
    python = usual_python()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(Path(folder), python), indent=2))


if __name__ == "__main__":
    main()
