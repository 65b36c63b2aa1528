"""Ledgers on each kind of database, as many on one database as a test needs."""

import contextlib
import sqlite3
import zlib
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import Ledger, open_ledger
from tollhouse.storage.database import open_database

# What a server of an earlier version begins a batch with.
BEGIN = f"BEGIN; SELECT pg_advisory_xact_lock({zlib.crc32(b'ledger')})"


@pytest.fixture
async def open_another(database_url):
    """A function that opens one more ledger on the test's database, as another server process would."""
    opened = []

    async def another() -> Ledger:
        settings = Settings(database_url=database_url)
        database = open_database(settings)
        opened.append(database)
        ledger = await open_ledger(settings, database)
        opened.append(ledger)
        return ledger

    yield another
    for thing in reversed(opened):
        await thing.close()


@pytest.fixture
async def ledger(open_another):
    return await open_another()


@pytest.fixture
async def sql(database_url, ledger):
    """A function that asks the ledger's own database, behind the ledger's back; it commits."""
    if database_url.startswith("sqlite"):
        path = database_url.partition("///")[2].replace("tollhouse.db", "ledger.db")

        async def query(statement) -> list[tuple[object, ...]]:
            with contextlib.closing(sqlite3.connect(path)) as connection, connection:
                return connection.execute(statement).fetchall()
    else:

        async def query(statement) -> list[tuple[object, ...]]:
            connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
            try:
                return [tuple(row) for row in await connection.fetch(statement)]
            finally:
                await connection.close()

    return query


@pytest.fixture
def bodies(sql):
    """A function that tells how many bodies of kept answers are stored."""

    async def count() -> int:
        return (await sql("SELECT count(*) FROM kept_body"))[0][0]

    return count


@pytest.fixture
def hold_the_ledger(database_url, ledger):
    """A context in which another process is writing to the ledger, and does not finish."""

    @contextlib.asynccontextmanager
    async def held_file() -> AsyncIterator[None]:
        path = database_url.partition("///")[2].replace("tollhouse.db", "ledger.db")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    @contextlib.asynccontextmanager
    async def held_lock() -> AsyncIterator[None]:
        connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
        try:
            await connection.execute(BEGIN)
            yield
        finally:
            await connection.close()

    return held_file if database_url.startswith("sqlite") else held_lock
