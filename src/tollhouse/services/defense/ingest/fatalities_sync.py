"""Sync fatality records from UCDP and ACLED, for the providers that the operator has credentials for."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from functools import partial

import httpx2
import msgspec

from tollhouse import __version__, clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.events.event import FatalityRecords
from tollhouse.services.defense.ingest import source_health
from tollhouse.services.defense.providers.acled import AcledAccount, acled_records
from tollhouse.services.defense.providers.ucdp import ucdp_records
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.storage.database import Database

log = logger("ingest")

SYNC_SECONDS = 6 * 3_600.0
RETRY_SECONDS = 900.0
# Candidate releases lag by up to a month; older records cannot match a stored event.
LOOKBACK = timedelta(days=40)

FetchRecords = Callable[[httpx2.AsyncClient, date, date], Awaitable[FatalityRecords]]


async def sync_fatalities(database: Database, settings: DefenseSettings) -> None:
    """Fetch records from every configured provider a few times a day, until cancelled."""
    providers = configured(settings)
    for name in {"ucdp", "acled"} - set(providers):
        await source_health.keep_only(database, name, [])
    if not providers:
        await asyncio.Event().wait()
    async with httpx2.AsyncClient(headers={"User-Agent": f"tollhouse/{__version__}"}) as client:
        await asyncio.gather(*(_sync_provider(database, client, name, fetch) for name, fetch in providers.items()))


def configured(settings: DefenseSettings) -> dict[str, FetchRecords]:
    """The providers with credentials in the settings, and the function that fetches each one's records."""
    providers: dict[str, FetchRecords] = {}
    if settings.ucdp_token:
        token, version = settings.ucdp_token, settings.ucdp_version
        providers["ucdp"] = lambda client, since, until: ucdp_records(
            client, token, version, since, until, api=settings.ucdp_url
        )
    if settings.acled_username and settings.acled_password:
        account = AcledAccount(settings.acled_username, settings.acled_password)
        providers["acled"] = partial(acled_records, account=account, site=settings.acled_url)
    return providers


async def _sync_provider(database: Database, client: httpx2.AsyncClient, name: str, fetch: FetchRecords) -> None:
    failures = 0
    while True:
        today = clock.now().date()
        try:
            fetched = await fetch(client, today - LOOKBACK, today)
            await _store(database, fetched)
        except Problem as problem:
            failures += 1
            log.warning("sync failed", source=name, detail=problem.detail, failures=failures)
            await source_health.failed(database, name, problem, failures)
            await asyncio.sleep(min(SYNC_SECONDS, RETRY_SECONDS * 2 ** (failures - 1)))
        else:
            failures = 0
            await source_health.succeeded(database, name)
            log.info("fatalities synced", source=name, records=len(fetched.records), bad=fetched.bad)
            await asyncio.sleep(SYNC_SECONDS)


async def _store(database: Database, fetched: FatalityRecords) -> None:
    rows: list[dict[str, object]] = [
        {"provider": it.provider, "id": it.id, "date": it.date.isoformat(), "body": msgspec.json.encode(it)}
        for it in fetched.records
    ]
    async with database.writing(lock="ingest") as connection:
        await store.write_fatalities(connection, rows)
        await store.bump_revision(connection, store.FATALITIES_FEED)
