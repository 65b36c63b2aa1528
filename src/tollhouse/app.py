"""The composition root: settings, stores, services and accounts become one ASGI application."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from tollhouse import __version__, failpoints, logs, memory, tracing
from tollhouse.accounts.agent_endpoints import AgentEndpoints
from tollhouse.accounts.checkout_endpoints import CheckoutEndpoints
from tollhouse.accounts.key_endpoints import KeyEndpoints
from tollhouse.accounts.plans import Plans
from tollhouse.accounts.prices import with_prices
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import AppContext, open_context
from tollhouse.config.settings import SettingError, Settings
from tollhouse.console.directory import directory_pages
from tollhouse.console.discovery import agent_pages, discovery_pages
from tollhouse.console.root_routes import mount_front, operator_service
from tollhouse.console.status import StatusBoard
from tollhouse.http.endpoint import Endpoint, endpoints_of
from tollhouse.http.graceful_stop import GracefulStop
from tollhouse.http.hosts import OwnHosts
from tollhouse.http.inner_calls import InnerCalls
from tollhouse.http.mcp.endpoint import McpEndpoint, tool_routes
from tollhouse.http.overload import IdleConnections
from tollhouse.http.paid_paths import with_paid_paths
from tollhouse.http.router import Route, Router
from tollhouse.http.server import Application, Listener, Server
from tollhouse.http.service import Service, Work
from tollhouse.http.service_endpoints import with_housekeeping
from tollhouse.http.terms import Terms
from tollhouse.jobs import build_jobs, run_forever, run_jobs
from tollhouse.services import Open, check_plugins, every_service, load_settings, offered
from tollhouse.tracing import open_tracing

log = logs.logger("app")

BEAT_SECONDS = 15.0
SERVER = "server"

Build = Callable[[AppContext, Sequence[Service], Service, StatusBoard], Server]
MOUNTS = 8
SWEEP_LEDGER_SECONDS = 60.0
SUM_UP_LEDGER_SECONDS = 10.0
SUM_UP_PAUSE_SECONDS = 0.1

_ACCOUNTS_DESCRIPTION = """Accounts of this server: API keys, wallets and paid plans. They work for every service.

