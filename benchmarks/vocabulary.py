"""What the words of a table cost after a change: the vocabulary of its questions, followed and made anew.

`python benchmarks/vocabulary.py [ROWS]` (50,000, with three names each) prints one JSON object: processor time in
milliseconds, the median of five changes of one row, of 100 rows, and the baseline, which makes everything anew.
"""

import json
import random
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from tollhouse.services.tables.declaration import parse_declaration
from tollhouse.services.tables.questions import table_engine

ROUNDS = 5
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
    chance, table = random.Random(1), parse_declaration(TABLE, Path("services/books.toml"))
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))).title() for _ in range(20_000)]

    def book(number: int) -> dict[str, Any]:
        name, author, publisher = (" ".join(chance.choices(words, k=length)) for length in (3, 2, 2))
        return {"id": f"{number:08}", "name": name, "author": author, "publisher": publisher, "pages": number % 900}

    items = [book(number) for number in range(rows)]
    engine = table_engine(table, items)
    spent: dict[str, list[float]] = {"1 row": [], "100 rows": [], "anew": []}
    for _ in range(ROUNDS):
        for name, count in (("1 row", 1), ("100 rows", 100)):
            for number in chance.sample(range(rows), count):
                items[number] = book(number)
            begun = time.process_time()
            engine = table_engine(table, items, engine)
            spent[name].append(time.process_time() - begun)
        begun = time.process_time()
        table_engine(table, items)
        spent["anew"].append(time.process_time() - begun)
    medians = {name: median(seconds) for name, seconds in spent.items()}
    milliseconds = {name: round(1_000 * seconds, 1) for name, seconds in medians.items()}
    ratios = {name: round(medians["anew"] / seconds) for name, seconds in medians.items() if name != "anew"}
    json.dump({"rows": rows, "milliseconds": milliseconds, "anew / followed": ratios}, sys.stdout, indent=1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
