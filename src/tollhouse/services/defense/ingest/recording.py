"""Load the bundled recordings: exports as the tables that ingesting them produces, so that a first start is quick."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.ingest.batches import ingest_export, parse_page_file, store_page_file
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.news.store import Tables
from tollhouse.services.defense.recordings import EXPORTS_OF_2020, PAGES_OF_2023, Recording, chosen_recording
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
EXPORT_ENDING = ".export.CSV.zip"
PAGES_ENDING = ".gkg.csv.zip"
RECORDED_DAYS = 3


async def load_recording(database: Database, settings: Settings) -> None:
    """Ingest the recording that `recorded` names once; without that setting only into an empty store.

    A store that was never used gets the prepared tables, unless it retains less than RECORDED_DAYS.
    """
    recording = chosen_recording(settings.recorded)
    async with database.turn("recording", Path(settings.data_dir)):
        if recording is PAGES_OF_2023:
            await _ingest_missing_pages(database, recording)
            return
        async with database.reading() as connection:
            if await store.find_slot(connection, recording.files(EXPORT_ENDING)[-1].name[:14]):
                return
            is_empty = not await store.newest_slot(connection, "provider") and not await store.newest_slot(
                connection, "local"
            )
        if settings.section(DefenseSettings).retention_days >= RECORDED_DAYS and await _load_prepared(database):
            return
        if settings.recorded or is_empty:
            await ingest_recording(database)


async def ingest_recording(database: Database) -> None:
    """Ingest every export of the recording of 2020."""
    for export in EXPORTS_OF_2020.files(EXPORT_ENDING):
        raw = await asyncio.to_thread(export.read_bytes)
        await ingest_export(database, export.name, raw, "recording")


async def _ingest_missing_pages(database: Database, recording: Recording) -> None:
    for file in recording.files(PAGES_ENDING):
        async with database.reading() as connection:
            if await store.find_page_file(connection, recording.pool, file.name[:14], "gkg"):
                continue
        raw = await asyncio.to_thread(file.read_bytes)
        parsed = await asyncio.to_thread(parse_page_file, file.name, raw)
        await store_page_file(database, parsed, recording.pool, "recording")


async def _load_prepared(database: Database) -> bool:
    """Load the prepared tables into a store that was never used; False if it was."""
    async with database.writing(lock="ingest") as connection:
        if not await news.is_untouched(connection):
            return False
        (file,) = EXPORTS_OF_2020.files(PREPARED)
        prepared = await asyncio.to_thread(lambda: unpacked(file.read_bytes()))
        await news.write_tables(connection, prepared, clock.iso(clock.now()))
    log.info("recording loaded", slots=len(prepared["gdelt_slot"]))
    return True
