"""The lifespan of an application behind the toll, inside that of the toll."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from tollhouse.http.application import Application
from tollhouse.http.request import Receive, Scope, Send
from tollhouse.logs import logger
from tollhouse.middleware.exchange import App

log = logger("middleware")

Message = MutableMapping[str, Any]


class Lifespan:
    """Starts the toll, then the application; stops the application, then the toll.

    An application that has no lifespan, such as Django's, ends or raises before it has started.
    """

    def __init__(self, app: App, server: Application) -> None:
        self._app = app
        self._server = server
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: asyncio.Queue[Message] = asyncio.Queue()

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the messages of the server."""
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
