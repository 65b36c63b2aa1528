"""Sync with GDELT."""

import asyncio
import random
import re
from datetime import timedelta
from hashlib import md5
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from tollhouse import __version__
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.events.event import WINDOW_HOURS
from tollhouse.services.defense.ingest import source_health
from tollhouse.services.defense.ingest.batches import EXPORT_CAP_BYTES, ingest_export, pages_of_slot, slot_before
from tollhouse.services.defense.ingest.export_parser import unpack_export
from tollhouse.services.defense.ingest.fetcher import UpstreamFailure, fetch
from tollhouse.services.defense.ingest.gkg_parser import GkgRecord, parse_gkg
from tollhouse.services.defense.news.article_import import import_pages
from tollhouse.services.defense.news.store import Headline
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.storage.database import Database

LIST_CAP_BYTES = 64 * 1024
FILE_CAP_BYTES = 32 * 1024 * 1024
# A server that grants no range sends ten years of lines; more than this is refused.
MASTER_CAP_BYTES = 256 * 1024 * 1024
MASTER_TAIL_BYTES = 2 * 1024 * 1024
DEADLINE_SECONDS = 60.0

_LINE = re.compile(r"([0-9]{1,12}) ([0-9a-f]{32}) (https?://\S+/([0-9]{14})\.(export|gkg)\.(?:CSV|csv)\.zip)")


class ListedFile(Struct, frozen=True):
    """One file as the provider's lists announce it."""

    size: int
    md5: str
    url: str


class GdeltUpdate(Struct, frozen=True):
    """What the provider publishes for 15 minutes: the events, and the pages they were read from, if announced."""

    name: str
    export: ListedFile
    gkg: ListedFile | None


class GdeltClient:
    """The provider at `base_url`. Every method raises UpstreamFailure."""

    def __init__(self, client: httpx2.AsyncClient, base_url: str) -> None:
        self._client = client
        self._base = base_url.rstrip("/") + "/"

    async def newest(self) -> GdeltUpdate:
        """The slot that `lastupdate.txt` announces."""
        listed = self._listed(await self._get("lastupdate.txt", LIST_CAP_BYTES))
        if not listed:
            raise UpstreamFailure("malformed", "lastupdate.txt names no export")
        return listed[-1]

    async def missed(self, after: str, until: str) -> list[GdeltUpdate]:
        """The slots between two slots, from the end of the master list, oldest first."""
        listed = self._listed(await self._get("masterfilelist.txt", MASTER_CAP_BYTES, MASTER_TAIL_BYTES))
        return [slot for slot in listed if after < slot.name <= until]

    async def download(self, file: ListedFile) -> bytes:
        """The file's bytes, of the announced size and MD5."""
        name = _name(file)
        if file.size > FILE_CAP_BYTES:
            raise UpstreamFailure("too-large", f"{name}: announced with {file.size} bytes, more than {FILE_CAP_BYTES}")
        raw = await self._get(name, file.size)
        if len(raw) != file.size or md5(raw, usedforsecurity=False).hexdigest() != file.md5:
            raise UpstreamFailure("malformed", f"{name}: {len(raw)} bytes whose MD5 is not the announced one")
        return raw

    async def _get(self, path: str, cap_bytes: int, last_bytes: int = 0) -> bytes:
        got = await fetch(
            self._client,
            self._base + path,
            cap_bytes=cap_bytes,
            deadline_seconds=DEADLINE_SECONDS,
            last_bytes=last_bytes,
        )
        if got.status not in (200, 206):
            raise UpstreamFailure("status", f"{path} answered {got.status}", got.retry_after_seconds)
        return got.body

    def _listed(self, text: bytes) -> list[GdeltUpdate]:
        """The slots whose export is announced, oldest first."""
        slots: dict[str, dict[str, ListedFile]] = {}
        for size, digest, url, slot, kind in _LINE.findall(text.decode("ascii", "replace")):
            slots.setdefault(slot, {})[kind] = ListedFile(int(size), digest, url)
        whole = ((name, found) for name, found in sorted(slots.items()) if "export" in found)
        return [GdeltUpdate(name, found["export"], found.get("gkg")) for name, found in whole]


def _name(file: ListedFile) -> str:
    """The file's name alone: files come from the configured place, whatever host a list names."""
    return urlsplit(file.url).path.rpartition("/")[2]


log = logger("ingest")

SOURCE = "gdelt events"
# Of the time between two polls: 15 s at the default minute.
FIRST_RETRY_SHARE = 0.25
LONGEST_RETRY_SECONDS = 900.0
SLOT = timedelta(minutes=15)
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0


