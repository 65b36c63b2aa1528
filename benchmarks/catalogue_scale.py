"""A catalogue on disk at several sizes: start, memory, searches before and right after updates, and a large import.

`python benchmarks/catalogue_scale.py [SIZE...]` (10,000 and 100,000 unless sizes are given; 1000000 takes ten
minutes and 2 GB of disk) prints one JSON object a size. `--folder PATH` keeps the database of made-up products there
for another run. The store is SQLite. Two processes read the index that a third one writes. A question is text, a
price range and three facets (brand, size, price). Baseline in the same run: a process with an index of its own in
memory, as every process had before. Goals at 1,000,000: start 3 s, 250 MB a process (PSS), p99 20 ms of the processor
before and after updates, an import of 100,000 changed rows visible in 30 s.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import monotonic, perf_counter, process_time, thread_time, time
from typing import Any, Self

from catalogue import SHOP, Shop, percentiles

from tollhouse import logs
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.query import CatalogueQuery, Range
from tollhouse.config.settings import Settings
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate

SIZES = (10_000, 100_000)
QUESTIONS = 300
READERS = 2
FACETS = ("brand", "size", "current_price")
FILL = 5_000
# Small change sets, each published on its own, and one large import.
UPDATES, UPDATED = 30, 500
IMPORTED = 100_000
# A database that an earlier run has changed is changed again.
RUN = int(time())


def main() -> None:
    logs.configure("error")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--reader", nargs=2)
    options = parser.parse_args()
    if options.reader:
        asyncio.run(read(*options.reader))
        return
    for size in options.sizes or SIZES:
        with contextlib.ExitStack() as stack:
            folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            own = folder / str(size)
            own.mkdir(parents=True, exist_ok=True)
            print(json.dumps({"products": size, **asyncio.run(measured(own, size))}), flush=True)


async def measured(folder: Path, size: int) -> dict[str, Any]:
    database = open_database(Settings(data_dir=str(folder)))
    await migrate(database)
    figures: dict[str, Any] = {"stored_s": await fill(database, size)}
    shop = Catalogue("bench", SHOP, database, folder / "index")
    started, worked = perf_counter(), process_time()
    await shop.refresh()
    figures["built_cpu_s"] = round(process_time() - worked, 1)
    following = asyncio.create_task(shop.follow())
    figures["built_s"] = round(perf_counter() - started, 1)
    figures["index_mb"] = index_size(folder / "index")
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(Reader(folder, "disk")) for _ in range(READERS)]
        figures["start_s"] = [each.ready["start_s"] for each in readers]
        figures["before"] = await readers[0].ask("questions", size)
        figures["one_update_visible_ms"] = await updated(shop, database, size)
        figures["after_updates"] = await readers[0].ask("questions", size)
        rows = min(size // 2, IMPORTED)
        figures["import"] = {"rows": rows, **await imported(shop, database, size, rows, readers[0])}
        figures["after_import"] = await readers[0].ask("questions", size)
        await readers[1].ask("questions", size)
        figures["memory_mb"] = [await each.ask("memory", size) for each in readers]
        figures["writer_mb"] = memory(os.getpid())
        print(json.dumps(figures), file=sys.stderr, flush=True)
        with Reader(folder, "memory") as own:
            answered = await own.ask("questions", size)
            figures["baseline_in_memory"] = {
                **own.ready,
                "memory_mb": await own.ask("memory", size),
                "questions": answered,
            }
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await database.close()
    return figures | ratios(figures, size)


def ratios(figures: dict[str, Any], size: int) -> dict[str, Any]:
    """The baseline's figures over ours, and what a changed row costs against one of the first index."""
    own, rows = figures["baseline_in_memory"], figures["import"]["rows"]
    return {
        "import_over_first_index_by_row": round(figures["import"]["cpu_s"] / rows / (figures["built_cpu_s"] / size), 2),
        "baseline_start_over_ours": round(own["start_s"] / max(figures["start_s"]), 1),
        "baseline_memory_over_ours": round(own["memory_mb"]["pss"] / max(m["pss"] for m in figures["memory_mb"]), 1),
        "baseline_p99_over_ours": {
            name: round(own["questions"]["cpu_p99_ms"] / figures[name]["cpu_p99_ms"], 2)
            for name in ("before", "after_updates", "after_import")
        },
    }


