"""The bundled recording of 13 to 15 November 2020, served when no provider is configured or reachable.

The package also contains the tables that ingesting it produces, packed into one file, so that a first start is quick.
"""

import asyncio
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.news.store import Tables
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.storage.database import Database

LEVEL = 19


def packed(rows_by_table: Tables) -> bytes:
    return zstandard.compress(msgspec.msgpack.encode(rows_by_table), LEVEL)


def unpacked(raw: bytes) -> Tables:
    return msgspec.msgpack.decode(zstandard.decompress(raw), type=dict[str, list[list[Any]]])


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
    return files("tollhouse.services.defense").joinpath("data", "recording")


async def _load_prepared(database: Database) -> bool:
    """Load the prepared tables into a store that was never used; False if it was."""
    async with database.writing(lock="ingest") as connection:
        if not await news.is_untouched(connection):
            return False
        raw = await asyncio.to_thread(recording_folder().joinpath(PREPARED).read_bytes)
        prepared = await asyncio.to_thread(unpacked, raw)
        await news.write_tables(connection, prepared, clock.iso(clock.now()))
    log.info("recording loaded", slots=len(prepared["gdelt_slot"]))
    return True
