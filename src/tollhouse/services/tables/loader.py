"""The loader of a table: reads its file or address into its catalogue, and records what became of the newest edit."""

import asyncio
from hashlib import blake2b
from pathlib import Path

import msgspec

from tollhouse import clock
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.feed import is_address, load, read_table, site_of
from tollhouse.catalogue.importers.formats import FORMATS
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.mapping import Mapping
from tollhouse.catalogue.importers.tables import Table
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.store import drop
from tollhouse.logs import logger
from tollhouse.services.tables.declaration import Declaration, Source
from tollhouse.services.tables.rows import TableItems, build_schema, catalogue_name, items_from_rows
from tollhouse.services.tables.store import LoadStatus, read_status, save_status
from tollhouse.storage.database import Database, Transaction

log = logger("tables")

POLL_SECONDS = 1.0
MAX_FILE_BYTES = 1024 * 1024 * 1024
# Rows that are written before other requests have their turn.
BATCH = 500
MAX_REFUSED_SHOWN = 20

FileStamp = tuple[int, int, int] | None


class TableLoader:
    """Loads a table into its catalogue whenever its file or its address has changed."""

    def __init__(
        self, declaration: Declaration, database: Database, catalogue: Catalogue, *, allow_loopback: bool = False
    ) -> None:
        self._declaration = declaration
        self._database = database
        self._catalogue = catalogue
        self._allow_loopback = allow_loopback
        self._is_remote = is_address(declaration.location)
        self._stamp: FileStamp = None
        self._is_loaded = False

    async def status(self) -> LoadStatus:
        """What is served, and what is wrong with the newest edit, if anything."""
        async with self._database.reading() as connection:
            return await read_status(connection, self._declaration.name) or self._new_status()

    async def open(self) -> None:
        """Load before the first request. An address whose rows are stored already is left to the background task."""
        if not (self._is_remote and (await self.status()).loaded_at):
            await self.load()

    async def run(self) -> None:
        """Poll the file, or fetch the address, until cancelled."""
        while True:
            if self._is_remote:
                await self.load()
                await asyncio.sleep(self._declaration.table.refresh_seconds)
            else:
                await self.poll()
                await asyncio.sleep(POLL_SECONDS)

    async def poll(self) -> None:
        """Load the file if it has changed, and then stayed the same since the last poll: half a file is not loaded."""
        stamp = await asyncio.to_thread(_file_stamp, Path(self._declaration.location))
        if stamp != self._stamp:
            self._stamp, self._is_loaded = stamp, False
        elif not self._is_loaded:
            self._is_loaded = True
            await self.load()

    async def load(self) -> None:
        """Load the table if it differs from the one seen last. A broken one is recorded, and what is served stays."""
        documents: list[Document] = []
        items: TableItems | None = None
        fault = ""
        try:
            documents = await load(
                self._declaration.location,
                FORMATS[self._declaration.table.format],
                lambda progress: log.debug("table fetching", table=self._declaration.name, detail=progress),
                allow_loopback=self._allow_loopback,
                max_bytes=MAX_FILE_BYTES,
            )
        except UnreadableFeed as error:
            fault = str(error)
        except OSError as error:
            fault = f"the file cannot be read: {error.strerror or error}"
        seen = blake2b(self._declaration.fingerprint + fault.encode(), digest_size=16)
        for document in documents:
            seen.update(document.body)
        if (await self.status()).fingerprint == seen.hexdigest():
            return
        if not fault:
            try:
                items = await asyncio.to_thread(_valid_items, self._declaration, documents)
            except UnreadableFeed as error:
                fault = str(error)
        async with self._database.writing(lock=f"table {self._declaration.name}") as transaction:
            await self._write(transaction, seen.hexdigest(), items, fault)
        await self._catalogue.refresh()

    async def _write(self, transaction: Transaction, seen: str, items: TableItems | None, fault: str) -> None:
        """Write the rows and the status, unless another process has in the meantime."""
        known = await read_status(transaction, self._declaration.name) or self._new_status()
        if known.fingerprint == seen:
            return
        now = clock.iso(clock.now())
        if known.catalogue != self._catalogue.name:
            # The rows of another shape of this table; their status is void too.
            await drop(transaction, known.catalogue)
            known = self._new_status()
        if items is None:
            log.error("table refused", table=self._declaration.name, reason=fault)
            status = msgspec.structs.replace(known, fingerprint=seen, seen_at=now, fault=fault)
        else:
            await self._replace_rows(transaction, items.items)
            first = [{"line": row.line, "reason": row.reason} for row in items.refused[:MAX_REFUSED_SHOWN]]
            status = msgspec.structs.replace(
                self._new_status(),
                fingerprint=seen,
                seen_at=now,
                loaded_at=now,
                row_count=len(items.items),
                refused_count=len(items.refused),
                refused=msgspec.json.encode(first),
            )
            log.info("table loaded", table=status.name, rows=status.row_count, refused=status.refused_count)
        await save_status(transaction, status)

    async def _replace_rows(self, transaction: Transaction, items: list[Item]) -> None:
        present = {item["id"] for item in items}
        gone = [item["id"] async for item in self._catalogue.stored(transaction) if item["id"] not in present]
        for start in range(0, len(items), BATCH):
            await self._catalogue.apply(transaction, items[start : start + BATCH])
        await self._catalogue.apply(transaction, [], gone)

    def _new_status(self) -> LoadStatus:
        return LoadStatus(self._declaration.name, self._catalogue.name, "", "")


def open_loader(
    declaration: Declaration, database: Database, *, allow_loopback: bool = False
) -> tuple[TableLoader, Catalogue]:
    """The loader and its catalogue, which is empty before it has loaded."""
    catalogue = Catalogue(catalogue_name(declaration), build_schema(declaration), database)
    return TableLoader(declaration, database, catalogue, allow_loopback=allow_loopback), catalogue


def parse_table(source: Source, documents: list[Document]) -> Table:
    """The rows of a table. Raises UnreadableFeed."""
    delimiter = source.delimiter if source.format == "csv" else ""
    site = f"{source.site.rstrip('/')}/" if source.site else site_of(documents)
    context = Context(site, Mapping(delimiter=delimiter, encoding=source.encoding))
    return read_table(documents, FORMATS[source.format], context, source.currency)


def _valid_items(declaration: Declaration, documents: list[Document]) -> TableItems:
    """Raises UnreadableFeed, also for a table without a valid row: it is more likely broken than empty."""
    items = items_from_rows(declaration, parse_table(declaration.table, documents))
    if not items.items:
        first = f"; line {items.refused[0].line}: {items.refused[0].reason}" if items.refused else ""
        raise UnreadableFeed(f"no row of it can be served{first}")
    return items


def _file_stamp(file: Path) -> FileStamp:
    """What changes with the file; a replaced file has another inode."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
