"""Sync with GDELT: fetch the newest 15-minute files every minute, catch up after an outage, back off on failure."""

import asyncio
import random
import re
from collections.abc import Mapping
from datetime import timedelta
from hashlib import md5
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from tollhouse import __version__
from tollhouse.download import UpstreamFailure, fetch
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.events.event import WINDOW_HOURS
from tollhouse.services.defense.events.report import Headline
from tollhouse.services.defense.ingest import source_health
from tollhouse.services.defense.ingest.batches import PageFile, ingest_export, parse_page_file, store_page_file
from tollhouse.services.defense.ingest.export_parser import SLOT, slot_before, time_of_slot
from tollhouse.services.defense.ingest.gkg_parser import ParsedGkg
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.storage.database import Database

LIST_CAP_BYTES = 64 * 1024
FILE_CAP_BYTES = 32 * 1024 * 1024
# A server without range support sends ten years of lines; more than this is refused.
MASTER_CAP_BYTES = 256 * 1024 * 1024
MASTER_TAIL_BYTES = 2 * 1024 * 1024
DEADLINE_SECONDS = 60.0

_LINE = re.compile(r"([0-9]{1,12}) ([0-9a-f]{32}) (https?://\S+/([0-9]{14})\.(export|gkg)\.(?:CSV|csv)\.zip)")


class ListedFile(Struct, frozen=True):
    """A file as announced in GDELT's lists: its size in bytes and its MD5 in hexadecimal."""

    size: int
    md5: str
    url: str


class GdeltUpdate(Struct, frozen=True):
    """The files of one 15-minute update: the event export, and the GKG file of its pages if announced."""

    name: str
    export: ListedFile
    gkg: ListedFile | None


class GdeltClient:
    """A client of GDELT's file server at `base_url`. Every method raises UpstreamFailure."""

    def __init__(self, client: httpx2.AsyncClient, base_url: str) -> None:
        self._client = client
        self._base = base_url.rstrip("/") + "/"

    async def newest(self) -> GdeltUpdate:
        """The update that `lastupdate.txt` announces."""
        listed = self._listed(await self._get("lastupdate.txt", LIST_CAP_BYTES))
        if not listed:
            raise UpstreamFailure("malformed", "lastupdate.txt announces no export")
        return listed[-1]

    async def missed(self, after: str, until: str) -> list[GdeltUpdate]:
        """The updates between two slots from the end of the master list, oldest first."""
        listed = self._listed(await self._get("masterfilelist.txt", MASTER_CAP_BYTES, MASTER_TAIL_BYTES))
        return [slot for slot in listed if after < slot.name <= until]

    async def download(self, file: ListedFile) -> bytes:
        """Download a file and verify its announced size and MD5."""
        # The file name alone: downloads use the configured host, whatever host a list names.
        name = urlsplit(file.url).path.rpartition("/")[2]
        if file.size > FILE_CAP_BYTES:
            raise UpstreamFailure("too-large", f"{name}: announced with {file.size} bytes, more than {FILE_CAP_BYTES}")
        raw = await self._get(name, file.size)
        if len(raw) != file.size or md5(raw, usedforsecurity=False).hexdigest() != file.md5:
            raise UpstreamFailure("malformed", f"{name}: {len(raw)} bytes whose MD5 is not the announced one")
        return raw

    async def _get(self, path: str, cap_bytes: int, last_bytes: int = 0) -> bytes:
        response = await fetch(
            self._client,
            self._base + path,
            cap_bytes=cap_bytes,
            deadline_seconds=DEADLINE_SECONDS,
            last_bytes=last_bytes,
        )
        if response.status not in (200, 206):
            raise UpstreamFailure("status", f"{path}: status {response.status}", response.retry_after_seconds)
        return response.body

    def _listed(self, text: bytes) -> list[GdeltUpdate]:
        """The updates whose export is announced, oldest first."""
        slots: dict[str, dict[str, ListedFile]] = {}
        for size, digest, url, slot, kind in _LINE.findall(text.decode("ascii", "replace")):
            slots.setdefault(slot, {})[kind] = ListedFile(int(size), digest, url)
        return [
            GdeltUpdate(slot, listed["export"], listed.get("gkg"))
            for slot, listed in sorted(slots.items())
            if "export" in listed
        ]


log = logger("ingest")

SOURCE = "gdelt events"
# Share of the poll interval: 15 s at the default of one minute.
FIRST_RETRY_SHARE = 0.25
LONGEST_RETRY_SECONDS = 900.0
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
# GDELT may publish an update's pages after its export, or never.
PAGES_WITHIN = timedelta(hours=1)


class Progress(Struct, frozen=True):
    """The update up to which no export is missing, and the stored updates whose pages are missing, by slot."""

    caught_up_to: str | None = None
    without_pages: Mapping[str, GdeltUpdate] = {}


