"""The loader of a table: reads its file or address into its catalogue, and records what became of the newest edit."""

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from tollhouse import clock
from tollhouse.catalogue.catalogue import Catalogue, item_digest
from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.feed import is_address, open_feed, read_table, site_of
from tollhouse.catalogue.importers.fetcher import FetchRules
from tollhouse.catalogue.importers.formats import FORMATS
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.mapping import Mapping
from tollhouse.catalogue.importers.tables import Row, Table
from tollhouse.catalogue.items import Item, batches
from tollhouse.catalogue.store import drop
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.periodic import FileStamp, file_stamp
from tollhouse.services.tables.declaration import Declaration, Source
from tollhouse.services.tables.rows import BATCH as READ_ROWS
from tollhouse.services.tables.rows import RowReader, build_schema, catalogue_name
from tollhouse.services.tables.store import LoadStatus, read_status, save_status
from tollhouse.storage.database import Database

log = logger("tables")

POLL_SECONDS = 1.0
RETRY_SECONDS = 5.0
# Rows that are written before other requests have their turn.
BATCH = 250
# So many changed rows are written in one transaction. An edit with more is written in several.
MAX_ROWS_AT_ONCE = 5_000
# A start waits for the whole of a file up to this size, and for the first rows of another for so long.
SMALL_FILE_BYTES = 1_000_000
FIRST_ROWS_SECONDS = 1.0
MAX_REFUSED_SHOWN = 20


class TableLoader:
    """Loads a table into its catalogue whenever its file or its address has changed.

    With `folder`, processes that use the same one load the table one after another.
    """

    def __init__(
        self,
        declaration: Declaration,
        database: Database,
        catalogue: Catalogue,
        folder: Path | None,
        rules: FetchRules | None,
    ) -> None:
        self._declaration = declaration
        self._database = database
        self._catalogue = catalogue
        self._folder = folder
        self._rules = rules
        self._is_remote = is_address(declaration.location)
        self._stamp: FileStamp = None
        self._is_loaded = False
        self._has_rows = asyncio.Event()
        self._first: asyncio.Task[None] | None = None

    async def status(self) -> LoadStatus:
        """What is served, and what is wrong with the newest edit, if anything."""
        async with self._database.reading() as connection:
            return await read_status(connection, self._declaration.name) or self._new_status()

    async def open(self) -> None:
        """Start to load, and wait for a small table, or for the first rows of a large one.

        An address whose rows are stored already is left to the background task.
        """
        if self._is_remote and (await self.status()).loaded_at:
            return
        self._first = asyncio.create_task(self._load_first())
        first_rows = asyncio.create_task(self._has_rows.wait())
        seconds = None if self._is_small() else FIRST_ROWS_SECONDS
        waited = [self._first] if self._is_small() else [self._first, first_rows]
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        first_rows.cancel()

    async def wait_for_first(self) -> None:
        """Wait for what `open` started; cancel it if this is cancelled."""
        if self._first is not None:
            await self._first

    async def run(self) -> None:
        while True:
            if self._is_remote:
                await self.load()
                await asyncio.sleep(self._declaration.table.refresh_seconds)
            else:
                await self.poll()
                await asyncio.sleep(POLL_SECONDS)

    async def poll(self) -> None:
        """Load the file if it has changed, and then stayed the same since the last poll: half a file is not loaded."""
        stamp = await asyncio.to_thread(file_stamp, Path(self._declaration.location))
        if stamp != self._stamp:
            self._stamp, self._is_loaded = stamp, False
        elif not self._is_loaded:
            self._is_loaded = True
            await self.load()

    async def load(self) -> None:
        """Load the table if it differs from the one seen last. A broken one is recorded, and what is served stays."""
        if self._folder is None:
            return await self._load()
        async with self._database.turn(f"table-{self._declaration.name}", self._folder):
            return await self._load()

    def _is_small(self) -> bool:
        stamp = None if self._is_remote else file_stamp(Path(self._declaration.location))
        return not self._is_remote and (stamp is None or stamp[1] <= SMALL_FILE_BYTES)

    async def _load_first(self) -> None:
        while True:
            try:
                return await self.load()
            except Problem as problem:
                log.warning("table not loaded", table=self._declaration.name, detail=problem.detail)
                await asyncio.sleep(RETRY_SECONDS)

    async def _load(self) -> None:
        fault = seen = ""
        try:
            async with open_feed(
                self._declaration.location,
                FORMATS[self._declaration.table.format],
                lambda progress: log.debug("table fetching", table=self._declaration.name, detail=progress),
                self._rules,
            ) as documents:
                seen = await asyncio.to_thread(_fingerprint, self._declaration, documents, "")
                if (await self.status()).fingerprint == seen:
                    return
                await self._replace_rows(documents, seen)
        except UnreadableFeed as error:
            fault = str(error)
        except OSError as error:
            fault = f"the file cannot be read: {error.strerror or error}"
        if fault and not seen:
            seen = _fingerprint(self._declaration, [], fault)
            if (await self.status()).fingerprint == seen:
                return
        if fault:
            log.error("table refused", table=self._declaration.name, reason=fault)
            await self._write([], [], seen=seen, seen_at=clock.iso(clock.now()), fault=fault)
        await self._catalogue.refresh()

    async def _replace_rows(self, documents: list[Document], seen: str) -> None:
        """Write what differs from the stored rows: at once if it is little, else in parts.

        Raises UnreadableFeed, also for a table without a valid row: it is more likely broken than empty.
        """
        table = await asyncio.to_thread(parse_table, self._declaration.table, documents)
        reader = RowReader(self._declaration, table)
        async with self._database.reading() as connection:
            gone = await self._catalogue.digests(connection)
        changed: list[Item] = []
        total, done, valid = len(table.rows), 0, 0
        parts = batches(table.rows, READ_ROWS)
        while rows := await asyncio.to_thread(next, parts, ()):
            items, new = await asyncio.to_thread(_read, reader, rows, gone)
            valid, done = valid + len(items), done + len(rows)
            changed += new
            if len(changed) >= MAX_ROWS_AT_ONCE and done < total:
                await self._write(changed, [], fingerprint="", row_count=total, pending_count=total - done, fault="")
                log.info("table indexing", table=self._declaration.name, done=done, total=total)
                changed = []
                self._has_rows.set()
        refused = sorted(reader.refused, key=lambda row: row.line)
        if not valid:
            first = f"; line {refused[0].line}: {refused[0].reason}" if refused else ""
            raise UnreadableFeed(f"no row of it can be served{first}")
        now = clock.iso(clock.now())
        shown = msgspec.json.encode([{"line": row.line, "reason": row.reason} for row in refused[:MAX_REFUSED_SHOWN]])
        loaded = {"row_count": valid, "pending_count": 0, "refused_count": len(refused), "refused": shown, "fault": ""}
        await self._write(changed, list(gone), seen=seen, fingerprint=seen, seen_at=now, loaded_at=now, **loaded)
        log.info("table loaded", table=self._declaration.name, rows=valid, refused=len(refused))

    async def _write(self, items: list[Item], gone: list[str], *, seen: str = "", **status: Any) -> None:
        """Write items and the status in one transaction, unless another process has written the edit `seen`."""
        async with self._database.writing(lock=f"table {self._declaration.name}") as transaction:
            known = await read_status(transaction, self._declaration.name) or self._new_status()
            if seen and known.fingerprint == seen:
                return
            if known.catalogue != self._catalogue.name:
                # The rows of another shape of this table; their status is void too.
                await drop(transaction, known.catalogue)
                known = self._new_status()
            for batch in batches(items, BATCH):
                await self._catalogue.apply(transaction, batch)
                # Let others have their turn.
                await asyncio.sleep(0)
            await self._catalogue.apply(transaction, [], gone)
            await save_status(transaction, msgspec.structs.replace(known, **({"fingerprint": seen} | status)))

    def _new_status(self) -> LoadStatus:
        return LoadStatus(self._declaration.name, self._catalogue.name, "", "")