Create a key with `POST /api/keys/create` and send it as `Authorization: Bearer <key>`. An agent registers its wallet
with `POST /api/agent/register`, deposits USDC and signs each call instead."""

_ACCOUNTS_TAGS = {
    "keys": "API keys and their plans",
    "agents": "Wallets that pay for each call from their credit",
    "about": "This service",
}


def create() -> Application:
    """The ASGI application, from the settings in the environment. Worker processes import it."""
    memory.collect_rarely()
    settings = load_settings()
    logs.configure(settings.log_level)
    failpoints.arm(settings.failpoint)
    connections = _idle_connections(settings)
    stop = GracefulStop(connections.ports)
    return Application(lambda: serving(settings), _operator_listener(settings), connections, stop)


def _operator_listener(settings: Settings) -> Listener | None:
    """What listens on `operator_listen`, if it is set."""
    if not settings.operator_listen:
        return None
    # Commands that serve nothing import this module, too.
    from tollhouse.http.listener import listening

    return partial(listening, settings.operator_listen, settings.idle_timeout_seconds)


def _idle_connections(settings: Settings) -> IdleConnections:
    ports = [urlsplit(settings.served_at).port or 0]
    if settings.operator_listen:
        ports.append(urlsplit(f"//{settings.operator_listen}").port or 0)
    return IdleConnections(ports, settings.idle_connections_per_address, settings.trusted_networks())


def create_app(settings: Settings | None = None, *, services: Mapping[str, Open] | None = None) -> Application:
    """The server as an ASGI application, to mount in another one; without settings, those in effect.

    `services` are served instead of those of the settings: the function that opens each, by the service's name.
    The server starts with the lifespan it is sent, with `async with`, or with its first request. Raises SettingError.

        paid = create_app(load_settings(public_url="https://example.org/paid"))
        app = Starlette(routes=[Mount("/paid", paid)])
    """
    settings = load_settings() if settings is None else settings
    chosen(settings, services)
    logs.configure_events(settings.log_level)
    return Application(partial(serving, settings, is_guest=True, services=services), _operator_listener(settings))


@contextlib.asynccontextmanager
async def serving(
    settings: Settings,
    *,
    is_guest: bool = False,
    services: Mapping[str, Open] | None = None,
    build: Build | None = None,
) -> AsyncIterator[Server]:
    """The running server with its background tasks, until the block ends. A guest shares its process with others.

    `build` makes the server of what is open; by default, one with the console.
    """
    make = build or _server
    async with open_tracing(settings.otlp_url, __version__), open_context(settings) as context:
        opened = await _open_services(context, services)
        accounts = _accounts(context)
        # The token exists before the first request, and a damaged one stops the start.
        await asyncio.to_thread(lambda: context.operator.token)
        board = StatusBoard(context, opened)
        server = make(context, opened, accounts, board)
        server.at = lru_cache(MOUNTS)(partial(_mounted, make, context, opened, accounts))
        own: list[Work] = [partial(_recover_ledger, context), board.run, context.messages.run, context.keys.run]
        per_process = [(SERVER, task) for task in own]
        per_process += [(service.name, task) for service in opened for task in service.per_process_tasks]
        tasks = [asyncio.create_task(run_forever(context.incidents, *task)) for task in per_process]
        if settings.background_work:
            tasks.append(asyncio.create_task(do_background_work(context, [*opened, accounts])))
        if not is_guest:
            # What is open stays: no collection looks through it, nor through the few thousand cycles of the start.
            gc.freeze()
        log.info("serving", services=[service.name for service in opened])
        try:
            yield server
        finally:
            for running in tasks:
                running.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def working(settings: Settings) -> None:
    async with open_tracing(settings.otlp_url, __version__), open_context(settings, answers_calls=False) as context:
        await do_background_work(context, [*await _open_services(context), _accounts(context)])


async def check(settings: Settings) -> None:
    """Raise for what would fail in a worker process: a setting, a package, an unreachable database, a folder in use.

    Prices are compared with the operations of their services, which are opened in a process of their own for that.
    """
    check_plugins(chosen(settings))
    if settings.llm_base_url and find_spec("openai") is None:
        raise SettingError("llm_base_url: needs the extra: pip install 'tollhouse[chat]'")
    if settings.otlp_url:
        try:
            tracing.check_installed()
        except tracing.TracingUnavailableError:
            raise SettingError("otlp_url: needs the extra: pip install 'tollhouse[otlp]'") from None
    async with open_context(settings):
        pass
    if settings.prices:
        # The main process opens no service: workers are forked from it.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            await asyncio.get_running_loop().run_in_executor(process, check_prices, settings)


def check_prices(settings: Settings) -> None:
    """Raises SettingError for a price of something that there is not, and what opening a priced service raises."""

    async def compared() -> None:
        async with open_context(settings) as context:
            await _priced_services(context, [name for name in chosen(settings) if name in settings.prices])

    logs.configure("error")
    asyncio.run(compared())


async def _recover_ledger(context: AppContext) -> None:
    """Release reservations that calls of this process or of dead ones left open."""
    while True:
        await asyncio.sleep(SWEEP_LEDGER_SECONDS)
        await context.ledger.recover()


async def _beat(context: AppContext) -> None:
    while True:
        await context.incidents.beat("background")
        await asyncio.sleep(BEAT_SECONDS)


async def _sweep_ledger(context: AppContext) -> None:
    """Delete stored responses that their payers no longer can fetch."""
    while True:
        await context.ledger.sweep()
        await asyncio.sleep(SWEEP_LEDGER_SECONDS)


async def _sum_up_ledger(context: AppContext) -> None:
    """Keep the sums of the ledger close to its newest transfers."""
    while True:
        has_more = await context.ledger.sum_up()
        await asyncio.sleep(SUM_UP_PAUSE_SECONDS if has_more else SUM_UP_LEDGER_SECONDS)


async def do_background_work(context: AppContext, services: Sequence[Service]) -> None:
    """Deliver webhooks, and run the jobs of the server and its services that no other process runs, until cancelled."""
    ledger_works = (partial(_sweep_ledger, context), partial(_sum_up_ledger, context))
    works: list[Work] = [partial(_beat, context), *ledger_works, context.webhooks.maintain]
    if context.deposits is not None:
        works.append(context.deposits.monitor)
    if context.per_request.x402 is not None:
        x402 = context.per_request.x402
        works += [x402.run_recovery, x402.run_retention, x402.monitor]
    jobs = build_jobs(
        [
            *((SERVER, work) for work in works),
            *((service.name, work) for service in services for work in service.leader_tasks),
        ]
    )
    folder = Path(context.settings.data_dir)
    await asyncio.gather(
        run_jobs(context.database, folder, context.incidents, jobs),
        run_forever(context.incidents, SERVER, context.webhooks.run_deliveries),
    )


def chosen(settings: Settings, services: Mapping[str, Open] | None = None) -> list[str]:
    """The names of the services to serve: of `services`, if they are given, else of every one that the settings offer.

    Raises SettingError for an unknown one, DeclarationError for a bad table, PluginError for a bad package.
    """
    known = every_service(settings) if services is None else services
    for name in [settings.service, *settings.hosts.values()]:
        if name and name not in known:
            raise SettingError(f"service: there is no service {name!r}; choose one of {', '.join(known)}")
    return [settings.service] if settings.service else list(offered(settings) if services is None else services)


async def _open_services(context: AppContext, services: Mapping[str, Open] | None = None) -> list[Service]:
    priced = await _priced_services(context, chosen(context.settings, services), services)
    return [_with_plans(with_paid_paths(service), context.plans) for service in priced]


async def _priced_services(
    context: AppContext, names: Sequence[str], services: Mapping[str, Open] | None = None
) -> list[Service]:
    known = every_service(context.settings) if services is None else services
    return with_prices([await known[name](context) for name in names], context.settings.prices, context.plans, known)


def _accounts(context: AppContext) -> Service:
    """The endpoints of keys, wallets and checkout, which belong to the server."""
    settings = context.settings
    checkout = CheckoutEndpoints(settings, context.database, context.keys, context.meter, context.stripe)
    handlers = (
        KeyEndpoints(
            context.keys, context.plans, context.meter, settings.keys_per_address_per_hour, context.statistics
        ),
        AgentEndpoints(settings, context.wallets, context.ledger, context.deposits, context.meter),
        checkout,
    )
    endpoints = [one for each in handlers for one in endpoints_of(each)]

    async def health() -> dict[str, Any]:
        return {"status": "ok", "version": __version__}

    service = Service(
        name="accounts",
        title="Tollhouse: accounts",
        version="1.0.0",
        description=_ACCOUNTS_DESCRIPTION,
        endpoints=endpoints,
        health=health,
        health_schema={"type": "object", "properties": {"status": {"enum": ["ok"]}, "version": {"type": "string"}}},
        leader_tasks=(checkout.monitor,) if context.stripe else (),
        tags=_ACCOUNTS_TAGS,
    )
    return _with_plans(service, context.plans)


def _with_accounts(service: Service, accounts: Service) -> Service:
    return replace(service, endpoints=[*service.endpoints, *accounts.endpoints], tags={**service.tags, **accounts.tags})


def _with_plans(service: Service, plans: Plans) -> Service:
    """The service with the cheapest plan that may call each endpoint named in its terms."""

    def named(terms: Terms) -> Terms:
        return structs.replace(terms, minimum_tier=next(iter(plans.including(terms.entitlement)), ""))

    endpoints = [
        replace(each, terms=named(each.terms)) if each.terms.opens_to == "key" else each for each in service.endpoints
    ]
    return replace(service, endpoints=endpoints)


def _server(context: AppContext, services: Sequence[Service], accounts: Service, board: StatusBoard) -> Server:
    """Every service under its prefix and the accounts at the root; a service that is served alone is at the root."""
    settings = context.settings
    admission = Admission(context)
    if settings.service:
        router = _root_router(context, admission, services[0], accounts, board)
    else:
        router = Router()
        prefixes = [f"/{service.name}" for service in services]
        mounted = [_with_accounts(each, accounts) if each.has_accounts else each for each in services]
        calls = InnerCalls(settings, admission, context.statistics.recorder)
        mcp = partial(_mcp, settings, calls)
        for service, prefix in zip(mounted, prefixes, strict=True):
            _mount(router, context, service, prefix, [mcp(service, tool_routes([(service, prefix)]))])
            agent = agent_pages(settings, calls, [(service, prefix)], prefix)
            for page in [*discovery_pages(settings, [service], [prefix]), *agent]:
                router.add(service, page, prefix)
        _mount(router, context, accounts, "", [])
        front = mount_front(router, board, mounted, prefixes, accounts)
        whole = [*zip(mounted, prefixes, strict=True), (accounts, "")]
        tools = tool_routes(whole)
        pages = [*discovery_pages(settings, [*mounted, accounts], [*prefixes, ""]), mcp(front, tools)]
        pages += [*directory_pages(context, whole, tools), *agent_pages(settings, calls, whole, "")]
        for page in pages:
            router.add(front, page, "")
    by_name = {service.name: service for service in services}
    # A host's own addresses begin at its root, whatever its name.
    own = replace(context, settings=replace(settings, public_url="", root_path=""))
    own_board = StatusBoard(own, services)
    hosts = {
        host.lower(): _root_router(own, admission, by_name[name], accounts, own_board)
        for host, name in settings.hosts.items()
    }
    operator_router = _operator_router(context, services)
    return Server(settings, admission, router, hosts, operator_router, context.statistics.recorder)


def _mounted(
    make: Build, context: AppContext, services: Sequence[Service], accounts: Service, root_path: str
) -> Server:
    """The same server below a path at which another application has mounted it: its links begin with that path."""
    own = replace(context, settings=replace(context.settings, root_path=root_path))
    return make(own, services, accounts, StatusBoard(own, services))


def _operator_router(context: AppContext, services: Sequence[Service]) -> Router:
    """What answers on `operator_listen`, and nowhere else."""
    router = Router()
    if context.settings.operator_listen:
        router.mount(operator_service(context, services), "")
    return router


def _root_router(
    context: AppContext, admission: Admission, service: Service, accounts: Service, board: StatusBoard
) -> Router:
    """A host that serves one service at its root, with the accounts beside it."""
    router, settings, whole = Router(), context.settings, _with_accounts(service, accounts)
    tools = tool_routes([(whole, "")])
    calls = InnerCalls(settings, admission, context.statistics.recorder)
    _mount(router, context, whole, "", [_mcp(settings, calls, whole, tools)])
    front = mount_front(router, board, [whole], [""], None)
    pages = [*discovery_pages(settings, [whole], [""]), *directory_pages(context, [(whole, "")], tools)]
    for page in [*pages, *agent_pages(settings, calls, [(whole, "")], "")]:
        router.add(front, page, "")
    return router


def _mcp(settings: Settings, calls: InnerCalls, server: Service, tools: Mapping[str, Route]) -> Endpoint:
    return McpEndpoint(calls, OwnHosts(settings), server, tools).endpoint()


def _mount(router: Router, context: AppContext, service: Service, prefix: str, pages: Sequence[Endpoint]) -> None:
    plans = [plan.described() for plan in context.plans.all]
    base_url = f"{context.settings.link_root}{prefix}" or "/"
    whole, document = with_housekeeping(service, base_url, pages, plans)
    router.mount(whole, prefix)
    context.offers.describe(service.name, document)