async def sync_gdelt(database: Database, settings: DefenseSettings) -> None:
    """Ingest what the provider publishes, for ever; back off while it fails, and let health tell."""
    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    agent = {"User-Agent": f"tollhouse/{__version__}"}
    failures = 0
    caught_up_to: str | None = None
    async with httpx2.AsyncClient(timeout=timeout, headers=agent) as client:
        provider = GdeltClient(client, settings.gdelt_url)
        while True:
            try:
                caught_up_to = await catch_up(database, provider, caught_up_to, settings.retention_days)
            except (Problem, ValueError) as error:
                failures += 1
                log.warning("provider failed", source=SOURCE, error=str(error)[:300], failures=failures)
                await source_health.failed(database, SOURCE, error, failures)
                await asyncio.sleep(max(retry_seconds(failures, settings.gdelt_poll_seconds), _asked_for(error)))
            else:
                failures = 0
                await source_health.succeeded(database, SOURCE)
                await asyncio.sleep(settings.gdelt_poll_seconds)


async def catch_up(database: Database, provider: GdeltClient, caught_up_to: str | None, retention_days: int) -> str:
    """Ingest every export of the window that is not stored; tells the slot up to which nothing is missing.

    One bad export stops no other; the last one's UpstreamFailure or ValueError is raised once all have been tried.
    """
    newest = await provider.newest()
    wanted = await _wanted(database, provider, newest, caught_up_to)
    refused: Exception | None = None
    for slot in wanted:
        try:
            await _take(database, provider, slot)
        except (UpstreamFailure, ValueError) as error:
            log.warning("slot refused", slot=slot.name, error=str(error)[:300])
            refused = error
    if wanted:
        await _forget_old(database, newest.name, retention_days)
    if refused:
        raise refused
    return newest.name


def retry_seconds(failures: int, poll_seconds: float) -> float:
    """A quarter of the poll's pause, doubling up to 15 minutes, spread so that servers do not return at once."""
    wait: float = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SHARE * poll_seconds * 2 ** min(failures - 1, 10))
    return wait * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load, guards nothing


def _asked_for(error: Exception) -> float:
    """The pause the provider asked for, at most the longest of ours."""
    asked = error.retry_after_seconds if isinstance(error, UpstreamFailure) else None
    return min(asked or 0.0, LONGEST_RETRY_SECONDS)


async def _wanted(
    database: Database, provider: GdeltClient, newest: GdeltUpdate, caught_up_to: str | None
) -> list[GdeltUpdate]:
    """What is not stored yet, the newest first: it is what people wait for."""
    if caught_up_to == newest.name:
        return []
    if caught_up_to == slot_before(newest.name, SLOT):
        return [newest]
    after = slot_before(newest.name, timedelta(hours=WINDOW_HOURS))
    async with database.reading() as connection:
        known = set(await store.slots_between(connection, "provider", after, newest.name))
    listed = {slot.name: slot for slot in [*await provider.missed(after, newest.name), newest]}
    return [listed[name] for name in sorted(listed, reverse=True) if name not in known]


async def _take(database: Database, provider: GdeltClient, slot: GdeltUpdate) -> None:
    """One slot: the pages' headlines first, because the events are told in their words."""
    pages = await _pages(provider, slot) if slot.gkg else []
    titles: dict[str, Headline] = {
        page.article.id: (page.article.title, "page") for page in pages if page.article.title
    }
    raw = await provider.download(slot.export)
    await ingest_export(database, f"{slot.name}.export.CSV.zip", raw, "provider", titles)
    async with database.reading() as connection:
        sources = await pages_of_slot(connection, slot.name)
    await import_pages(database, "provider", pages, sources)


async def _pages(provider: GdeltClient, slot: GdeltUpdate) -> list[GkgRecord]:
    """The slot's pages; events do without them when they cannot be had."""
    assert slot.gkg is not None, "asked only where it is announced"
    try:
        raw = await provider.download(slot.gkg)
        parsed = await asyncio.to_thread(lambda: parse_gkg(unpack_export(raw, EXPORT_CAP_BYTES)))
    except (UpstreamFailure, ValueError) as error:
        log.warning("pages refused", slot=slot.name, error=str(error)[:300])
        return []
    return parsed.records


async def _forget_old(database: Database, newest: str, retention_days: int) -> None:
    before = slot_before(newest, timedelta(days=retention_days))
    is_seen = before > slot_before(newest, store.WIDEST_WINDOW)
    async with database.writing(lock="ingest") as connection:
        await store.delete_before(connection, "provider", before, is_seen=is_seen)