async def fill(database: Database, size: int) -> float:
    """Seconds to store the products, unless they are stored already."""
    catalogue = Catalogue("bench", SHOP, database)
    async with database.reading() as connection:
        stored = await catalogue.stored_item(connection, f"p{size - 1:07d}")
    started = perf_counter()
    for rows in batched(Shop(seed=1).items(size) if stored is None else iter(()), FILL):
        async with database.writing() as transaction:
            await catalogue.apply(transaction, rows)
    return round(perf_counter() - started, 1)


async def updated(shop: Catalogue, database: Database, size: int) -> dict[str, float]:
    """From the transaction of a change set until the writing process shows it."""
    taken = []
    for number in range(UPDATES):
        rows = list(changed(size, UPDATED, number))
        started = perf_counter()
        async with database.writing() as transaction:
            await shop.apply(transaction, rows)
        await shop.refresh()
        taken.append(perf_counter() - started)
    return percentiles(taken)


async def imported(shop: Catalogue, database: Database, size: int, rows: int, reader: "Reader") -> dict[str, float]:
    """From the first row of one transaction until another process shows all of them; `cpu_s` is the writer's."""
    started, worked = monotonic(), process_time()
    async with database.writing() as transaction:
        for part in batched(changed(size, rows, UPDATES), FILL):
            await shop.apply(transaction, part)
    stored = monotonic()
    await shop.refresh()
    seen = await reader.ask("seen", shop.revision[1])
    cpu = process_time() - worked
    return {"stored_s": round(stored - started, 1), "visible_s": round(seen - started, 1), "cpu_s": round(cpu, 1)}


def batched(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    while part := list(islice(items, size)):
        yield part


def changed(size: int, rows: int, seed: int) -> Iterator[Item]:
    """Products with another title and price in every run, spread over all ids."""
    shop = Shop(seed=RUN + seed)
    for number, item in enumerate(shop.items(rows)):
        yield {**item, "id": f"p{(seed * 31 + number * (size // rows)) % size:07d}"}


class Reader:
    """A process that shows the catalogue and answers questions."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._command = [sys.executable, __file__, "--reader", str(folder), kind]

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True)
        self.ready = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    async def ask(self, task: str, argument: int) -> Any:
        assert self._process.stdin
        print(json.dumps([task, argument]), file=self._process.stdin, flush=True)
        return await asyncio.to_thread(self._read)

    def _read(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


async def read(folder: str, kind: str) -> None:
    """Follow the index and answer the tasks on the standard input until it ends."""
    began = perf_counter()
    database = open_database(Settings(data_dir=folder))
    shop = Catalogue("bench", SHOP, database, Path(folder) / "index" if kind == "disk" else None)
    await shop.refresh()
    await shop.search(CatalogueQuery(text="queen", facets=FACETS))
    print(json.dumps({"start_s": round(perf_counter() - began, 3)}), flush=True)
    following = asyncio.create_task(shop.follow())
    while line := await asyncio.to_thread(sys.stdin.readline):
        task, argument = json.loads(line)
        print(json.dumps(await answer(shop, task, argument)), flush=True)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await database.close()


async def answer(shop: Catalogue, task: str, argument: int) -> Any:
    if task == "memory":
        return memory(os.getpid())
    if task == "seen":
        while shop.revision[1] < argument:  # noqa: ASYNC110 - nothing else tells it
            await asyncio.sleep(0.01)
        return monotonic()
    return await asyncio.to_thread(questions, shop, Shop(seed=1).questions(QUESTIONS))


def questions(shop: Catalogue, asked: Sequence[tuple[str, int, int]]) -> dict[str, float]:
    """Each question once, without asking any twice."""
    taken, worked = [], []
    for text, low, high in asked:
        query = CatalogueQuery(text=text, between={"current_price": Range(low, high)}, facets=FACETS)
        started, began = perf_counter(), thread_time()
        shop._engine.find(query)  # noqa: SLF001 - the time of this thread
        worked.append(thread_time() - began)
        taken.append(perf_counter() - started)
    return {**percentiles(taken, worked), "segments": shop._engine.index.searcher.num_segments}  # noqa: SLF001


def index_size(folder: Path) -> int:
    """Megabytes of the newest publication."""
    current = next(folder.glob("*/current"))
    return round(sum(path.stat().st_size for path in (current.parent / current.read_text()).iterdir()) / 1e6)


def memory(pid: int) -> dict[str, int]:
    """Megabytes of a process: shared pages divided among those that have them (`pss`), and those of its own."""
    sizes = {"pss": 0, "private": 0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("Pss", "Private_Clean", "Private_Dirty"):
            sizes["pss" if name == "Pss" else "private"] += int(rest.split()[0]) * 1024
    return {name: round(size / 1e6) for name, size in sizes.items()}


if __name__ == "__main__":
    main()
