"""`TollMiddleware`: an ASGI application whose routes have terms."""

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from msgspec import structs

from tollhouse import logs
from tollhouse.accounts.agent_endpoints import AgentEndpoints
from tollhouse.accounts.checkout_endpoints import CheckoutEndpoints
from tollhouse.accounts.key_endpoints import KeyEndpoints
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import AppContext
from tollhouse.app import serving
from tollhouse.config.settings import Settings
from tollhouse.console.status import StatusBoard
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Endpoint, Example, Method, declared_members
from tollhouse.http.paid_paths import with_paid_paths
from tollhouse.http.request import HttpRequest, Receive, Scope, Send
from tollhouse.http.response import render_problem, send_response
from tollhouse.http.router import Route, Router
from tollhouse.http.server import Application as ServerApplication
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.logs import logger
from tollhouse.middleware.exchange import APP_SCOPE, FAILURE, App, Application
from tollhouse.middleware.openapi import answer_document, read_document, with_operation
from tollhouse.middleware.routes import Routes, TolledRoute, local_path
from tollhouse.middleware.toll import Toll
from tollhouse.services import load_settings

log = logger("middleware")

Message = MutableMapping[str, Any]


class Lifespan:
    """Starts the toll, then the application; stops the application, then the toll.

    An application that has no lifespan, such as Django's, ends or raises before it has started.
    """

    def __init__(self, app: App, server: ServerApplication) -> None:
        self._app = app
        self._server = server
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: asyncio.Queue[Message] = asyncio.Queue()

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._server.__aenter__()
        except Exception as error:
            log.exception("start-up failed")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        living = asyncio.create_task(self._live(scope))
        started = await self._ask("lifespan.startup", living)
        if started is not None and started["type"] == "lifespan.startup.failed":
            await self._server.__aexit__()
            await send(started)
            await living
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        stopped = None if started is None else await self._ask("lifespan.shutdown", living)
        await self._server.__aexit__()
        await send(stopped or {"type": "lifespan.shutdown.complete"})
        await living

    async def _live(self, scope: Scope) -> None:
        try:
            await self._app(scope, self._messages.get, self._answers.put)
        except Exception as error:  # noqa: BLE001 - as servers do: it has no lifespan, or has said that it failed
            log.info("the application's lifespan ended", cause=repr(error))

    async def _ask(self, kind: str, living: "asyncio.Task[None]") -> Message | None:
        """What the application answers to a message; None if it has no lifespan any more."""
        await self._messages.put({"type": kind})
        answering = asyncio.create_task(self._answers.get())
        await asyncio.wait({answering, living}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            # What ended without an answer may have put one just before.
            answering.cancel()
            return None if self._answers.empty() else self._answers.get_nowait()
        return answering.result()


TOLLED = "tollhouse.tolled"
HANDLER = "tollhouse.handler"
BODY_LIMIT_BYTES = 104_857_600

_ACCOUNT_PATHS = frozenset(one["path"] for one in declared_members(KeyEndpoints, AgentEndpoints, CheckoutEndpoints))


class _TollRouter(Router):
    """Routes what the middleware says has a toll, besides the endpoints of accounts."""

    def __init__(self, service: Service, context: AppContext, accounts: Service) -> None:
        super().__init__()
        self._service = service
        self._plans = context.plans
        self._offers = context.offers
        self._tolled: dict[TolledRoute, Route] = {}
        self.mount(accounts, "")

    def find(self, request: HttpRequest) -> tuple[Route, dict[str, str]]:
        tolled: TolledRoute | None = request.scope.get(TOLLED)
        if tolled is None:
            return super().find(request)
        if tolled not in self._tolled:
            self._tolled[tolled] = Route(self._service, self._endpoint(tolled, request.scope[HANDLER]), "")
        return self._tolled[tolled], {}

    def _endpoint(self, tolled: TolledRoute, application: Application) -> Endpoint:
        endpoint = _endpoint(tolled, self._service.name, application)
        terms = endpoint.terms
        self._offers.describe(self._service.name, with_operation(application.document, endpoint))
        if terms.opens_to == "key":
            terms = structs.replace(terms, minimum_tier=next(iter(self._plans.including(terms.entitlement)), ""))
        paid = with_paid_paths(replace(self._service, endpoints=[replace(endpoint, terms=terms)])).endpoints
        return next(one for one in paid if one.paid_prefix == tolled.paid_prefix)


def _endpoint(tolled: TolledRoute, name: str, application: Application) -> Endpoint:
    """A tolled route as an endpoint of the service of this name."""
    return Endpoint(
        tolled.id, cast("Method", tolled.method), tolled.path, tolled.summary, application.handle,
        tolled.toll.terms(f"{name} {tolled.path}"),
        path_parameters={name: {"schema": {"type": "string"}} for name in tolled.parameters},
        sample=Example(path=dict.fromkeys(tolled.parameters, "example")),
        responses={JSON: {}}, passes_through=True, body_limit_bytes=application.body_limit_bytes,
    )  # fmt: skip


class TollMiddleware:
    """An ASGI application with a toll on some of its routes; the others are called as if it were not there.

    `routes` is a table of routes with their terms, such as `{"GET /reports/{id}": toll("0.01")}`; None leaves a route
    without. The first that covers a request decides. In Starlette, FastAPI and Litestar the decorator `@toll(...)` on a
    handler does the same. Keys, plans, allowances, credit and x402 are those of the settings, by default the ones in
    effect; the endpoints of accounts (`/api/keys/create`, `/api/agent/register`, …) are at the application's root.
    `name` is the service in statistics and the ledger. `openapi` is the path of the application's OpenAPI document,
    which gets the prices; empty where it has none. A tolled route takes bodies of up to `body_limit_bytes`.

        app = TollMiddleware(app, routes={"GET /forecast": toll("0.002", free_per_day=50)})

    It starts and stops with the application's lifespan, or starts with the first request to it. Raises ValueError for a
    route that is not one, SettingError.
    """

    def __init__(  # noqa: PLR0913 - its settings
        self,
        app: App,
        *,
        routes: Mapping[str, Toll | None] | None = None,
        settings: Settings | None = None,
        name: str = "api",
        openapi: str = "/openapi.json",
        body_limit_bytes: int = BODY_LIMIT_BYTES,
    ) -> None:
        settings = replace(load_settings() if settings is None else settings, service="", hosts={})
        logs.configure_events(settings.log_level)
        self._app = app
        self._name = name
        self._openapi = openapi
        self._routes = Routes(app, routes or {})
        self._application = Application(app, name, body_limit_bytes)
        opened = partial(serving, settings, is_guest=True, services={name: self._open}, build=_build)
        self._server = ServerApplication(opened)
        self._is_described = not openapi

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await Lifespan(self._app, self._server).run(scope, receive, send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif local_path(scope) in _ACCOUNT_PATHS:
            await self._server(scope, receive, send)
        elif scope["method"] == "GET" and local_path(scope) == self._openapi:
            await answer_document(self._app, partial(self._endpoint_at, scope), scope, receive, send)
        else:
            try:
                tolled = self._routes.find(scope)
            except Problem as problem:
                request = HttpRequest(scope, receive)
                await send_response(render_problem(problem, request.id), [], request, send)
                return
            if tolled is None:
                await self._app(scope, receive, send)
            else:
                await self._admit(*tolled, scope, receive, send)

    def _endpoint_at(self, scope: Scope, method: str, path: str) -> Endpoint | None:
        """The endpoint of another request to the application, if it has a toll. Raises Problem."""
        whole = scope.get("root_path", "").rstrip("/") + path
        tolled = self._routes.find({**scope, "method": method, "path": whole, "raw_path": quote(whole).encode()})
        return _endpoint(tolled[0], self._name, self._application) if tolled else None

    async def aclose(self) -> None:
        """Stop the toll, where no lifespan does."""
        await self._server.__aexit__()

    async def _admit(self, tolled: TolledRoute, for_app: Scope, scope: Scope, receive: Receive, send: Send) -> None:
        inner = {
            **scope,
            # The path as the application reads it: decoded once, whatever was encoded.
            "raw_path": quote(scope["path"]).encode(),
            APP_SCOPE: for_app,
            TOLLED: tolled,
            HANDLER: self._application,
        }
        if not self._is_described:
            endpoint_at = partial(self._endpoint_at, scope)
            self._application.document = await read_document(self._app, endpoint_at, scope, self._openapi)
            self._is_described = True
        await self._server(inner, receive, send)
        if failure := inner.get(FAILURE):
            # The client has its 500. The application's own reports of errors are outside.
            raise failure

    async def _open(self, context: AppContext) -> Service:
        async def health() -> dict[str, Any]:
            return {"status": "ok", "uptime_seconds": context.uptime_seconds()}

        return Service(self._name, self._name, "1", "", [], health, {"type": "object"})


def _build(context: AppContext, services: Sequence[Service], accounts: Service, _board: StatusBoard) -> Server:
    """A server of the tolled routes and the accounts: its pages and documents are the application's own."""
    router = _TollRouter(services[0], context, accounts)
    return Server(context.settings, Admission(context), router, {}, Router(), context.statistics.recorder)
