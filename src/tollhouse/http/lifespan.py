"""The ASGI application's life: built at start-up, answering in between, closed once the last answer has left."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from tollhouse.http.metrics import show_in_flight
from tollhouse.http.request import Receive, Scope, Send
from tollhouse.http.server import Server
from tollhouse.logs import logger

log = logger("http")

DRAIN_SECONDS = 30.0

Serving = Callable[[], AbstractAsyncContextManager[Server]]


class Application:
    """What an ASGI server calls. `serving` builds the gate and closes it."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._gate: Server | None = None
        self._in_flight = 0
        self._idle = asyncio.Event()
        show_in_flight(lambda: self._in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI 3."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._gate is not None, "the server sent a request before start-up was complete"
        self._in_flight += 1
        try:
            await self._gate.answer(scope, receive, send)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            try:
                self._gate = await stack.enter_async_context(self._serving())
            except Exception as error:
                log.exception("start-up failed")
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._drain()
        await send({"type": "lifespan.shutdown.complete"})

    async def _drain(self) -> None:
        """Let the requests in flight finish."""
        self._idle.clear()
        if self._in_flight:
            log.info("finishing requests in flight", count=self._in_flight)
            try:
                await asyncio.wait_for(self._idle.wait(), DRAIN_SECONDS)
            except TimeoutError:
                log.warning("requests cut off", count=self._in_flight)
