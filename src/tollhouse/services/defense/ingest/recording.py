"""The bundled recording of 13 to 15 November 2020, served when no provider is configured or reachable.

The package also contains the tables that ingesting it produces, packed into one file, so that a first start is quick.
"""

import asyncio
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from sqlalchemy import insert, select

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.services.defense.store import feed_revision
from tollhouse.storage.database import Database, Transaction

# Rows by table, with a value for each column in the table's order.
Tables = Mapping[str, Sequence[Sequence[Any]]]

LEVEL = 19
_TABLES = (
    store.gdelt_slot,
    store.event_rows,
    store.event,
    news.article,
    *(source.table for source in news.PUBLISHED.values()),
    news.event_story,
    news.successor,
    news.newsroom,
    feed_revision,
)


async def is_untouched(connection: Transaction) -> bool:
    """Whether nothing was ever ingested or published."""
    return (await connection.execute(select(feed_revision.c.feed).limit(1))).scalar() is None


async def tables(connection: Transaction) -> Tables:
    """The stored events and news, without the times of ingestion."""
    found = {}
    for table in _TABLES:
        rows = (await connection.execute(select(table).order_by(*table.primary_key))).mappings()
        found[table.name] = [[row[name] for name in _columns(table.name)] for row in rows]
    return found


async def put(connection: Transaction, rows_by_table: Tables, ingested_at: str) -> None:
    """Write these tables into an empty store."""
    for table in _TABLES:
        rows = [dict(zip(_columns(table.name), row, strict=True)) for row in rows_by_table[table.name]]
        if table is store.gdelt_slot:
            rows = [{**row, "ingested_at": ingested_at} for row in rows]
        await connection.execute(insert(table), rows)


def packed(rows_by_table: Tables) -> bytes:
    """Pack tables into one file."""
    return zstandard.compress(msgspec.msgpack.encode(rows_by_table), LEVEL)


def unpacked(raw: bytes) -> Tables:
    """Unpack tables from a file."""
    return msgspec.msgpack.decode(zstandard.decompress(raw), type=dict[str, list[list[Any]]])


def _columns(name: str) -> list[str]:
    table = next(table for table in _TABLES if table.name == name)
    return [column.name for column in table.columns if column is not store.gdelt_slot.c.ingested_at]


log = logger("ingest")

# Written by tools/prepare_recording.py; a test compares it with what ingesting the exports produces.
PREPARED = "prepared.msgpack.zst"
RECORDED_DAYS = 3


async def load_recording(database: Database, settings: Settings) -> None:
    """Ingest the recording once; without the `recorded` setting only into an empty store.

    A store that was never used gets the prepared tables, unless it retains less than RECORDED_DAYS.
    """
    exports = recorded_exports()
    async with database.turn("recording", Path(settings.data_dir)):
        async with database.reading() as connection:
            if await store.find_slot(connection, exports[-1].name[:14]):
                return
            is_empty = not await store.newest_slot(connection, "provider") and not await store.newest_slot(
                connection, "local"
            )
        if settings.section(DefenseSettings).retention_days >= RECORDED_DAYS and await _load_prepared(database):
            return
        if settings.recorded or is_empty:
            await ingest_recording(database)


async def ingest_recording(database: Database) -> None:
    """Ingest every export of the recording."""
    for export in recorded_exports():
        raw = await asyncio.to_thread(export.read_bytes)
        await ingest_export(database, export.name, raw, "recording")


def recorded_exports() -> list[Traversable]:
    """The files of the recording in the order of their slots."""
    entries = recording_folder().iterdir()
    exports = (entry for entry in entries if entry.name.endswith(".export.CSV.zip"))
    return sorted(exports, key=lambda entry: entry.name)


def recording_folder() -> Traversable:
    """The folder of the recording."""
    return files("tollhouse.services.defense").joinpath("data", "recording")


async def _load_prepared(database: Database) -> bool:
    """Load the prepared tables into a store that was never used; False if it was."""
    async with database.writing(lock="ingest") as connection:
        if not await is_untouched(connection):
            return False
        raw = await asyncio.to_thread(recording_folder().joinpath(PREPARED).read_bytes)
        prepared = await asyncio.to_thread(unpacked, raw)
        await put(connection, prepared, clock.iso(clock.now()))
    log.info("recording loaded", slots=len(prepared["gdelt_slot"]))
    return True
