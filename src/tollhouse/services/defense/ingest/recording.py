"""The bundled recording of 13 to 15 November 2020: what is served when the provider cannot be, or should not be."""

import asyncio
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.logs import logger
from tollhouse.services.defense import recording_store, store
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.storage.database import Database

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
            if await store.slot_named(connection, exports[-1].name[:14]):
                return
            is_empty = not await store.newest_slot(connection, "provider") and not await store.newest_slot(
                connection, "local"
            )
        if settings.retention_days >= RECORDED_DAYS and await _put_prepared(database):
            return
        if settings.recorded or is_empty:
            await take_in(database)


async def take_in(database: Database) -> None:
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
        if not await recording_store.is_untouched(connection):
            return False
        raw = await asyncio.to_thread(recording_folder().joinpath(PREPARED).read_bytes)
        kept = await asyncio.to_thread(recording_store.unpacked, raw)
        await recording_store.put(connection, kept, clock.iso(clock.now()))
    log.info("recording stored", slots=len(kept["gdelt_slot"]))
    return True
