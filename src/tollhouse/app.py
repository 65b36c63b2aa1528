"""The one file that builds things: settings, stores, rooms, services, one ASGI application."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from msgspec import structs

from tollhouse import clock, failpoints, logs
from tollhouse import settings as setting
from tollhouse.access.keys import open_key_ring
from tollhouse.access.wallets import WalletRing
from tollhouse.console.api_docs import api_docs_pages
from tollhouse.console.discovery import discovery_pages
from tollhouse.console.front import front_service
from tollhouse.gate.admission import Admission
from tollhouse.gate.housekeeping import with_housekeeping
from tollhouse.gate.lifespan import Application
from tollhouse.gate.mcp.endpoint import McpEndpoint
from tollhouse.gate.rooms import Rooms
from tollhouse.gate.routing import Router
from tollhouse.gate.server import Gate
from tollhouse.gate.service import Service, Work
from tollhouse.metering.meter import Meter, TallyMeter
from tollhouse.payments.checkout.opening import stripe_of
from tollhouse.payments.deposits import deposits_of
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.per_request import per_request_of
from tollhouse.services import every_service, offered
from tollhouse.settings import SettingError, Settings
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate
from tollhouse.storage.tallies import NoTallies
from tollhouse.storage.tallies_file import MemoryTallies, SharedFileTallies
from tollhouse.storage.tallies_postgres import PostgresTallies
from tollhouse.webhooks.room import open_webhooks

log = logs.logger("app")

RETRY_LEADING_SECONDS = 2.0
COLLECT_AFTER_OBJECTS = 20_000
RESTART_WORK_SECONDS = 5.0
KEEP_LEDGER_SECONDS = 60.0


def create() -> Application:
    """The ASGI application, from the settings in the environment: what a server's workers import."""
    settings = setting.load()
    logs.configure(settings.log_level)
    failpoints.arm(settings.failpoint)
    return Application(lambda: serving(settings))


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Gate]:
    """Everything built and running, until the block ends."""
    async with rooms_of(settings) as rooms:
        services = await _opened(rooms)
        gate = _gate(rooms, services)
        following: list[Work] = [partial(_release_what_was_left, rooms)]
        following += [work for service in services for work in service.follow]
        tasks = [asyncio.create_task(_for_ever(work)) for work in following]
        if settings.background_work:
            tasks.append(asyncio.create_task(lead(rooms, services)))
        _spare_the_collector()
        log.info("serving", services=[service.name for service in services])
        try:
            yield gate
        finally:
            await _cancelled(tasks)


@contextlib.asynccontextmanager
async def rooms_of(settings: Settings, *, answers_calls: bool = True) -> AsyncIterator[Rooms]:
    """The rooms every service shares, their storage migrated. Only a process that answers calls counts them."""
    async with contextlib.AsyncExitStack() as stack:
        database = open_database(settings)
        stack.push_async_callback(database.close)
        await migrate(database)
        meter = _meter(settings, database) if answers_calls else TallyMeter(NoTallies())
        stack.push_async_callback(meter.close)
        ledger = await open_ledger(settings, database)
        stack.push_async_callback(ledger.close)
        keys = await open_key_ring(database, settings.key_hash_secret)
        wallets = WalletRing(database, settings.agent_prefix)
        deposits = await stack.enter_async_context(deposits_of(settings, ledger))
        webhooks = open_webhooks(settings, database)
        stack.push_async_callback(webhooks.close)
        per_request = await stack.enter_async_context(per_request_of(settings, database, ledger))
        stripe = await stack.enter_async_context(stripe_of(settings))
        yield Rooms(
            settings, database, keys, wallets, meter, ledger, deposits, webhooks, per_request, stripe, clock.seconds()
        )


async def working(settings: Settings) -> None:
    """The background work alone, for ever."""
    async with rooms_of(settings, answers_calls=False) as rooms:
        await lead(rooms, await _opened(rooms))


async def check(settings: Settings) -> None:
    """Refuse at once what would fail in a worker: a wrong setting, a database out of reach, a folder in use."""
    chosen(settings)
    async with rooms_of(settings):
        pass


async def _release_what_was_left(rooms: Rooms) -> None:
    """Give back what calls of dead processes, and of this one, had reserved and nobody can settle any more."""
    while True:
        await asyncio.sleep(KEEP_LEDGER_SECONDS)
        await rooms.ledger.recover()


