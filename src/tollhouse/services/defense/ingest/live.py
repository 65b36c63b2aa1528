"""Following the provider: the newest export each minute, what was missed after an outage, patience when it fails."""

import asyncio
import random
from datetime import timedelta

import httpx2

from tollhouse import __version__
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.events_window import WINDOW_HOURS
from tollhouse.services.defense.ingest import health
from tollhouse.services.defense.ingest.provider import ExportFile, Provider
from tollhouse.services.defense.ingest.slots import ingest_export, slot_before
from tollhouse.services.defense.ingest.upstream import UpstreamFailure
from tollhouse.settings import Settings
from tollhouse.storage.database import Database

log = logger("ingest")

SOURCE = "gdelt events"
# Of the time between two polls: 15 s at the default minute.
FIRST_RETRY_SHARE = 0.25
LONGEST_RETRY_SECONDS = 900.0
SLOT = timedelta(minutes=15)
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0


async def follow_provider(database: Database, settings: Settings) -> None:
    """Ingest what the provider publishes, for ever; back off while it fails, and let health tell."""
    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    agent = {"User-Agent": f"tollhouse/{__version__}"}
    failures = 0
    caught_up_to: str | None = None
    async with httpx2.AsyncClient(timeout=timeout, headers=agent) as client:
        provider = Provider(client, settings.gdelt_url)
        while True:
            try:
                caught_up_to = await catch_up(database, provider, caught_up_to, settings.retention_days)
            except (Problem, ValueError) as error:
                failures += 1
                log.warning("provider failed", source=SOURCE, error=str(error)[:300], failures=failures)
                await health.failed(database, SOURCE, error, failures)
                await asyncio.sleep(max(retry_seconds(failures, settings.gdelt_poll_seconds), _asked_for(error)))
            else:
                failures = 0
                await health.succeeded(database, SOURCE)
                await asyncio.sleep(settings.gdelt_poll_seconds)


async def catch_up(database: Database, provider: Provider, caught_up_to: str | None, retention_days: int) -> str:
    """Ingest every export of the window that is not stored; tells the slot up to which nothing is missing.

    One bad export stops no other; the last one's UpstreamFailure or ValueError is raised once all have been tried.
    """
    newest = await provider.newest()
    wanted = await _wanted(database, provider, newest, caught_up_to)
    refused: Exception | None = None
    for file in wanted:
        try:
            raw = await provider.download(file)
            await ingest_export(database, f"{file.slot}.export.CSV.zip", raw, "provider", "provider")
        except (UpstreamFailure, ValueError) as error:
            log.warning("export refused", slot=file.slot, error=str(error)[:300])
            refused = error
    if wanted:
        await _forget_old(database, newest.slot, retention_days)
    if refused:
        raise refused
    return newest.slot


def retry_seconds(failures: int, poll_seconds: float) -> float:
    """A quarter of the poll's pause, doubling up to 15 minutes, spread so that servers do not return at once."""
    wait: float = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SHARE * poll_seconds * 2 ** min(failures - 1, 10))
    return wait * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load, guards nothing


def _asked_for(error: Exception) -> float:
    """The pause the provider asked for, at most the longest of ours."""
    asked = error.retry_after_seconds if isinstance(error, UpstreamFailure) else None
    return min(asked or 0.0, LONGEST_RETRY_SECONDS)


async def _wanted(
    database: Database, provider: Provider, newest: ExportFile, caught_up_to: str | None
) -> list[ExportFile]:
    """What is not stored yet, the newest first: it is what people wait for."""
    if caught_up_to == newest.slot:
        return []
    if caught_up_to == slot_before(newest.slot, SLOT):
        return [newest]
    after = slot_before(newest.slot, timedelta(hours=WINDOW_HOURS))
    async with database.reading() as connection:
        known = set(await store.slots_between(connection, "provider", after, newest.slot))
    listed = {file.slot: file for file in [*await provider.missed(after, newest.slot), newest]}
    return sorted((file for slot, file in listed.items() if slot not in known), key=_slot, reverse=True)


def _slot(file: ExportFile) -> str:
    return file.slot


async def _forget_old(database: Database, newest: str, retention_days: int) -> None:
    async with database.writing(lock="ingest") as connection:
        await store.purge_before(connection, "provider", slot_before(newest, timedelta(days=retention_days)))
