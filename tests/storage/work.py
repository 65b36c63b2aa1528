"""What a server reads in the databases that it opens, of either kind, its ledger's own connections included."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import log
from typing import Any

from sqlalchemy import Engine

from tests.storage.postgres_work import PostgresWork
from tests.storage.sqlite_work import SqliteWork
from tollhouse.payments.ledger import sqlite_store

SIZES = (500, 2_000, 8_000)
MOST_EXPONENT = 0.3
SMOOTHED = 500
"""Added to each count: few rows and pages more than a few do not matter."""


class _Sqlite:
    def __init__(self, monkeypatch: Any) -> None:
        self._work = SqliteWork(Engine)
        connect = sqlite_store._connect

        def followed(path: Any) -> Any:
            connection = connect(path)
            self._work.follow(connection)
            return connection

        monkeypatch.setattr(sqlite_store, "_connect", followed)

    async def read(self) -> int:
        return self._work.steps

    async def analyze(self) -> None:
        """SQLite is not told how many rows there are."""

    def end(self) -> None:
        self._work.end()


@asynccontextmanager
async def database_work(monkeypatch: Any, url: str) -> AsyncIterator[_Sqlite | PostgresWork]:
    """`read` tells steps of SQLite, or rows and pages of PostgreSQL, of all connections opened within the block."""
    if url.startswith("sqlite"):
        sqlite = _Sqlite(monkeypatch)
        try:
            yield sqlite
        finally:
            sqlite.end()
    else:
        postgres = PostgresWork(monkeypatch, url)
        await postgres.open()
        try:
            yield postgres
        finally:
            await postgres.close()


def exponents(counts: list[dict[str, int]], sizes: tuple[int, ...] = SIZES) -> dict[str, float]:
    """By what power of the stored rows each count grows, over all three sizes or between the larger two."""
    spans = ((0, -1), (1, -1))
    return {
        name: max(
            log((counts[b][name] + SMOOTHED) / (counts[a][name] + SMOOTHED)) / log(sizes[b] / sizes[a])
            for a, b in spans
        )
        for name in counts[0]
    }
