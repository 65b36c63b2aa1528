"""A large table in the middle of its load, which stands still for as long as a test needs."""

import csv
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tollhouse.config.settings import Settings
from tollhouse.services.tables.declaration import read_declaration
from tollhouse.services.tables.loader import open_loader
from tollhouse.services.tables.store import read_status, save_status
from tollhouse.storage.database import open_database

ROWS = 1_200
READY = 600


def wide(count: int) -> str:
    """A table that is too large for a start to wait for it."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["id", "name", "size", "note"])
    writer.writerows([f"w{n}", f"Row {n}", n % 7, "word " * 200] for n in range(count))
    return out.getvalue()


@asynccontextmanager
async def half_indexed(home: Path, path: Path) -> AsyncIterator[None]:
    """The state that a crash in the middle of a load leaves, and the loading held up until the block ends.

    `path` is the declaration of the table `wide` in `home`, over its first READY rows.
    """
    database = open_database(Settings(data_dir=str(home / "data")))
    folder = home / "data" / "search"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        loader, catalogue = open_loader(read_declaration(path), database, folder)
        await loader.load()
        catalogue.close()
        async with database.writing() as transaction:
            status = await read_status(transaction, "wide")
            pending = {"fingerprint": "", "loaded_at": "", "row_count": ROWS, "pending_count": ROWS - READY}
            await save_status(transaction, msgspec.structs.replace(status, **pending))
        (home / "wide.csv").write_text(wide(ROWS))
        async with database.turn("table-wide", folder):
            yield
    finally:
        await database.close()
