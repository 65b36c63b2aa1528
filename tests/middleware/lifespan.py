"""An ASGI application as a server runs it: with its lifespan around the requests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from tests.waiting import Patient


@contextlib.asynccontextmanager
async def running(app: Any, *, raises: bool = True) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the application, from the start to the end of its lifespan; `raises` what the application does."""
    heard: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    told: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    living = asyncio.create_task(
        app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, heard.get, told.put)
    )
    await heard.put({"type": "lifespan.startup"})
    assert (await told.get())["type"] == "lifespan.startup.complete"
    transport = Patient(httpx2.ASGITransport(app=app, raise_app_exceptions=raises))
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client
    await heard.put({"type": "lifespan.shutdown"})
    assert (await told.get())["type"] == "lifespan.shutdown.complete"
    await living
