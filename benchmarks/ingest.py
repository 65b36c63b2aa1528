"""Rows a second from raw exports into a fresh store: a day of 96 zipped slots, and the same day as one plain file.

The day is made from the bundled recording by shifting ids, dates and URLs, so that about 4.5 rows share a URL as in
real exports. The baseline reads the same files with csv.reader and puts the same columns into SQLite, deciding
nothing. Goal: at least 50,000 rows a second.
"""

import asyncio
import csv
import io
import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from tollhouse import logs
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.services.defense.ingest.export_parser import Row

ROWS = 200_000
SLOTS = 96
FIRST_SLOT = datetime(2020, 11, 16, 0, 0, tzinfo=UTC)
GOAL_ROWS_PER_SECOND = 50_000
ROUNDS = {"slots": 1, "one_file": 1}
# Positions in a raw export of what a Row keeps, in the order of its fields.
KEPT = (0, 1, 6, 7, 8, 12, 16, 17, 18, 22, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 51, 52, 53, 54, 56, 57, 59, 60)


def recorded_rows() -> list[list[str]]:
    """The bundled recording's rows in its files' order, split into columns."""
    folder = files("tollhouse.services.defense").joinpath("data", "recording")
    rows = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".export.CSV.zip"):
            with zipfile.ZipFile(io.BytesIO(entry.read_bytes())) as archive:
                text = archive.read(archive.namelist()[0]).decode()
            rows += [line.split("\t") for line in text.split("\n") if line]
    return rows


def shifted(columns: Sequence[str], number: int, turn: int, slot: datetime) -> str:
    """A recorded row as the `number`th of the made day; `turn` is how often the recording was gone through before."""
    late = _day(columns[59]) - _day(columns[1])
    scheme, _, rest = columns[60].rstrip("\r").partition("://")
    host, _, path = rest.partition("/")
    made = list(columns)
    made[0] = str(2_000_000_000 + number)
    made[1] = f"{slot.date() - late:%Y%m%d}"
    made[59] = f"{slot:%Y%m%d%H%M%S}"
    made[60] = f"{scheme}://{host}/{turn}/{path}"
    return "\t".join(made)


def _day(text: str) -> date:
    return date(int(text[:4]), int(text[4:6]), int(text[6:8]))


