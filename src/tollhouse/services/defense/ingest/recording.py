"""The bundled recording of 13 to 15 November 2020: what is served when the provider cannot be, or should not be."""

import asyncio
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.ingest.slots import ingest_export
from tollhouse.settings import Settings
from tollhouse.storage.database import Database

log = logger("ingest")


async def load_recording(database: Database, settings: Settings) -> None:
    """Take the recording in, once; without `recorded`, only into a store that is empty."""
    exports = sorted(
        (entry for entry in _folder().iterdir() if entry.name.endswith(".export.CSV.zip")), key=lambda entry: entry.name
    )
    async with database.turn("recording", Path(settings.data_dir)):
        async with database.reading() as connection:
            if await store.slot_named(connection, exports[-1].name[:14]):
                return
            is_empty = not await store.newest_slot(connection, "provider") and not await store.newest_slot(
                connection, "local"
            )
        if settings.recorded or is_empty:
            for export in exports:
                raw = await asyncio.to_thread(export.read_bytes)
                await ingest_export(database, export.name, raw, "recording")


def _folder() -> Traversable:
    return files("tollhouse.services.defense").joinpath("data", "recording")
