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
from tollhouse.accounts.keys import open_key_ring
from tollhouse.accounts.plans import Plans, open_plans
from tollhouse.accounts.subscriptions.stripe_client import open_stripe
from tollhouse.accounts.wallets import WalletRegistry
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import AppContext
from tollhouse.config.loader import load
from tollhouse.config.settings import SettingError, Settings
from tollhouse.console.discovery import discovery_pages
from tollhouse.console.root_routes import api_docs_pages, front_service
from tollhouse.http.lifespan import Application
from tollhouse.http.mcp.endpoint import McpEndpoint
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service, Work
from tollhouse.http.service_endpoints import with_housekeeping
from tollhouse.http.terms import Terms
from tollhouse.metering.meter import Meter, TallyMeter
from tollhouse.payments.deposits.deposits import open_deposits
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.pay_per_request import open_pay_per_request
from tollhouse.services import SECTIONS, every_service, offered
from tollhouse.storage.counters import NoCounters
from tollhouse.storage.counters_postgres import PostgresCounters
from tollhouse.storage.counters_sqlite import MemoryCounters, SharedFileCounters
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate
from tollhouse.webhooks.webhooks import open_webhooks

log = logs.logger("app")

RETRY_LEADING_SECONDS = 2.0
COLLECT_AFTER_OBJECTS = 20_000
RESTART_WORK_SECONDS = 5.0
KEEP_LEDGER_SECONDS = 60.0


def create() -> Application:
    """The ASGI application, from the settings in the environment: what a server's workers import."""
    settings = load_settings()
    logs.configure(settings.log_level)
    failpoints.arm(settings.failpoint)
    return Application(lambda: serving(settings))


def load_settings(config: str | None = None, **overrides: object) -> Settings:
    """The settings in effect, with the sections of every service. Raises SettingError."""
    return load(config, SECTIONS, **overrides)


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Server]:
    """Everything built and running, until the block ends."""
    async with open_context(settings) as context:
        services = await _opened(context)
        gate = _gate(context, services)
        following: list[Work] = [partial(_release_what_was_left, context)]
        following += [work for service in services for work in service.per_process_tasks]
        tasks = [asyncio.create_task(_for_ever(work)) for work in following]
        if settings.background_work:
            tasks.append(asyncio.create_task(lead(context, services)))
        _spare_the_collector()
        log.info("serving", services=[service.name for service in services])
        try:
            yield gate
        finally:
            await _cancelled(tasks)


@contextlib.asynccontextmanager
async def open_context(settings: Settings, *, answers_calls: bool = True) -> AsyncIterator[AppContext]:
    """The rooms every service shares, their storage migrated. Only a process that answers calls counts them."""
    plans = open_plans(settings)
    async with contextlib.AsyncExitStack() as stack:
        database = open_database(settings)
        stack.push_async_callback(database.close)
        await migrate(database)
        meter = _meter(settings, database) if answers_calls else TallyMeter(NoCounters())
        stack.push_async_callback(meter.close)
        ledger = await open_ledger(settings, database)
        stack.push_async_callback(ledger.close)
        keys = await open_key_ring(database, settings.key_hash_secret)
        wallets = WalletRegistry(database, settings.agent_prefix)
        deposits = await stack.enter_async_context(open_deposits(settings, ledger))
        webhooks = open_webhooks(settings, database)
        stack.push_async_callback(webhooks.close)
        per_request = await stack.enter_async_context(open_pay_per_request(settings, database, ledger))
        stripe = await stack.enter_async_context(open_stripe(settings))
        yield AppContext(
            settings,
            plans,
            database,
            keys,
            wallets,
            meter,
            ledger,
            deposits,
            webhooks,
            per_request,
            stripe,
            clock.seconds(),
        )


async def working(settings: Settings) -> None:
    """The background work alone, for ever."""
    async with open_context(settings, answers_calls=False) as context:
        await lead(context, await _opened(context))


async def check(settings: Settings) -> None:
    """Refuse at once what would fail in a worker: a wrong setting, a database out of reach, a folder in use."""
    chosen(settings)
    async with open_context(settings):
        pass


