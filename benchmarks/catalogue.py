"""A catalogue's search at several sizes, against SQLite FTS5 and bm25s with the same items and questions.

`python benchmarks/catalogue.py [SIZE...]` (165 and 20,000 unless sizes are given; 1000000 takes some minutes and 4 GB)
prints one JSON object a size. A question is text, a price range and three facets (brand, size, price); its answer the
first 20 items, the exact total and the facets. FTS5 finds all words of a text, bm25s any of them; bm25s is given numpy
for what it has not: filter, total, counts. The first run makes a virtual environment for it in .venv/benchmarks.
Goal: p99 of a question at most 20 ms of the processor at any size.
"""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import psutil
from keyed_events import usual_python

from tollhouse import logs
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.query import CatalogueQuery, Range
from tollhouse.catalogue.schema import Field, Schema
from tollhouse.catalogue.search_engine import TantivyEngine
from tollhouse.config.settings import Settings
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

SIZES = (165, 20_000)
QUESTIONS = 300
# A slower engine is asked as many as fit.
SECONDS = 20
UPDATES = 15
GOAL_P99_MS = 20.0
BASELINE = Path(__file__).parent / "baselines" / "ranked.py"

SHOP = Schema(
    fields=(
        Field("title", "text", weight=10.0),
        Field("brand", "keyword", weight=5.0, filtered=True, faceted=True),
        Field("size", "keyword", weight=1.0, filtered=True, faceted=True),
        Field("description", "text", weight=1.0),
        Field("price", "money", filtered=True, faceted=True, sorted=True),
    ),
    price="price",
)
BED_SIZES = ("Single", "King Single", "Double", "Queen", "King", "Super King")


class Shop:
    """Made-up products in words as unevenly frequent as English ones (Zipf)."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.words = [self._word() for _ in range(20_000)]
        self.weights = list(accumulate(1 / (rank + 20) for rank in range(len(self.words))))
        self.brands = [self._word().title() for _ in range(200)]

    def items(self, count: int) -> Iterator[Item]:
        for number in range(count):
            brand, size = self.rng.choice(self.brands), self.rng.choice(BED_SIZES)
            yield {
                "id": f"p{number:07d}",
                "title": f"{brand} {' '.join(self.some(5))} {size} mattress",
                "brand": brand,
                "size": size,
                "description": " ".join(self.some(25)),
                "price": round(self.rng.lognormvariate(6.5, 0.7)) - 0.05,
            }

    def questions(self, count: int) -> list[tuple[str, int, int]]:
        """Text, and the price from and to. A third have a word that every product has."""
        texts = [" ".join(self.some(self.rng.randint(1, 3))) for _ in range(count)]
        common = ("", "", "", "mattress", "queen mattress", "king")
        whole = [f"{text} {self.rng.choice(common)}".strip() for text in texts]
        return [(text, low, low + 700) for text in whole for low in [self.rng.randint(100, 900)]]

    def some(self, count: int) -> list[str]:
        return self.rng.choices(self.words, cum_weights=self.weights, k=count)

    def _word(self) -> str:
        letters = (self.rng.choice("bcdfghjklmnprstvwz") + self.rng.choice("aeiou") for _ in range(3))
        return "".join(letters) + self.rng.choice("nrlt")


def main() -> None:
    logs.configure("error")
    python = usual_python()
    for size in [int(argument) for argument in sys.argv[1:]] or SIZES:
        print(json.dumps({"products": size, **compared(size, python)}), flush=True)


def compared(size: int, python: Path) -> dict[str, Any]:
    shop = Shop(seed=1)
    items, questions = list(shop.items(size)), shop.questions(QUESTIONS)
    figures: dict[str, dict[str, Any]] = {}
    for name, measured in (("tollhouse", ours), ("fts5", fts5), ("bm25s", partial(bm25s, python))):
        figures[name] = measured(items, questions)
        print(f"{size} products, {name}: {json.dumps(figures[name])}", file=sys.stderr, flush=True)
    p99 = figures["tollhouse"]["search"]["cpu_p99_ms"]
    ratios = {name: round(figures[name]["search"]["cpu_p99_ms"] / p99, 1) for name in ("fts5", "bm25s")}
    return {**figures, "baseline_cpu_p99_over_ours": ratios, "is_goal_met": p99 <= GOAL_P99_MS}


def ours(items: Sequence[Item], questions: Sequence[tuple[str, int, int]]) -> dict[str, Any]:
    before = psutil.Process().memory_info().rss
    started = perf_counter()
    engine = TantivyEngine(SHOP)
    engine.put(items, are_new=True)
    engine.publish()
    engine.merge_segments()
    built = perf_counter() - started
    grown = psutil.Process().memory_info().rss - before
    facets = ("brand", "size", "current_price")

    def search(question: tuple[str, int, int]) -> None:
        text, low, high = question
        engine.find(CatalogueQuery(text=text, between={"current_price": Range(low, high)}, facets=facets))

    def browse(question: tuple[str, int, int]) -> None:
        engine.find(CatalogueQuery(sort="current_price", facets=facets, offset=question[1]))

    def update(question: tuple[str, int, int]) -> None:
        engine.put([{**items[question[1] % len(items)], "title": question[0]}])
        engine.publish()

    return {
        "index_s": round(built, 2),
        "memory_mb": round(grown / 1e6),
        "search": timed(search, questions),
        "browse_by_price": timed(browse, questions),
        "update_in_the_index": timed(update, questions[:UPDATES]),
        "update_in_the_store_until_visible": asyncio.run(stored(items[:20_000], questions[:UPDATES])),
    }


async def stored(items: Sequence[Item], questions: Sequence[tuple[str, int, int]]) -> dict[str, float]:
    """A change from its transaction to the answers, over SQLite, with at most 20,000 items."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(Settings(data_dir=folder))
        await migrate(database)
        catalogue = Catalogue("bench", SHOP, database)
        async with database.writing() as transaction:
            await catalogue.apply(transaction, items)
        await catalogue.refresh()
        taken = []
        for number, (text, low, _) in enumerate(questions):
            started = perf_counter()
            async with database.writing() as transaction:
                await catalogue.apply(transaction, [{**items[number % len(items)], "title": text, "price": low}])
            await catalogue.refresh()
            taken.append(perf_counter() - started)
        await database.close()
    return percentiles(taken)


