"""How tests wait for what other tasks, threads and processes do: until it is so, however slow the machine."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

import httpx2

MOST_RETRIES = 10


async def until(claim: Callable[[], object | Awaitable[object]], seconds: float = 60.0) -> None:
    """Ask again and again until the claim, or what it is awaited for, is true. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while True:
            said = claim()
            if await said if isawaitable(said) else said:
                return
            await asyncio.sleep(0.02)


async def stop(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait for each: a cancelled `gather` is over with its first task, and leaves the others open."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Patient(httpx2.AsyncBaseTransport):
    """Sends a request again, when the server says so, that it refused because its processor was busy."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        for _ in range(MOST_RETRIES):
            response = await self._transport.handle_async_request(request)
            # A body that is made as it is sent cannot be sent again.
            if response.status_code != 503 or not isinstance(request.stream, httpx2.ByteStream):
                return response
            raw = b"".join([piece async for piece in response.aiter_raw()])
            await response.aclose()
            # Its body can be read once more by who sent the request.
            stream, headers = httpx2.ByteStream(raw), response.headers
            response = httpx2.Response(503, headers=headers, stream=stream, extensions=response.extensions)
            if b'"overloaded"' not in raw:
                return response
            await asyncio.sleep(int(headers["retry-after"]))
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()
