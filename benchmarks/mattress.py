"""Requests a second of `GET /mattress/api/products?limit=20`, against a bare ASGI application with the same bytes.

Goal: at least half of the bare application on the same server, allowance counted.
"""

import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measuring.load import CONNECTIONS, Target, saturate
from measuring.servers import first_answer, free_port, new_key, processor_seconds, running, tollhouse

HERE = Path(__file__).parent
PATH = "/mattress/api/products?limit=20"
ROUNDS = 3
SECONDS = 2
GOAL_OF_BARE = 0.5
# Each server adds these by itself, or they belong to one request.
ADDED_BY_SERVER = {"server", "date"}


def compare(folder: Path) -> dict[str, Any]:
    key: str = json.loads(new_key(folder / "data", folder / "keys.log"))["api_key"]
    headers = {"Authorization": f"Bearer {key}"}
    ports = {"tollhouse": free_port(), "bare": free_port()}
    with ExitStack() as stack:
        server = stack.enter_context(running(tollhouse(ports["tollhouse"], folder / "data"), folder / "tollhouse.log"))
        received, body = first_answer(server, ports["tollhouse"], PATH, headers)
        sent = [(name, value) for name, value in received if name.lower() not in ADDED_BY_SERVER]
        prepared = folder / "answer.json"
        prepared.write_text(json.dumps({"headers": sent, "body": body.decode()}), "utf-8")
        command = [sys.executable, HERE / "baselines" / "bare.py", str(ports["bare"]), prepared]
        bare = stack.enter_context(running(command, folder / "bare.log", PYTHONPATH=str(HERE / "baselines")))
        _, answered = first_answer(bare, ports["bare"], PATH, headers)
        if answered != body:
            raise RuntimeError("the bare application answers something else")
        targets = {name: Target(port, PATH, key, len(body)) for name, port in ports.items()}
        return measured(targets, {"tollhouse": server.pid, "bare": bare.pid})


def measured(targets: dict[str, Target], pids: dict[str, int]) -> dict[str, Any]:
    per_second: dict[str, list[float]] = {name: [] for name in targets}
    processor: dict[str, list[float]] = {name: [] for name in targets}
    for number in range(ROUNDS):
        for name, target in targets.items():
            spent = processor_seconds(pids[name])
            load = saturate(target, SECONDS)
            processor[name].append((processor_seconds(pids[name]) - spent) / load.requests * 1e6)
            per_second[name].append(load.per_second)
            print(f"round {number + 1}/{ROUNDS} {name}: {load.per_second:,.0f} requests/s", file=sys.stderr)
    of_bare = [ours / theirs for ours, theirs in zip(per_second["tollhouse"], per_second["bare"], strict=True)]
    return {
        "claim": "a page of products: at least half of a bare ASGI application",
        "rounds": ROUNDS,
        "connections": CONNECTIONS,
        "body_bytes": targets["tollhouse"].body_bytes,
        "requests_per_second": {name: round(statistics.median(each)) for name, each in per_second.items()},
        "processor_microseconds_a_request": {name: round(statistics.median(x), 1) for name, x in processor.items()},
        "of_bare": round(statistics.median(of_bare), 3),
        "of_bare_by_round": [round(each, 3) for each in of_bare],
        "is_met": statistics.median(of_bare) >= GOAL_OF_BARE,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(Path(folder)), indent=2))


if __name__ == "__main__":
    main()