def fts5(items: Sequence[Item], questions: Sequence[tuple[str, int, int]]) -> dict[str, Any]:
    """All words of the text, ranked with the same weights; counted with GROUP BY over what matches."""
    started = perf_counter()
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE item (n INTEGER PRIMARY KEY, brand TEXT, size TEXT, price REAL, body TEXT)")
    base.execute(
        "CREATE VIRTUAL TABLE words USING fts5(title, brand, size, description, content='', tokenize='porter')"
    )
    rows = ((n, i["brand"], i["size"], i["price"], json.dumps(i)) for n, i in enumerate(items))
    base.executemany("INSERT INTO item VALUES (?,?,?,?,?)", rows)
    texts = ((n, i["title"], i["brand"], i["size"], i["description"]) for n, i in enumerate(items))
    base.executemany("INSERT INTO words (rowid, title, brand, size, description) VALUES (?,?,?,?,?)", texts)
    base.execute("CREATE INDEX item_price ON item (price)")
    base.commit()
    built = perf_counter() - started
    matching = "FROM words JOIN item ON n = words.rowid WHERE words MATCH ?1"
    priced = f"{matching} AND price BETWEEN ?2 AND ?3"
    statements = [
        f"SELECT body {priced} ORDER BY bm25(words, 10, 5, 1, 1) LIMIT 20",
        f"SELECT count(*) {priced}",
        f"SELECT item.brand, count(*) {priced} GROUP BY 1 ORDER BY 2 DESC",
        f"SELECT item.size, count(*) {priced} GROUP BY 1 ORDER BY 2 DESC",
        f"SELECT CAST(price / 100 AS INTEGER), count(*) {matching} GROUP BY 1 LIMIT max(?2, ?3)",
    ]

    def search(question: tuple[str, int, int]) -> None:
        for statement in statements:
            base.execute(statement, question).fetchall()

    def browse(question: tuple[str, int, int]) -> None:
        base.execute("SELECT body FROM item ORDER BY price, n LIMIT 20 OFFSET ?", question[1:2]).fetchall()
        base.execute("SELECT count(*) FROM item").fetchall()
        for column in ("brand", "size", "CAST(price / 100 AS INTEGER)"):
            base.execute(f"SELECT {column}, count(*) FROM item GROUP BY 1").fetchall()  # noqa: S608 - named above

    figures = {
        "index_s": round(built, 2),
        "search": timed(search, questions),
        "browse_by_price": timed(browse, questions),
    }
    base.close()
    return figures


def bm25s(python: Path, items: Sequence[Item], questions: Sequence[tuple[str, int, int]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.json"
        task.write_text(json.dumps({"items": items, "questions": questions, "seconds": SECONDS}), encoding="utf-8")
        done = subprocess.run([python, BASELINE, task], check=True, stdout=subprocess.PIPE)
        told = json.loads(done.stdout)
    return {"index_s": round(told["index_s"], 2), "search": percentiles(told["taken"], told["worked"])}


def timed(call: Callable[[tuple[str, int, int]], None], questions: Sequence[tuple[str, int, int]]) -> dict[str, float]:
    """Each question once, the first a second time; no more of them than fit in SECONDS."""
    call(questions[0])
    taken: list[float] = []
    worked: list[float] = []
    for question in questions:
        started, began = perf_counter(), thread_time()
        call(question)
        worked.append(thread_time() - began)
        taken.append(perf_counter() - started)
        if sum(taken) > SECONDS:
            break
    return percentiles(taken, worked)


def percentiles(taken: Sequence[float], worked: Sequence[float] = ()) -> dict[str, float]:
    """Of the time that passed, and of the processor's where it was taken: other programs lengthen only the first."""
    last = len(taken) - 1
    found: dict[str, float] = {"n": len(taken)}
    for name, seconds in (("", sorted(taken)), ("cpu_", sorted(worked))):
        if seconds:
            found[f"{name}p50_ms"] = round(seconds[last // 2] * 1e3, 2)
            found[f"{name}p99_ms"] = round(seconds[round(last * 0.99)] * 1e3, 2)
    return found


if __name__ == "__main__":
    main()