def make_day(folder: Path) -> dict[str, float]:
    """Write the day's slots and the one file; tells how many rows share a URL on average."""
    recorded = recorded_rows()
    urls = set()
    with (folder / f"{FIRST_SLOT + timedelta(days=2):%Y%m%d%H%M%S}.export.CSV").open("w", encoding="utf-8") as whole:
        for index in range(SLOTS):
            slot = FIRST_SLOT + timedelta(minutes=15 * index)
            numbers = range(ROWS * index // SLOTS, ROWS * (index + 1) // SLOTS)
            lines = [shifted(recorded[n % len(recorded)], n, n // len(recorded), slot) for n in numbers]
            urls.update(line.rpartition("\t")[2] for line in lines)
            text = "\n".join(lines) + "\n"
            whole.write(text)
            name = f"{slot:%Y%m%d%H%M%S}.export.CSV"
            with zipfile.ZipFile(folder / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(name, text)
    return {"rows_per_url": round(ROWS / len(urls), 2)}


async def ingest_recording(paths: Sequence[Path], data_dir: Path) -> dict[str, int]:
    """The files through the real code into a fresh store; tells rows taken and reports made."""
    rows = reports = 0
    settings = Settings(data_dir=str(data_dir), background_work=False)
    async with open_context(settings, answers_calls=False) as context:
        for path in paths:
            report = await ingest_export(context.database, path.name, path.read_bytes(), "file")
            rows, reports = rows + report.rows, reports + report.reports
    return {"rows": rows, "reports": reports}


def copy_in(paths: Sequence[Path], data_dir: Path) -> dict[str, int]:
    """The baseline: the same columns of the same files, as they are."""
    data_dir.mkdir()
    database = sqlite3.connect(data_dir / "baseline.db", isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-16000"):
        database.execute(f"PRAGMA {pragma}")
    names = Row.__struct_fields__
    database.execute(f"CREATE TABLE row ({', '.join(names)}, PRIMARY KEY (id)) WITHOUT ROWID")
    statement = f"INSERT OR REPLACE INTO row VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - only question marks
    for path in paths:
        database.execute("BEGIN IMMEDIATE")
        database.executemany(statement, _columns(path))
        database.execute("COMMIT")
    (rows,) = database.execute("SELECT count(*) FROM row").fetchone()
    database.close()
    return {"rows": rows, "reports": 0}


def _columns(path: Path) -> Iterator[list[str]]:
    raw = path.read_bytes()
    if path.suffix == ".zip":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            raw = archive.read(archive.namelist()[0])
    for row in csv.reader(io.StringIO(raw.decode()), delimiter="\t", quoting=csv.QUOTE_NONE):
        yield [row[position] for position in KEPT]


def work(how: str, what: str, folder: Path, data_dir: Path) -> dict[str, Any]:
    """One measured run in this process."""
    logs.configure("warning")
    paths = sorted(folder.glob("*.zip" if what == "slots" else "*.CSV"))
    take: dict[str, Callable[[], dict[str, int]]] = {
        "tollhouse": lambda: asyncio.run(ingest_recording(paths, data_dir)),
        "baseline": lambda: copy_in(paths, data_dir),
    }
    begun, used = perf_counter(), process_time()
    done = take[how]()
    seconds, processor = perf_counter() - begun, process_time() - used
    if done["rows"] != ROWS:
        raise RuntimeError(f"{done['rows']} rows were taken in, {ROWS} were given")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes on Linux, bytes on macOS.
    megabytes = peak / (1024 if sys.platform == "linux" else 1024 * 1024)
    return {**done, "seconds": seconds, "processor_seconds": processor, "peak_megabytes": round(megabytes)}


def in_a_process(*arguments: str | Path) -> dict[str, Any]:
    """This script in a process of its own: Linux counts a parent's peak memory as its child's."""
    command = [sys.executable, __file__, *map(str, arguments)]
    done: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return done


def measured(how: str, what: str, folder: Path, data_dir: Path) -> dict[str, Any]:
    done = in_a_process(how, what, folder, data_dir)
    print(f"{how}, {what}: {ROWS / done['seconds']:,.0f} rows/s, {done['peak_megabytes']} MB", file=sys.stderr)
    return done


def compare(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = {
        "claim": "raw exports are taken in at 50,000 rows a second or more",
        "rows": ROWS,
        "slots": SLOTS,
        **in_a_process("make", folder),
    }
    for what, rounds in ROUNDS.items():
        runs: dict[str, list[dict[str, Any]]] = {"tollhouse": [], "baseline": []}
        for number in range(rounds):
            for how, done in runs.items():
                done.append(measured(how, what, folder, folder / f"{what}-{how}-{number}"))
        pairs = zip(runs["tollhouse"], runs["baseline"], strict=True)
        ratios = [round(theirs["seconds"] / ours["seconds"], 3) for ours, theirs in pairs]
        result[what] = {name: summed_up(done) for name, done in runs.items()}
        result[what] |= {"of_baseline": statistics.median(ratios), "of_baseline_by_round": ratios}
    result["goal_rows_per_second"] = GOAL_ROWS_PER_SECOND
    result["is_met"] = result["slots"]["tollhouse"]["rows_per_second"] >= GOAL_ROWS_PER_SECOND
    return result


def summed_up(runs: list[dict[str, Any]]) -> dict[str, float]:
    return {
        "rows_per_second": round(ROWS / statistics.median(run["seconds"] for run in runs)),
        "rows_per_processor_second": round(ROWS / statistics.median(run["processor_seconds"] for run in runs)),
        "peak_megabytes": max(run["peak_megabytes"] for run in runs),
        "reports": runs[0]["reports"],
    }


def main() -> None:
    if len(sys.argv) == 3:
        print(json.dumps(make_day(Path(sys.argv[2]))))
        return
    if len(sys.argv) == 5:
        how, what, folder, data_dir = sys.argv[1:]
        print(json.dumps(work(how, what, Path(folder), Path(data_dir))))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(Path(folder)), indent=2))


if __name__ == "__main__":
    main()
