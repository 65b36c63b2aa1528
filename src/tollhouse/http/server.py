"""The ASGI application and its server: start and stop, and for each request routing, admission, errors and a record."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from time import perf_counter
from typing import Any, Self

from prometheus_client import Gauge

from tollhouse import clock, failpoints, tracing
from tollhouse.config.loader import metrics_folder
from tollhouse.config.settings import SettingError, Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Response
from tollhouse.http.graceful_stop import GracefulStop
from tollhouse.http.overload import NO_BOUND, IdleConnections, Peer, QueueOfLoop, QueueOfThreads, refuse
from tollhouse.http.request import (
    HttpRequest,
    Receive,
    Scope,
    Send,
    address_reader,
    check_head,
    check_host,
    check_upgrade,
    drain_body,
)
from tollhouse.http.response import opens_page, render_problem, send_response
from tollhouse.http.router import Admission, Admitted, Call, Route, Router, allowed_methods
from tollhouse.http.terms import KeyCaller, VisitorCaller, WalletCaller
from tollhouse.logs import logger
from tollhouse.statistics.recorder import FIRST_ERROR, RecordedCall, Recorder

log = logger("http")

UNROUTED = "unrouted"
SLOW_SECONDS = 1.0
DRAIN_SECONDS = 30.0
RETRY_START_SECONDS = 5.0
POLICY_VIOLATION = 1008
_INTERNAL = "Internal error. The operator can find it in the log by the request id."
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?:[ \t]*,[ \t]*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*")
_IN_FLIGHT = Gauge("tollhouse_requests_in_flight", "Requests in flight in this process")


def record_call(  # noqa: PLR0913, PLR0917 - everything that is known of a request at its end
    recorder: Recorder,
    request: HttpRequest,
    route: Route | None,
    call: Call | None,
    status: int,
    problem: Problem | None,
    address: str,
    seconds: float,
    ended: float,
) -> None:
    """Record a request. Of pages, files, descriptions and health checks that were answered only the number is kept."""
    code = detail = ""
    if status >= FIRST_ERROR:
        code, detail = (problem.code, problem.detail) if problem else (f"status-{status}", "")
    if route is None:
        service, operation, path = "", UNROUTED, request.path
    else:
        endpoint = route.endpoint
        service, operation, path = route.service.name, endpoint.id, route.prefix + endpoint.path
        if status < FIRST_ERROR and (not endpoint.is_described or endpoint.tag == "about"):
            # One name for all pages and files: the address of a file changes with every release.
            operation = operation.partition(" ")[0]
            recorder.count((service, operation, status, "", "", "", ""), seconds, ended)
            if tracing.tracer is not None:
                _describe(
                    request, path, status, code, {"tollhouse.service": service, "tollhouse.operation": endpoint.id}
                )
            return
    kind, subject, name, plan = _caller(call, address)
    payment, micros = (call.payment, call.charged_micros) if call else ("", 0)
    if tracing.tracer is not None:
        members = {"service": service, "operation": operation, "caller": kind, "plan": plan, "payment": payment}
        _describe(request, path, status, code, {f"tollhouse.{name}": value for name, value in members.items()})
    key = (service, operation, status, code, kind, plan, payment)
    recorder.count_call(key, seconds, ended, subject, name, micros)
    if recorder.accepts(status):
        outcome, about = (ended, seconds, status, code, detail), (service, operation, request.method, path, request.id)
        recorder.keep(RecordedCall(*outcome, *about, kind, subject, name, plan, payment, micros))


def _caller(call: Call | None, address: str) -> tuple[str, str, str, str]:
    """Kind, subject, name and plan of the caller."""
    caller = call.caller if call else None
    if isinstance(caller, KeyCaller):
        return "key", caller.key_id, caller.label or "", caller.tier
    if isinstance(caller, WalletCaller):
        return "wallet", caller.agent_id, caller.address, ""
    return "page" if isinstance(caller, VisitorCaller) else "address", address, "", ""


def _describe(request: HttpRequest, path: str, status: int, code: str, members: dict[str, str]) -> None:
    """Describe the span of the request. Of its path, only the template is named."""
    route = path if members["tollhouse.operation"] != UNROUTED else ""
    attributes = {"http.request.method": request.method, "http.route": route, "tollhouse.request_id": request.id}
    tracing.describe_request(f"{request.method} {route}".strip(), status, code, attributes | members)


def _log(request: HttpRequest, route: Route | None, status: int, seconds: float) -> None:
    """Log a response: at level `info` if it failed or was slow."""
    log_line = log.info if status >= FIRST_ERROR or seconds > SLOW_SECONDS else log.debug
    log_line(
        "request handled",
        request_id=request.id,
        method=request.method,
        path=request.path,
        service=route.service.name if route else "",
        operation=route.endpoint.id if route else UNROUTED,
        status=status,
        seconds=round(seconds, 6),
    )


class ResponseCut(Exception):
    """A response broke off after its head was sent: the ASGI server must close the connection."""


class Server:
    """Handles every request. `hosts` gives a host name its own router; any other host gets `router`.

    `operator_router` answers the requests on the listener of the operator. `recorder` counts every request.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a server is made of
        self,
        settings: Settings,
        admission: Admission,
        router: Router,
        hosts: Mapping[str, Router],
        operator_router: Router | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._settings = settings
        self._recorder = recorder or Recorder()
        self._address = address_reader(settings.trusted_networks())
        self._admission = admission
        self._threads = QueueOfThreads()
        self._router = router
        self._hosts = hosts
        self._operator_router = operator_router or Router()
        self._logs_all = settings.log_level == "debug"
        self._root_path = settings.root_path
        self.at: Callable[[str], Server] | None = None
        """The same server for requests below another path, at which an application has mounted it."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, *, is_for_operator: bool = False) -> None:
        """Handle one HTTP request; never raises for anything a client can send."""
        begun = perf_counter()
        request = HttpRequest(scope, receive)
        is_elsewhere = request.root_path and request.root_path != self._root_path
        server = self.at(request.root_path) if is_elsewhere and self.at else self
        if tracing.tracer is None:
            await server.handle_request(request, send, begun, is_for_operator=is_for_operator)
            return
        with tracing.request_span(request.method, request.headers):
            await server.handle_request(request, send, begun, is_for_operator=is_for_operator)

    async def handle_request(self, request: HttpRequest, send: Send, begun: float, *, is_for_operator: bool) -> None:
        """Handle a request that arrived at the moment `begun`."""
        route: Route | None = None
        call: Call | None = None
        refusal: Problem | None = None
        host = request.header(b"host").partition(":")[0].lower() if self._hosts else ""
        router = self._operator_router if is_for_operator else self._hosts.get(host, self._router)
        try:
            check_host(request)
            check_head(request)
            if request.method == "OPTIONS":
                admitted = Admitted(_options(router.routes(request.path), request))
            else:
                route, parameters = router.find(request)
                if route.endpoint.passes_through:
                    check_upgrade(request)
                call = Call(self._settings, request, route, parameters)
                operation, since = self._threads.begin(f"{route.service.name} {route.endpoint.id}", request.path)
                try:
                    admitted = await self._admission.admit(call)
                finally:
                    self._threads.end(operation, since)
        except Problem as problem:
            refusal = problem
            if route is None:
                # A foreign protocol writes these problems, too, in its own form.
                with contextlib.suppress(Problem):
                    route, _ = router.find(request)
            admitted = Admitted(_problem_response(problem, route, request, router), problem.usage)
        except Exception:
            log.exception("unexpected failure", request_id=request.id, path=request.path)
            refusal = Problem("internal-error", _INTERNAL)
            admitted = Admitted(_problem_response(refusal, route, request, router))
        await drain_body(request)
        cut: Exception | None = None
        try:
            status = await _send_answer(admitted, request, send)
        except Exception as failure:  # noqa: BLE001 - raised again, once the request is recorded
            status, cut = admitted.response.status, failure
        request.end()
        await _end_upload(request, is_cut=cut is not None)
        ended = perf_counter()
        address = (call and call.address) or self._address(request.peer, request.header(b"x-forwarded-for"))
        record_call(self._recorder, request, route, call, status, refusal, address, ended - begun, ended)
        # Building a log line costs time even where the level drops it.
        if status >= FIRST_ERROR or ended - begun > SLOW_SECONDS or self._logs_all:
            _log(request, route, status, ended - begun)
        if cut is not None:
            # The client must see that the response is not whole: an exception makes Granian close the connection.
            log.warning("response cut", request_id=request.id, path=request.path, cause=str(cut) or type(cut).__name__)
            raise ResponseCut(str(cut)) from None


def _problem_response(problem: Problem, route: Route | None, request: HttpRequest, router: Router) -> Response:
    """A foreign protocol's form, a page for a browser that opens one, and problem+json for everyone else."""
    form = route.endpoint.problem_form if route else None
    if form:
        return form.render(problem)
    if router.error_page and opens_page(request):
        return router.error_page(problem, request, route)
    return render_problem(problem, request.id)


