"""The ASGI application: starts the server, hands it requests, and stops it when they are answered."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any, Self

from prometheus_client import Gauge

from tollhouse import clock
from tollhouse.config.loader import metrics_folder
from tollhouse.config.settings import SettingError
from tollhouse.errors import Problem
from tollhouse.http.connections import NO_BOUND, IdleConnections, Peer
from tollhouse.http.graceful_stop import GracefulStop
from tollhouse.http.load_shedding import QueueOfLoop, refuse
from tollhouse.http.request import HttpRequest, Receive, Scope, Send
from tollhouse.http.response import render_problem, send_response
from tollhouse.http.server import Server
from tollhouse.logs import logger

log = logger("http")

DRAIN_SECONDS = 30.0
RETRY_START_SECONDS = 5.0
POLICY_VIOLATION = 1008

_IN_FLIGHT = Gauge("tollhouse_requests_in_flight", "Requests in flight in this process")

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
        """ASGI 3."""
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
        """Wait for the requests in flight."""
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