def open_loader(
    declaration: Declaration,
    database: Database,
    folder: Path | None = None,
    *,
    snapshots: str = "",
    rules: FetchRules | None = None,
) -> tuple[TableLoader, Catalogue]:
    """The loader and its catalogue, which is empty before it has loaded.

    With `folder`, the catalogue's index is valid there between runs.
    """
    own = folder / declaration.name if folder else None
    catalogue = Catalogue(catalogue_name(declaration), build_schema(declaration), database, own, snapshots)
    return TableLoader(declaration, database, catalogue, folder, rules), catalogue


def _read(reader: RowReader, rows: Sequence[Row], stored: dict[str, bytes]) -> tuple[list[Item], list[Item]]:
    """The items of these rows, and those that are not stored alike. Takes their ids out of `stored`."""
    items = reader.read(rows)
    return items, [item for item in items if stored.pop(item["id"], None) != item_digest(item)]


def _fingerprint(declaration: Declaration, documents: list[Document], fault: str) -> str:
    """Changes with the content and with how it is read."""
    seen = blake2b(declaration.fingerprint + fault.encode(), digest_size=16)
    for document in documents:
        for chunk in document.chunks():
            seen.update(chunk)
    return seen.hexdigest()


def parse_table(source: Source, documents: list[Document]) -> Table:
    """The rows of a table. Raises UnreadableFeed."""
    delimiter = source.delimiter if source.format == "csv" else ""
    site = f"{source.site.rstrip('/')}/" if source.site else site_of(documents)
    context = Context(site, Mapping(delimiter=delimiter, encoding=source.encoding))
    return read_table(documents, FORMATS[source.format], context, source.currency)