async def _end_upload(request: HttpRequest, *, is_cut: bool) -> None:
    """Read what little is still to come of a body that is passed on, unless the connection ends now."""
    upload, request.upload = request.upload, None
    if upload is not None and not is_cut:
        await upload.drain()


async def _send_answer(admitted: Admitted, request: HttpRequest, send: Send) -> int:
    """Send the response. A paid one is reported as delivered if the client was still connected at its end."""
    if not admitted.is_paid:
        return await send_response(admitted.response, admitted.usage, request, send)
    is_delivered = False
    try:
        failpoints.reach("paid-answer.before-send")
        status = await send_response(admitted.response, admitted.usage, request, send)
        failpoints.reach("paid-answer.after-send")
        is_delivered = not request.is_disconnected()
    finally:
        report = admitted.delivered if is_delivered else admitted.undelivered
        if report is not None:
            report()
    return status


def _options(routes: Mapping[str, Route], request: HttpRequest) -> Response:
    """The methods of a path, and what a page of another origin may send: everything, except to the operator."""
    methods = ", ".join(allowed_methods(routes)).encode()
    headers = [(b"allow", methods)]
    if not any(route.endpoint.terms.opens_to == "operator" for route in routes.values()):
        requested = request.header(b"access-control-request-headers").strip()
        sent = requested if _HEADER_NAMES.fullmatch(requested) else "*, Authorization"
        headers += [
            (b"access-control-allow-methods", methods),
            (b"access-control-allow-headers", sent.encode()),
            (b"access-control-max-age", b"86400"),
        ]
    return Response(b"", "text/plain", headers=tuple(headers))


