"""Crashes a ledger at seeded places and tells what is wrong afterwards.

`python -m tests.payments.ledger.crash_run --seeds 200` runs on SQLite in a temporary folder; `--database-url` names an
empty PostgreSQL database instead. Exit status 1 and one line per complaint if anything is wrong.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec

from tests.payments.ledger.crash_client import PRICE, Life, live
from tests.payments.ledger.crash_journal import Journal, Seen, complaints
from tests.servers.processes import ForkedProcess
from tollhouse.config.settings import Settings
from tollhouse.failpoints import EXIT_STATUS
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.ledger.types import LedgerCommand
from tollhouse.storage.database import open_database

LIVES = 2
MOST_LIVES = 8
OPERATIONS = 500
PLACES = [
    *(
        f"ledger.{command.__name__.lower()}.{moment}"
        for command in get_args(LedgerCommand)
        for moment in ("before-commit", "after-commit")
    ),
    "paid-answer.before-send",
    "paid-answer.after-send",
]


class Verdict(msgspec.Struct):
    """What one seed came to."""

    crashes: int
    calls: int
    answered: int
    wrong: list[str]


def run(seed: int, database_url: str, folder: Path, *, forgets: bool = False) -> Verdict:
    """Lives of two processes each, of which one dies, then one that collects open answers; then the checks."""
    moments = random.Random(seed)
    journal = Journal(folder / f"journal-{seed}.jsonl")
    crashes = number = 0
    # A place that no command happens to reach kills nobody: go on until one does.
    while number < LIVES or (crashes == 0 and number < MOST_LIVES):
        place = f"{moments.choice(PLACES)}:{moments.randint(1, 12)}"
        statuses = _live(_lives(seed, number, place, moments, database_url, folder, forgets=forgets), folder)
        crashes += EXIT_STATUS in statuses
        number += 1
    last = _life(seed, number, "", moments, database_url, folder, forgets=forgets, collects=True)
    assert _live([last], folder) == [0]
    seen = Seen(journal)
    wrong = asyncio.run(_check(database_url, seen))
    journal.close()
    return Verdict(crashes, len(seen.tried), len(seen.bodies), wrong)


def _lives(seed, number, place, moments, database_url, folder, *, forgets) -> list[Life]:
    return [
        _life(seed, number, armed, moments, database_url, folder, forgets=forgets, collects=False)
        for armed in (place, "")
    ]


def _life(seed, number, failpoint, moments, database_url, folder, *, forgets, collects) -> Life:
    journal = str(folder / f"journal-{seed}.jsonl")
    name, draw = f"s{seed}/{number}", moments.getrandbits(32)
    return Life(database_url, journal, name, draw, OPERATIONS, failpoint, forgets, collects)


def _live(lives: list[Life], folder: Path) -> list[int]:
    log = folder / "lives.log"
    started = [ForkedProcess(live, life, cwd=folder, stdout=log, stderr=log) for life in lives]
    statuses = [process.wait() for process in started]
    assert set(statuses) <= {0, EXIT_STATUS}, f"{statuses}: {log.read_text()}"
    return statuses


async def _check(database_url: str, seen: Seen) -> list[str]:
    settings = Settings(database_url=database_url)
    database = open_database(settings)
    ledger = await open_ledger(settings, database)
    try:
        return await complaints(ledger, seen, PRICE)
    finally:
        await ledger.close()
        await database.close()


def _verdicts(seeds: range, database_url: str) -> Iterator[tuple[int, Verdict]]:
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            yield seed, run(seed, database_url or f"sqlite:///{folder}/tollhouse.db", Path(folder))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=200)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--database-url", default="")
    chosen = arguments.parse_args()
    crashes = calls = failed = 0
    for seed, verdict in _verdicts(range(chosen.first, chosen.first + chosen.seeds), chosen.database_url):
        crashes, calls, failed = crashes + verdict.crashes, calls + verdict.calls, failed + bool(verdict.wrong)
        for sentence in verdict.wrong:
            sys.stdout.write(f"seed {seed}: {sentence}\n")
        sys.stderr.write(f"seed {seed}: {verdict.crashes} crashes, {verdict.calls} calls, {len(verdict.wrong)} wrong\n")
    sys.stdout.write(f"{chosen.seeds} seeds, {crashes} crashes, {calls} calls, {failed} seeds with something wrong\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
