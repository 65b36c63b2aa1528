"""What the defaults of one machine cost, one process on SQLite: the present version against a named commit's.

`python benchmarks/defaults.py [COMMIT [ROUNDS]]` (the commit before the work on growth, and five) prints a JSON object.
Both versions run on the packages that are installed here, each with a data folder of its own and through its command
and its HTTP interface only, in turn within each round, with the first of them changing. Everything is processor time,
of all processes of a command or server; a ratio is the median of the rounds, the baseline's over the present, so that
1 is as fast and more is faster. Goal: at least .95. On a busy machine the ratios spread, and say little: `lowest` and
`highest` are those of one round.
"""

import csv
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from measuring.load import Target, exactly
from measuring.servers import first_answer, free_port, processor_seconds, running

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "from tollhouse.cli import main; main()"
BEFORE_GROWTH = "98a096aa"
ROUNDS = 5
CALLS = {
    "events page": ("/defense/feeds/events?limit=20", 4_000),
    "catalogue search": ("/mattress/api/search?q=firm queen under 1500&limit=20", 1_000),
    "catalogue page": ("/mattress/api/products?limit=20&facets=brand,size", 2_000),
}
KEYS = 200
PRODUCTS = 3_000
GOAL = 0.95
IDLE_SECONDS, MOST_WAITS = 0.5, 20
"""A server has ended what it does after its start once it uses less than a hundredth of this time."""
# One process makes them, so that its start weighs little.
MAKE_KEYS = """
import asyncio, sys
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings

async def main(folder, count):
    async with open_context(Settings(data_dir=folder)) as context:
        for number in range(int(count)):
            await context.keys.create(f"bench{number}@example.org", "free")

asyncio.run(main(*sys.argv[1:]))
"""


class Version(NamedTuple):
    """A source tree, and the folder of its data."""

    sources: Path
    data: Path

    @property
    def environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(self.sources / "src"), "TOLLHOUSE_DATA_DIR": str(self.data)}

    def run(self, program: str, *arguments: object) -> tuple[bytes, float]:
        """What a program prints, and its processor time."""
        before = os.times()
        command = [sys.executable, "-c", program, *map(str, arguments)]
        done = subprocess.run(
            command, check=True, capture_output=True, cwd=self.sources, env={**os.environ, **self.environment}
        )
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        return done.stdout, spent


def write_feed(path: Path, changed: int) -> None:
    """Products of which each import changes the prices."""
    chance, out = random.Random(4), io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["id", "title", "brand", "description", "price", "url"])
    for number in range(PRODUCTS):
        words = " ".join(chance.choices(("soft", "firm", "cool", "latex", "queen", "hybrid", "wool", "deep"), k=9))
        address = f"https://harbouranddoona.example/{number}"
        writer.writerow(
            [f"b{number}", f"{words} {number}", "Bench", words, f"{500 + (number + changed) % 900}", address]
        )
    path.write_text(out.getvalue(), "utf-8")


@contextmanager
def serving(version: Version, key: str) -> Any:
    """The port of a server that has answered, its process, and the processor time until then."""
    port, path = free_port(), CALLS["events page"][0]
    command = [sys.executable, "-c", PROGRAM, "serve", "--recorded", "--port", str(port)]
    with running(command, version.data / "server.log", **version.environment) as process:
        first_answer(process, port, path, {"Authorization": f"Bearer {key}"})
        yield port, process, processor_seconds(process.pid)


def settle(pid: int) -> None:
    for _ in range(MOST_WAITS):
        before = processor_seconds(pid)
        time.sleep(IDLE_SECONDS)
        if processor_seconds(pid) - before < IDLE_SECONDS / 100:
            return


def measure(version: Version, key: str, number: int) -> dict[str, float]:
    """Processor seconds of one round."""
    feed = version.data / "feed.csv"
    write_feed(feed, number)
    imported = ("import", "mattress", feed, "--format", "csv", "--retailer", "harbour-and-doona")
    spent = {
        "key creation": version.run(MAKE_KEYS, version.data / "keys", KEYS)[1],
        "import": version.run(PROGRAM, *imported)[1],
    }
    headers = {"Authorization": f"Bearer {key}"}
    with serving(version, key) as (port, process, started):
        spent["start"] = started
        settle(process.pid)
        for name, (path, count) in CALLS.items():
            address = path.replace(" ", "%20")
            _, body = first_answer(process, port, address, headers)
            target = Target(port, address, key, len(body))
            exactly(target, count // 10)
            before = processor_seconds(process.pid)
            exactly(target, count)
            spent[name] = processor_seconds(process.pid) - before
    return spent


def prepare(version: Version) -> str:
    """The key of a data folder that has been served once."""
    version.data.mkdir()
    arguments = ("keys", "create", "--email", "bench@example.org", "--tier", "enterprise", "--per-minute", 100_000_000)
    key: str = json.loads(version.run(PROGRAM, *arguments)[0])["api_key"]
    measure(version, key, 0)
    return key


def compare(folder: Path, commit: str, rounds: int) -> dict[str, Any]:
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder / "sources", filter="data")
    versions = {
        "baseline": Version(folder / "sources", folder / "baseline"),
        "present": Version(ROOT, folder / "present"),
    }
    keys = {name: prepare(version) for name, version in versions.items()}
    spent: list[dict[str, dict[str, float]]] = []
    for number in range(1, rounds + 1):
        order = list(versions) if number % 2 else list(reversed(versions))
        spent.append({name: measure(versions[name], keys[name], number) for name in order})
        print(f"round {number}/{rounds}", spent[-1], file=sys.stderr)
    figures = {}
    for what in spent[0]["present"]:
        ratios = [each["baseline"][what] / each["present"][what] for each in spent]
        figures[what] = {
            **{name: round(median(each[name][what] for each in spent), 3) for name in versions},
            "ratio": round(median(ratios), 3),
            "lowest": round(min(ratios), 3),
            "highest": round(max(ratios), 3),
            "is_met": median(ratios) >= GOAL,
        }
    return {"baseline": commit, "rounds": rounds, "goal": GOAL, "processor_seconds": figures}


def main() -> None:
    commit = sys.argv[1] if len(sys.argv) > 1 else BEFORE_GROWTH
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(Path(folder), commit, rounds), indent=2))


if __name__ == "__main__":
    main()