async def _forget_kept_answers(rooms: Rooms) -> None:
    """Forget paid answers nobody came back for."""
    while True:
        await rooms.ledger.sweep()
        await asyncio.sleep(KEEP_LEDGER_SECONDS)


async def lead(rooms: Rooms, services: Sequence[Service]) -> None:
    """Do the background work in one process of all that share the database; another takes over when it ends."""
    folder = Path(rooms.settings.data_dir)
    all_work: list[Work] = [partial(_forget_kept_answers, rooms), rooms.webhooks.deliver_for_ever]
    all_work += [work for service in services for work in service.work]
    if rooms.deposits is not None:
        all_work.append(rooms.deposits.watch)
    if rooms.per_request.x402 is not None:
        all_work.append(rooms.per_request.x402.resolve_for_ever)
    while True:
        async with rooms.database.leading("background-work", folder) as leads:
            if leads:
                log.info("doing the background work")
                await asyncio.gather(*map(_for_ever, all_work))
        await asyncio.sleep(RETRY_LEADING_SECONDS)


def chosen(settings: Settings) -> list[str]:
    """The services to offer. Raises SettingError for one that does not exist, DeclarationError for a wrong one."""
    known = every_service(settings)
    for name in [settings.service, *settings.hosts.values()]:
        if name and name not in known:
            raise SettingError(f"service: there is no service {name!r}; there are {', '.join(known)}")
    return [settings.service] if settings.service else list(offered(settings))


async def _opened(rooms: Rooms) -> list[Service]:
    known = every_service(rooms.settings)
    return [await known[name](rooms) for name in chosen(rooms.settings)]


def _meter(settings: Settings, database: Database) -> Meter:
    if settings.redis_url:
        try:
            from tollhouse.metering.meter_redis import RedisMeter
        except ModuleNotFoundError:
            raise SettingError("redis_url: needs the extra: pip install 'tollhouse[redis]'") from None
        return RedisMeter(settings.redis_url)
    if not database.is_sqlite:
        return TallyMeter(PostgresTallies(database))
    folder = Path(settings.data_dir)
    return TallyMeter(MemoryTallies(folder) if settings.workers == 1 else SharedFileTallies(folder))


def _gate(rooms: Rooms, services: Sequence[Service]) -> Gate:
    """Every service under its prefix, or the one that was asked for at the root; some hosts have one of their own."""
    settings = rooms.settings
    prefixes = ["" if settings.service else f"/{service.name}" for service in services]
    front = front_service(settings, rooms, services, prefixes)
    admission = Admission(rooms)
    router = Router()
    for service, prefix in zip(services, prefixes, strict=True):
        _mount(router, settings, admission, service, prefix)
        if prefix:
            router.mount(replace(front, operations=discovery_pages(settings, [service], [prefix])), prefix)
    router.mount(replace(front, operations=[*front.operations, *discovery_pages(settings, services, prefixes)]), "")
    hosts = {host.lower(): _host(rooms, admission, _named(services, name)) for host, name in settings.hosts.items()}
    return Gate(settings, admission, router, hosts)


def _host(rooms: Rooms, admission: Admission, service: Service) -> Router:
    """A host of a service's own: its addresses begin at the root of that host, whatever its name."""
    router, own = Router(), structs.replace(rooms.settings, public_url="")
    front = front_service(own, rooms, [service], [""])
    _mount(router, own, admission, service, "")
    router.mount(replace(front, operations=[*front.operations, *discovery_pages(own, [service], [""])]), "")
    return router


def _mount(router: Router, settings: Settings, admission: Admission, service: Service, prefix: str) -> None:
    base_url = f"{settings.public_url.rstrip('/')}{prefix}" or "/"
    pages = [*api_docs_pages(), McpEndpoint(settings, admission, service, prefix).operation()]
    router.mount(with_housekeeping(service, base_url, pages), prefix)


def _named(services: Sequence[Service], name: str) -> Service:
    return next(service for service in services if service.name == name)


def _spare_the_collector() -> None:
    """What start-up made stays for good, and a request leaves no cycles: look through young objects less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER_OBJECTS)


async def _for_ever(work: Work) -> None:
    """Run work that should not end; when it fails, say so and start it again."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("background work failed")
        await asyncio.sleep(RESTART_WORK_SECONDS)


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
