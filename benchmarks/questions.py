"""What questions cost over a million rows: reading, running and writing the answer.

`python benchmarks/questions.py [--small]` prints one JSON object. The baseline is SQLite in memory in the same process
with indexes, asked the same in SQL: it gets the query for nothing, and both sides find the same numbers, which is
checked.
"""

import json
import random
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any, NamedTuple

from tollhouse.questions.answering import Engine
from tollhouse.questions.places import countries, country_names
from tollhouse.questions.vocabulary import Attribute, Dataset, Declaration, Kind, Named

ROWS, ROUNDS = 1_000_000, 20
NOW = datetime(2026, 1, 2, tzinfo=UTC)
COUNTRIES = ("ET", "FR", "DE", "US", "CN", "IN", "PK", "EG", "NG", "UA", "RU", "BR")
CATEGORIES = ("battle", "protest", "talk", "trade")
# A question, and the SQL that has the same number.
QUESTIONS = (
    ("How many battles were there in Ethiopia?", "SELECT count(*) FROM e WHERE category='battle' AND country='ET'"),
    (
        "How many events outside France had at least three deaths?",
        "SELECT count(*) FROM e WHERE country!='FR' AND deaths>=3",
    ),
    (
        "How many protests were there in India or Pakistan?",
        "SELECT count(*) FROM e WHERE category='protest' AND country IN ('IN','PK')",
    ),
    (
        "What is the average number of deaths of battles in Ukraine?",
        "SELECT avg(deaths) FROM e WHERE category='battle' AND country='UA'",
    ),
    ("How many countries had events?", "SELECT count(DISTINCT country) FROM e"),
    (
        "By how many do battles in Egypt outnumber protests in Egypt?",
        "SELECT sum(category='battle')-sum(category='protest') FROM e WHERE country='EG'",
    ),
    ("What share of the events are battles?", "SELECT 100.0*sum(category='battle')/count(*) FROM e"),
    ("What is the total number of deaths in Nigeria?", "SELECT sum(deaths) FROM e WHERE country='NG'"),
)


class Event(NamedTuple):
    """One made-up row."""

    id: str
    country: str
    category: str
    deaths: int
    time: datetime


class Events(Dataset):
    """Made-up events."""

    declaration = Declaration(
        kinds=(
            Kind(
                name="event",
                nouns=("event",),
                attributes=(
                    Attribute(name="country", type="place", nouns=("country",), prepositions=("in",)),
                    Attribute(
                        name="category",
                        type="keyword",
                        nouns=("category",),
                        values={name: (name,) for name in CATEGORIES},
                    ),
                    Attribute(name="deaths", type="number", nouns=("death",), most=("deadliest",)),
                    Attribute(name="time", type="time", nouns=("time",), most=("latest",), least=("earliest",)),
                ),
            ),
        ),
    )
    quotes = False

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def rows(self, kind: str) -> Sequence[Any]:
        return self._events

    def id(self, kind: str, row: Any) -> str:
        return str(row.id)

    def label(self, kind: str, row: Any) -> str:
        return str(row.id)

    def values(self, kind: str, row: Any, attribute: str) -> Iterable[Any]:
        return (getattr(row, attribute),)

    def names(self) -> Iterator[Named]:
        for code in COUNTRIES:
            yield from country_names(countries()[code], "event", code, with_codes=True)


def main() -> None:
    number = 20_000 if "--small" in sys.argv else ROWS
    rng = random.Random(1)
    events = [
        Event(
            f"e{i}",
            rng.choice(COUNTRIES),
            rng.choice(CATEGORIES),
            rng.randrange(6),
            NOW - timedelta(seconds=rng.randrange(86_400)),
        )
        for i in range(number)
    ]
    began = perf_counter()
    engine = Engine(Events(events))
    for question, _ in QUESTIONS:
        engine.answer(question)
    built = perf_counter() - began
    database = _database(events)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(ROUNDS):
        for question, sql in QUESTIONS:
            began = perf_counter()
            value = engine.answer(question).value
            ours.append(perf_counter() - began)
            began = perf_counter()
            (expected,) = database.execute(sql).fetchone()
            theirs.append(perf_counter() - began)
            if value is None or abs(value - expected) > 1e-6:
                sys.exit(f"{question} {value} is not {expected}")
    print(
        json.dumps(
            {
                "rows": number,
                "questions": len(QUESTIONS),
                "columns_built_s": round(built, 2),
                "p50_ms": _quantile(ours, 0.5),
                "p99_ms": _quantile(ours, 0.99),
                "sqlite_p50_ms": _quantile(theirs, 0.5),
                "sqlite_p99_ms": _quantile(theirs, 0.99),
                "sqlite_to_ours": round(_quantile(theirs, 0.5) / _quantile(ours, 0.5), 2),
            }
        )
    )


def _database(events: Sequence[Event]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE e (id TEXT, country TEXT, category TEXT, deaths INTEGER)")
    database.executemany("INSERT INTO e VALUES (?,?,?,?)", (event[:4] for event in events))
    for columns in ("category, country, deaths", "country, deaths", "category"):
        database.execute(f"CREATE INDEX i{columns.replace(', ', '_')} ON e ({columns})")
    database.execute("ANALYZE")
    return database


def _quantile(times: Sequence[float], share: float) -> float:
    """Milliseconds."""
    return round(sorted(times)[min(len(times) - 1, int(share * len(times)))] * 1000, 3)


if __name__ == "__main__":
    main()