async def sync_gdelt(database: Database, settings: DefenseSettings) -> None:
    """Ingest GDELT's updates until cancelled; back off while it fails, and record source health."""
    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    agent = {"User-Agent": f"tollhouse/{__version__}"}
    failures = 0
    progress = Progress()
    async with httpx2.AsyncClient(timeout=timeout, headers=agent) as http:
        client = GdeltClient(http, settings.gdelt_url)
        while True:
            try:
                progress = await catch_up(database, client, progress, settings.retention_days)
            except (Problem, ValueError) as error:
                failures += 1
                log.warning("sync failed", source=SOURCE, error=str(error)[:300], failures=failures)
                await source_health.failed(database, SOURCE, error, failures)
                await asyncio.sleep(max(retry_seconds(failures, settings.gdelt_poll_seconds), _retry_after(error)))
            else:
                failures = 0
                await source_health.succeeded(database, SOURCE)
                await asyncio.sleep(settings.gdelt_poll_seconds)


async def catch_up(database: Database, client: GdeltClient, progress: Progress, retention_days: int) -> Progress:
    """Ingest what is not stored of every update of the window; return how far that got.

    A bad export does not stop the others; the last UpstreamFailure or ValueError is raised after all were tried.
    """
    newest = await client.newest()
    missing = await _list_missing(database, client, newest, progress)
    if missing:
        await store.make_days_of_rows(database, time_of_slot(newest.name).date())
    without_pages: dict[str, GdeltUpdate] = {}
    refused: Exception | None = None
    for update in missing:
        try:
            if not await _ingest_update(database, client, update) and update.name > _awaited_after(newest):
                without_pages[update.name] = update
        except (UpstreamFailure, ValueError) as error:
            log.warning("update refused", slot=update.name, error=str(error)[:300])
            refused = error
    if missing:
        await _delete_old(database, newest.name, retention_days)
    if refused:
        raise refused
    return Progress(newest.name, without_pages)


def retry_seconds(failures: int, poll_seconds: float) -> float:
    """A quarter of the poll interval, doubling up to 15 minutes, with 10 % jitter."""
    wait: float = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SHARE * poll_seconds * 2 ** min(failures - 1, 10))
    return wait * random.uniform(0.9, 1.1)  # noqa: S311 - jitter, not a secret


def _retry_after(error: Exception) -> float:
    """The Retry-After of the provider, at most LONGEST_RETRY_SECONDS."""
    requested = error.retry_after_seconds if isinstance(error, UpstreamFailure) else None
    return min(requested or 0.0, LONGEST_RETRY_SECONDS)


def _awaited_after(newest: GdeltUpdate) -> str:
    """The slot after which missing pages are looked for again."""
    return slot_before(newest.name, PAGES_WITHIN)


async def _list_missing(
    database: Database, client: GdeltClient, newest: GdeltUpdate, progress: Progress
) -> list[GdeltUpdate]:
    """The updates of which the export or the pages are not stored yet, newest first."""
    without_pages = [newest if slot == newest.name else update for slot, update in progress.without_pages.items()]
    if progress.caught_up_to == newest.name:
        return without_pages
    if progress.caught_up_to == slot_before(newest.name, SLOT):
        return [newest, *without_pages]
    after = slot_before(newest.name, timedelta(hours=WINDOW_HOURS))
    async with database.reading() as connection:
        known = await store.exports_between(connection, "provider", after, newest.name)
        titled = await store.page_files_between(connection, "provider", after, newest.name)
    listed = {update.name: update for update in [*await client.missed(after, newest.name), newest]}
    awaited = {name for name, update in listed.items() if update.gkg and name > _awaited_after(newest)} - titled
    return [listed[name] for name in sorted(listed, reverse=True) if name not in known or name in awaited]


async def _ingest_update(database: Database, client: GdeltClient, update: GdeltUpdate) -> bool:
    """Ingest what is not stored of an update; whether its pages are. They come first: reports use their headlines."""
    async with database.reading() as connection:
        stored = await store.find_slot(connection, update.name)
    pages = await _read_pages(client, update.name, update.gkg) if update.gkg else None
    if stored is None or stored.pool != "provider":
        records = pages.pages.records if pages and isinstance(pages.pages, ParsedGkg) else ()
        titles: dict[str, Headline] = {it.article.id: (it.article.title, "page") for it in records if it.article.title}
        raw = await client.download(update.export)
        await ingest_export(database, f"{update.name}.export.CSV.zip", raw, "provider", titles)
    if pages:
        await store_page_file(database, pages, "provider", "provider")
    return pages is not None


async def _read_pages(client: GdeltClient, slot: str, file: ListedFile) -> PageFile | None:
    """The pages of a GKG file, None if it cannot be read: reports are ingested without them."""
    try:
        raw = await client.download(file)
        return await asyncio.to_thread(parse_page_file, slot, raw)
    except (UpstreamFailure, ValueError) as error:
        log.warning("pages refused", slot=slot, error=str(error)[:300])
        return None


async def _delete_old(database: Database, newest: str, retention_days: int) -> None:
    before = slot_before(newest, timedelta(days=retention_days))
    is_seen = before > slot_before(newest, store.WIDEST_WINDOW)
    async with database.writing(lock="ingest") as connection:
        await store.delete_before(connection, "provider", before, is_seen=is_seen)
    await store.drop_days_before(database, "provider", before)