async def _release_what_was_left(context: AppContext) -> None:
    """Give back what calls of dead processes, and of this one, had reserved and nobody can settle any more."""
    while True:
        await asyncio.sleep(KEEP_LEDGER_SECONDS)
        await context.ledger.recover()


async def _forget_kept_answers(context: AppContext) -> None:
    """Forget paid answers nobody came back for."""
    while True:
        await context.ledger.sweep()
        await asyncio.sleep(KEEP_LEDGER_SECONDS)


async def lead(context: AppContext, services: Sequence[Service]) -> None:
    """Do the background work in one process of all that share the database; another takes over when it ends."""
    folder = Path(context.settings.data_dir)
    all_work: list[Work] = [partial(_forget_kept_answers, context), context.webhooks.deliver_for_ever]
    all_work += [work for service in services for work in service.leader_tasks]
    if context.deposits is not None:
        all_work.append(context.deposits.watch)
    if context.per_request.x402 is not None:
        all_work.append(context.per_request.x402.resolve_for_ever)
    while True:
        async with context.database.leading("background-work", folder) as leads:
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


async def _opened(context: AppContext) -> list[Service]:
    known = every_service(context.settings)
    return [_with_plans(await known[name](context), context.plans) for name in chosen(context.settings)]


def _with_plans(service: Service, plans: Plans) -> Service:
    """The service with the cheapest plan that may call each of its endpoints named in its terms."""

    def named(terms: Terms) -> Terms:
        return structs.replace(terms, minimum_tier=next(iter(plans.including(terms.entitlement)), ""))

    endpoints = [
        replace(each, terms=named(each.terms)) if each.terms.opens_to == "key" else each for each in service.endpoints
    ]
    return replace(service, endpoints=endpoints)


def _meter(settings: Settings, database: Database) -> Meter:
    if settings.redis_url:
        try:
            from tollhouse.metering.redis_meter import RedisMeter
        except ModuleNotFoundError:
            raise SettingError("redis_url: needs the extra: pip install 'tollhouse[redis]'") from None
        return RedisMeter(settings.redis_url)
    if not database.is_sqlite:
        return TallyMeter(PostgresCounters(database))
    folder = Path(settings.data_dir)
    return TallyMeter(MemoryCounters(folder) if settings.workers == 1 else SharedFileCounters(folder))


def _gate(context: AppContext, services: Sequence[Service]) -> Server:
    """Every service under its prefix, or the one that was asked for at the root; some hosts have one of their own."""
    settings = context.settings
    prefixes = ["" if settings.service else f"/{service.name}" for service in services]
    front = front_service(settings, context, services, prefixes)
    admission = Admission(context)
    router = Router()
    for service, prefix in zip(services, prefixes, strict=True):
        _mount(router, context, admission, service, prefix)
        if prefix:
            router.mount(replace(front, endpoints=discovery_pages(settings, [service], [prefix])), prefix)
    router.mount(replace(front, endpoints=[*front.endpoints, *discovery_pages(settings, services, prefixes)]), "")
    hosts = {host.lower(): _host(context, admission, _named(services, name)) for host, name in settings.hosts.items()}
    return Server(settings, admission, router, hosts)


def _host(context: AppContext, admission: Admission, service: Service) -> Router:
    """A host of a service's own: its addresses begin at the root of that host, whatever its name."""
    router, own = Router(), replace(context.settings, public_url="")
    front = front_service(own, context, [service], [""])
    _mount(router, replace(context, settings=own), admission, service, "")
    router.mount(replace(front, endpoints=[*front.endpoints, *discovery_pages(own, [service], [""])]), "")
    return router


def _mount(router: Router, context: AppContext, admission: Admission, service: Service, prefix: str) -> None:
    settings = context.settings
    plans = [plan.described() for plan in context.plans.all]
    base_url = f"{settings.public_url.rstrip('/')}{prefix}" or "/"
    pages = [*api_docs_pages(), McpEndpoint(settings, admission, service, prefix).operation()]
    router.mount(with_housekeeping(service, base_url, pages, plans), prefix)


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
