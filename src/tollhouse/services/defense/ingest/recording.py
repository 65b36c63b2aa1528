"""The bundled recording."""

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

# Of each table its rows, a value for every column in the table's order.
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
    """Whether nothing was ever taken in or told."""
    return (await connection.execute(select(feed_revision.c.feed).limit(1))).scalar() is None


async def tables(connection: Transaction) -> Tables:
    """What is stored of events and news, but for when each slot was taken in."""
    found = {}
    for table in _TABLES:
        rows = (await connection.execute(select(table).order_by(*table.primary_key))).mappings()
        found[table.name] = [[row[name] for name in _columns(table.name)] for row in rows]
    return found


async def put(connection: Transaction, kept: Tables, ingested_at: str) -> None:
    """Store these tables where nothing is stored."""
    for table in _TABLES:
        rows = [dict(zip(_columns(table.name), row, strict=True)) for row in kept[table.name]]
        if table is store.gdelt_slot:
            rows = [{**row, "ingested_at": ingested_at} for row in rows]
        await connection.execute(insert(table), rows)


def packed(kept: Tables) -> bytes:
    """One file of them."""
    return zstandard.compress(msgspec.msgpack.encode(kept), LEVEL)


def unpacked(raw: bytes) -> Tables:
    """The tables in such a file."""
    return msgspec.msgpack.decode(zstandard.decompress(raw), type=dict[str, list[list[Any]]])


def _columns(name: str) -> list[str]:
    table = next(table for table in _TABLES if table.name == name)
    return [column.name for column in table.columns if column is not store.gdelt_slot.c.ingested_at]


log = logger("ingest")

# What taking the exports in and telling them stores: `tools/prepare_recording.py` writes it, a test compares the two.
PREPARED = "prepared.msgpack.zst"
RECORDED_DAYS = 3


async def load_recording(database: Database, settings: Settings) -> None:
    """Take the recording in, once; without `recorded`, only into a store that is empty.

    A store where nothing ever was gets it told already. Nobody keeps less than RECORDED_DAYS of that.
    """
    exports = recorded_exports()
    async with database.turn("recording", Path(settings.data_dir)):
        async with database.reading() as connection:
            if await store.find_slot(connection, exports[-1].name[:14]):
                return
            is_empty = not await store.newest_slot(connection, "provider") and not await store.newest_slot(
                connection, "local"
            )
        if settings.section(DefenseSettings).retention_days >= RECORDED_DAYS and await _put_prepared(database):
            return
        if settings.recorded or is_empty:
            await ingest_recording(database)


async def ingest_recording(database: Database) -> None:
    """Ingest every export of the recording."""
    for export in recorded_exports():
        raw = await asyncio.to_thread(export.read_bytes)
        await ingest_export(database, export.name, raw, "recording")


def recorded_exports() -> list[Traversable]:
    """The recording's files in the order of their slots."""
    found = [entry for entry in recording_folder().iterdir() if entry.name.endswith(".export.CSV.zip")]
    return sorted(found, key=lambda entry: entry.name)


def recording_folder() -> Traversable:
    """Where the recording's files are."""
    return files("tollhouse.services.defense").joinpath("data", "recording")


async def _put_prepared(database: Database) -> bool:
    """Whether nothing was stored yet, so that the prepared recording is now."""
    async with database.writing(lock="ingest") as connection:
        if not await is_untouched(connection):
            return False
        raw = await asyncio.to_thread(recording_folder().joinpath(PREPARED).read_bytes)
        kept = await asyncio.to_thread(unpacked, raw)
        await put(connection, kept, clock.iso(clock.now()))
    log.info("recording stored", slots=len(kept["gdelt_slot"]))
    return True
