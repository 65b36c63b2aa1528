"""What the words of a table, and of the mattress service, cost after a change: followed, and made anew.

`python benchmarks/vocabulary.py [ROWS]` (50,000, with three names each, and 20,000 words of models) prints one JSON
object: processor time in milliseconds, the median of five changes of one row, of 100 rows, and the baseline, which
makes everything anew.
"""

import json
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tollhouse.services.mattress.search import read_search_words
from tollhouse.services.mattress.vocabulary import names_of
from tollhouse.services.tables.declaration import parse_declaration
from tollhouse.services.tables.questions import table_engine

ROUNDS = 5
MODELS = 20_000
TABLE = """
title = "Books"
description = "Books"
licence = "CC0"
source = "Benchmarks"
price_usd = "0.01"
free_per_day = 1
[table]
file = "books.csv"
format = "csv"
id = "id"
title = "name"
[fields]
name = { type = "text" }
author = { type = "keyword" }
publisher = { type = "keyword" }
pages = { type = "integer" }
"""
SYLLABLES = [consonant + vowel for consonant in "bcdfghklmnprst" for vowel in "aeiou"]


def main(rows: int) -> None:
    chance = random.Random(1)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))).title() for _ in range(20_000)]

    def some(length: int) -> str:
        return " ".join(chance.choices(words, k=length))

    def book(number: int) -> dict[str, Any]:
        texts = {"name": some(3), "author": some(2), "publisher": some(2)}
        return {"id": f"{number:08}", **texts, "pages": number % 900}

    def model(_: int) -> str:
        return some(1) + chance.choice(SYLLABLES)

    table = parse_declaration(TABLE, Path("services/books.toml"))
    retailers = {f"shop-{number}": f"The {some(1)} Shop" for number in range(20)}
    figures = {
        "table": {"rows": rows, **measured(rows, book, partial(table_engine, table))},
        "mattress": {
            "models": MODELS,
            **measured(
                MODELS,
                model,
                lambda models, *before: read_search_words(names_of(words[:200], retailers, set(models)), (), *before),
            ),
        },
    }
    json.dump(figures, sys.stdout, indent=1)


def measured(count: int, made: Callable[[int], Any], read: Callable[..., Any]) -> dict[str, Any]:
    """What reading so many made items costs after a change, and without what was there before."""
    chance, items = random.Random(2), [made(number) for number in range(count)]
    current = read(items)
    spent: dict[str, list[float]] = {"1 row": [], "100 rows": [], "anew": []}
    for _ in range(ROUNDS):
        for name, changes in (("1 row", 1), ("100 rows", 100)):
            for number in chance.sample(range(count), changes):
                items[number] = made(number)
            begun = time.process_time()
            current = read(items, current)
            spent[name].append(time.process_time() - begun)
        begun = time.process_time()
        read(items)
        spent["anew"].append(time.process_time() - begun)
    medians = {name: median(seconds) for name, seconds in spent.items()}
    milliseconds = {name: round(1_000 * seconds, 1) for name, seconds in medians.items()}
    ratios = {name: round(medians["anew"] / seconds) for name, seconds in medians.items() if name != "anew"}
    return {"milliseconds": milliseconds, "anew / followed": ratios}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
