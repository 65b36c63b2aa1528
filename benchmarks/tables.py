"""A large declared table: when the server listens, when the table is complete, how long a request waits meanwhile.

`python benchmarks/tables.py [ROWS]` (120,000) makes a CSV file, starts a server on it twice, with an empty data
directory and with the one of the first start, and asks for `/health` every 10 ms. The baseline of the longest wait is
the same server afterwards, for as long, with nothing to do: a busy machine shows in both; that of the second start is
the first. Goals: listening within 5 s; a restart complete within 3 s; a request waits at most 0.25 s.
"""

import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring.servers import BIN, first_answer, free_port, get, running

ROWS = 120_000
PAUSE_SECONDS = 0.01
MOST_SECONDS = 600
IDLE_SECONDS = 15
KINDS = ("museum", "park", "church", "castle", "school", "market")
WORDS = ("quiet", "brown", "northern", "bright", "hollow", "winter", "amber", "silver", "harbour", "garden", "mill")


def write_table(path: Path, rows: int) -> None:
    chance = random.Random(3)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["id", "Name", "Kind", "Opened", "Price (€)", "Rating", "Latitude", "Longitude", "In print", "Site"]
        )
        for number in range(rows):
            name = f"{chance.choice(WORDS)} {chance.choice(WORDS)} {chance.randrange(9_999)}"
            day = f"{chance.randrange(1950, 2025)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
            numbers = [f"{chance.lognormvariate(3, 1):.2f}", round(chance.uniform(1, 5), 1)]
            place = [round(chance.uniform(35, 60), 5), round(chance.uniform(-10, 30), 5)]
            writer.writerow([f"P-{number:06}", name, chance.choice(KINDS), day, *numbers, *place,
                             chance.choice(("yes", "no")), f"https://example.org/{number}"])  # fmt: skip


def measure_start(folder: Path, rows: int) -> dict[str, Any]:
    """Seconds until the server listens and until the table is complete, and the longest wait for `/health`."""
    port = free_port()
    command = [BIN / "tollhouse", "serve", "places", "--port", str(port), "--config", str(folder / "tollhouse.toml")]
    begun = time.perf_counter()
    with running(command, folder / "server.log") as process:
        first_answer(process, port, "/health", {})
        listening = time.perf_counter() - begun
        longest, health = 0.0, wait_for_health(port)[1]
        while health["status"] != "ok" and time.perf_counter() - begun < MOST_SECONDS:
            seconds, health = wait_for_health(port)
            longest = max(longest, seconds)
        complete = time.perf_counter() - begun
        assert health["item_count"] == rows, health
        # The questions' vocabulary is built after the rows are complete.
        until = time.perf_counter() + IDLE_SECONDS
        while time.perf_counter() < until:
            longest = max(longest, wait_for_health(port)[0])
        idle, until = 0.0, time.perf_counter() + IDLE_SECONDS
        while time.perf_counter() < until:
            idle = max(idle, wait_for_health(port)[0])
    return {
        "listening_seconds": round(listening, 1),
        "complete_seconds": round(complete, 1),
        "longest_wait_ms": round(longest * 1_000),
        "idle_longest_wait_ms": round(idle * 1_000),
    }


def wait_for_health(port: int) -> tuple[float, dict[str, Any]]:
    time.sleep(PAUSE_SECONDS)
    begun = time.perf_counter()
    body = get(port, "/health", {})[2]
    return time.perf_counter() - begun, json.loads(body)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "places.csv", rows)
        settings = f'data_dir = "{folder / "data"}"\nservices_dir = "{folder / "services"}"\n'
        (folder / "tollhouse.toml").write_text(settings, "utf-8")
        begun = time.perf_counter()
        made = [BIN / "tollhouse", "new", "places", "--from", str(folder / "places.csv"), "--config",
                str(folder / "tollhouse.toml")]  # fmt: skip
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        figures = {"rows": rows, "new_seconds": round(time.perf_counter() - begun, 1)}
        first, again = measure_start(folder, rows), measure_start(folder, rows)
        ratio = round(again["complete_seconds"] / first["complete_seconds"], 3)
        print(json.dumps({**figures, "first": first, "again": again, "again_of_first": ratio}))


if __name__ == "__main__":
    main()
