"""Following those who count the dead: UCDP, and ACLED where the operator has an account of their own."""

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
from tollhouse.services.defense.ingest import source_health
from tollhouse.services.defense.providers.acled import AcledAccount, acled_records
from tollhouse.services.defense.providers.fatalities import FatalityRecords
from tollhouse.services.defense.providers.ucdp import ucdp_records
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.storage.database import Database

log = logger("ingest")

ASK_EVERY_SECONDS = 6 * 3_600.0
RETRY_SECONDS = 900.0
# Candidate releases lag up to a month; records older than what is kept of events can match none of them.
LOOK_BACK = timedelta(days=40)

Ask = Callable[[httpx2.AsyncClient, date, date], Awaitable[FatalityRecords]]


async def sync_fatalities(database: Database, settings: DefenseSettings) -> None:
    """Ask every configured provider a few times a day, for ever; without one there is nothing to do."""
    providers = configured(settings)
    for name in {"ucdp", "acled"} - set(providers):
        await source_health.keep_only(database, name, [])
    if not providers:
        await asyncio.Event().wait()
    async with httpx2.AsyncClient(headers={"User-Agent": f"tollhouse/{__version__}"}) as client:
        await asyncio.gather(*(_follow(database, client, name, ask) for name, ask in providers.items()))


def configured(settings: DefenseSettings) -> dict[str, Ask]:
    """The providers the settings hold credentials for, and how each is asked."""
    providers: dict[str, Ask] = {}
    if settings.ucdp_token:
        providers["ucdp"] = partial(_ask_ucdp, settings)
    if settings.acled_username and settings.acled_password:
        providers["acled"] = partial(_ask_acled, settings)
    return providers


async def _ask_ucdp(settings: DefenseSettings, client: httpx2.AsyncClient, since: date, until: date) -> FatalityRecords:
    return await ucdp_records(client, settings.ucdp_token, settings.ucdp_version, since, until, api=settings.ucdp_url)


async def _ask_acled(
    settings: DefenseSettings, client: httpx2.AsyncClient, since: date, until: date
) -> FatalityRecords:
    account = AcledAccount(settings.acled_username, settings.acled_password)
    return await acled_records(client, account, since, until, site=settings.acled_url)


async def _follow(database: Database, client: httpx2.AsyncClient, name: str, ask: Ask) -> None:
    failures = 0
    while True:
        today = clock.now().date()
        try:
            found = await ask(client, today - LOOK_BACK, today)
            await _keep(database, found)
        except Problem as problem:
            failures += 1
            log.warning("provider failed", source=name, detail=problem.detail, failures=failures)
            await source_health.failed(database, name, problem, failures)
            await asyncio.sleep(min(ASK_EVERY_SECONDS, RETRY_SECONDS * 2 ** (failures - 1)))
        else:
            failures = 0
            await source_health.succeeded(database, name)
            log.info("fatalities read", source=name, records=len(found.records), bad=found.bad)
            await asyncio.sleep(ASK_EVERY_SECONDS)


async def _keep(database: Database, found: FatalityRecords) -> None:
    rows: list[dict[str, object]] = [
        {
            "provider": record.provider,
            "id": record.id,
            "date": record.date.isoformat(),
            "body": msgspec.json.encode(record),
        }
        for record in found.records
    ]
    async with database.writing(lock="ingest") as connection:
        await store.write_fatalities(connection, rows)
        await store.bump_revision(connection, store.FATALITIES_FEED)