Serving = Callable[[], AbstractAsyncContextManager[Server]]
Listener = Callable[[Callable[[Scope, Receive, Send], Awaitable[None]]], AbstractAsyncContextManager[None]]


class Application:
    """The ASGI application. `serving` builds the server and closes it.

    It starts with the lifespan of the ASGI server, with `async with`, or with the first request, where an application
    that mounts it forwards no lifespan. Started so, it stops when the event loop ends.
    `operator_listener` listens for the operator as well, on an address of its own. `connections` bounds idle ones.
    `stop` ends the open ones before the ASGI server stops.
    """

    def __init__(
        self,
        serving: Serving,
        operator_listener: Listener | None = None,
        connections: IdleConnections = NO_BOUND,
        stop: GracefulStop | None = None,
    ) -> None:
        self._serving = serving
        self._operator_listener = operator_listener
        self._connections = connections
        self._stop = stop
        self._queue = QueueOfLoop()
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._stopping = asyncio.Event()
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._is_closed = False
        self._retry_at = 0.0
        if not metrics_folder():
            _IN_FLIGHT.set_function(lambda: self._in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.handle(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await refuse_websocket(scope, receive, send)

    async def __aenter__(self) -> Self:
        """Start the server, unless it runs. Raises SettingError, and what else prevents the start."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._running is None or self._running.done():
            self._loop, self._server, self._is_closed = loop, None, False
            self._stopping, self._idle, self._in_flight = asyncio.Event(), asyncio.Event(), 0
            self._started = loop.create_future()
            self._running = loop.create_task(self._run(self._started))
        assert self._started is not None, "the task that starts the server says when it has"
        # Several requests may wait for the start: one that is cancelled leaves it to the others.
        await asyncio.shield(self._started)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the server once the requests in flight are answered."""
        self._is_closed = True
        self._stopping.set()
        if self._running is not None:
            await self._running

    async def handle(self, scope: Scope, receive: Receive, send: Send, *, is_for_operator: bool = False) -> None:
        """Handle one HTTP request, and start the server first if nothing has."""
        if self._stop and self._stop.is_begun:
            send = self._stop.closing(send)
        if not is_for_operator and self._queue.is_overdue(scope["path"]):
            await refuse(scope, receive, send)
            return
        if self._server is None or self._loop is not asyncio.get_running_loop():
            try:
                await self._start_late()
            except Problem as problem:
                request = HttpRequest(scope, receive)
                await send_response(render_problem(problem, request.id), [], request, send)
                return
        assert self._server is not None, "the server was started"
        peer: Peer = scope.get("client") or ("", "")
        self._connections.begin(peer)
        self._in_flight += 1
        try:
            await self._server.handle(scope, receive, send, is_for_operator=is_for_operator)
        finally:
            self._connections.end(peer)
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _start_late(self) -> None:
        """Start the server for a request. Raises Problem `not-configured` if it cannot start."""
        is_same_loop = self._loop is asyncio.get_running_loop()
        if is_same_loop and self._is_closed:
            raise Problem("not-configured", "The server was stopped.")
        if clock.seconds() >= self._retry_at:
            try:
                await self.__aenter__()
            except Exception:
                log.exception("start-up failed")
                self._retry_at = clock.seconds() + RETRY_START_SECONDS
            else:
                return
        raise Problem("not-configured", "The server could not start. The operator can find the reason in the log.")

    async def _run(self, started: asyncio.Future[None]) -> None:
        """Everything that is open while the server runs, opened and closed in one task."""
        try:
            async with AsyncExitStack() as stack:
                server = self._server = await stack.enter_async_context(self._serving())
                if self._operator_listener:
                    handle = partial(self.handle, is_for_operator=True)
                    await stack.enter_async_context(self._operator_listener(handle))
                watching = asyncio.create_task(self._connections.run())
                stack.callback(watching.cancel)
                started.set_result(None)
                await self._stopping.wait()
                await self._drain()
                if self._server is server:
                    self._server = None
        except Exception as error:
            self._server = None
            if started.done():
                raise
            started.set_exception(error)

    async def _drain(self) -> None:
        self._idle.clear()
        if self._in_flight:
            log.info("waiting for requests in flight", count=self._in_flight)
            try:
                await asyncio.wait_for(self._idle.wait(), DRAIN_SECONDS)
            except TimeoutError:
                log.warning("requests in flight cancelled", count=self._in_flight)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.__aenter__()
        except Exception as error:
            if isinstance(error, SettingError):
                log.error("start-up failed", setting=str(error))  # noqa: TRY400 - the message says what to change
            else:
                log.exception("start-up failed")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        if self._stop:
            self._stop.install()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.__aexit__()
        await send({"type": "lifespan.shutdown.complete"})


async def refuse_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse the handshake: with a problem where the ASGI server can send one, else it answers 403 by itself."""
    await receive()
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "No WebSocket endpoint"})
        return

    async def send_denial(message: MutableMapping[str, Any]) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    problem = Problem("invalid-request", "This server has no WebSocket endpoint. Send an HTTP request.")
    request = HttpRequest({**scope, "method": "GET"}, receive)
    await send_response(render_problem(problem, request.id), [], request, send_denial)
