"""How the rows of a table's file get into its catalogue, and what became of the newest edit of it."""

import asyncio
from hashlib import blake2b
from pathlib import Path

import msgspec

from tollhouse import clock
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.store import drop
from tollhouse.logs import logger
from tollhouse.services.tables import store
from tollhouse.services.tables.declaration import Declaration
from tollhouse.services.tables.file_reader import RefusedRow, TableError, read_table
from tollhouse.services.tables.rows import Fitted, fitted
from tollhouse.services.tables.schema import catalogue_name, schema_of
from tollhouse.services.tables.store import Load
from tollhouse.storage.database import Database, Transaction

log = logger("tables")

LOOK_EVERY_SECONDS = 1.0
# Rows that are checked and written before other requests have their turn.
BATCH = 500
MOST_REFUSED_TOLD = 20

Stamp = tuple[int, int, int] | None


class Filler:
    """Takes a table's file into its catalogue whenever it has changed."""

    def __init__(self, declaration: Declaration, database: Database, catalogue: Catalogue) -> None:
        self._declaration = declaration
        self._database = database
        self._catalogue = catalogue
        self._stamp: Stamp = None
        self._is_settled = False

    async def standing(self) -> Load:
        """What is served, and what is wrong with the newest edit, if anything."""
        async with self._database.reading() as connection:
            known = await store.load_of(connection, self._declaration.name)
        assert known is not None, "the file is looked at before the service opens"
        return known

    async def follow(self) -> None:
        """Take the file in again whenever it changes, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def look(self) -> None:
        """Take the file in if it is another and has stayed so since the last look: half a file is none."""
        stamp = await asyncio.to_thread(_stamp, self._declaration.file)
        if stamp != self._stamp:
            self._stamp, self._is_settled = stamp, False
        elif not self._is_settled:
            self._is_settled = True
            await self.fill()

    async def fill(self) -> None:
        """Take the file in if it is another than the one seen last. A broken one is noted, and what is served stays."""
        raw, fault = await asyncio.to_thread(_read, self._declaration.file)
        seen = blake2b(self._declaration.fingerprint + raw + fault.encode(), digest_size=16).hexdigest()
        if (await self._known()).fingerprint == seen:
            return
        rows: Fitted | None = None
        if not fault:
            try:
                rows = await asyncio.to_thread(_fitted, self._declaration, raw)
            except TableError as error:
                fault = str(error)
        async with self._database.writing(lock=f"table {self._declaration.name}") as transaction:
            await self._land(transaction, seen, rows, fault)
        await self._catalogue.refresh()

    async def _land(self, transaction: Transaction, seen: str, rows: Fitted | None, fault: str) -> None:
        """Write it, unless another process has in the meantime."""
        known = await store.load_of(transaction, self._declaration.name) or self._unknown()
        if known.fingerprint == seen:
            return
        now = clock.iso(clock.now())
        if known.catalogue != self._catalogue.name:
            # The rows of another shape of this table; what was told of them is over too.
            await drop(transaction, known.catalogue)
            known = self._unknown()
        if rows is None:
            log.error("table refused", table=self._declaration.name, reason=fault)
            noted = msgspec.structs.replace(known, fingerprint=seen, seen_at=now, fault=fault)
        else:
            await self._put(transaction, rows.items)
            noted = self._taken(seen, now, rows)
            log.info("table taken in", table=self._declaration.name, rows=noted.row_count, refused=noted.refused_count)
        await store.keep_load(transaction, noted)

    async def _put(self, transaction: Transaction, items: list[Item]) -> None:
        here = {item["id"] for item in items}
        gone = [item["id"] async for item in self._catalogue.stored(transaction) if item["id"] not in here]
        for start in range(0, len(items), BATCH):
            await self._catalogue.apply(transaction, items[start : start + BATCH])
        await self._catalogue.apply(transaction, [], gone)

    async def _known(self) -> Load:
        async with self._database.reading() as connection:
            return await store.load_of(connection, self._declaration.name) or self._unknown()

    def _unknown(self) -> Load:
        return Load(self._declaration.name, self._catalogue.name, "", "")

    def _taken(self, seen: str, now: str, rows: Fitted) -> Load:
        first = msgspec.json.encode(rows.refused[:MOST_REFUSED_TOLD])
        return Load(
            self._declaration.name, self._catalogue.name, seen, now, now, len(rows.items), len(rows.refused), first
        )


def refused_of(load: Load) -> list[RefusedRow]:
    """The first of the rows that were refused."""
    return msgspec.json.decode(load.refused, type=list[RefusedRow])


def open_filler(declaration: Declaration, database: Database) -> tuple[Filler, Catalogue]:
    """The filler and its catalogue; nothing of it shows before it is filled."""
    catalogue = Catalogue(catalogue_name(declaration), schema_of(declaration), database)
    return Filler(declaration, database, catalogue), catalogue


def _fitted(declaration: Declaration, raw: bytes) -> Fitted:
    """Raises TableError, for a file without a single good row too: it is more likely broken than empty."""
    rows = fitted(declaration, read_table(declaration.table, raw))
    if not rows.items:
        first = f"; line {rows.refused[0].line}: {rows.refused[0].reason}" if rows.refused else ""
        raise TableError(f"no row of it can be served{first}")
    return rows


def _read(file: Path) -> tuple[bytes, str]:
    """The file's bytes, or why there are none."""
    try:
        return file.read_bytes(), ""
    except OSError as error:
        return b"", f"the file cannot be read: {error.strerror or error}"


def _stamp(file: Path) -> Stamp:
    """What changes when the file does; one that is replaced has another inode."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
