"""Applications that pass each GET on to an upstream, on granian with the options of `tollhouse serve`.

`passing.py pyreqwest PORT UPSTREAM`: the least that does, with pyreqwest.
`passing.py aiohttp PORT UPSTREAM`: the same with aiohttp.
`passing.py x402 PORT UPSTREAM`: a FastAPI application with aiohttp behind the middleware of the x402 SDK. The route
that is called is one that the middleware's table leaves free, so it verifies, counts and charges nothing.
"""

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from granian import Granian
from granian.constants import Interfaces, Loops
from granian.log import LogLevels

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Fetch = Callable[[str, dict[str, str]], Awaitable[tuple[int, Headers, bytes]]]

NOT_PASSED = {b"connection", b"date", b"server", b"transfer-encoding"}
PAYEE = "0x" + "11" * 20


def with_pyreqwest() -> Fetch:
    """Fetches with one client of pyreqwest."""
    from pyreqwest.client import ClientBuilder

    client = ClientBuilder().build()

    async def fetch(url: str, headers: dict[str, str]) -> tuple[int, Headers, bytes]:
        answer = await client.get(url).headers(headers).build().send()
        passed = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
        return answer.status, passed, bytes(await answer.bytes())

    return fetch


def with_aiohttp() -> Fetch:
    """Fetches with one session of aiohttp, which is made in the event loop."""
    import aiohttp

    session: aiohttp.ClientSession | None = None

    async def fetch(url: str, headers: dict[str, str]) -> tuple[int, Headers, bytes]:
        nonlocal session
        session = session or aiohttp.ClientSession(auto_decompress=False)
        async with session.get(url, headers=headers, allow_redirects=False) as answer:
            return answer.status, [(name.lower(), value) for name, value in answer.raw_headers], await answer.read()

    return fetch


def passing(fetch: Fetch, upstream: str) -> Callable[[Message, Receive, Send], Awaitable[None]]:
    """The ASGI application that only passes on."""

    async def application(scope: Message, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        sent = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name != b"host"}
        status, headers, body = await fetch(upstream + scope["path"], sent)
        passed = [header for header in headers if header[0] not in NOT_PASSED]
        await send({"type": "http.response.start", "status": status, "headers": passed})
        await send({"type": "http.response.body", "body": body})

    return application


def behind_x402(fetch: Fetch, upstream: str) -> Any:
    """The FastAPI application, one route of which the SDK's middleware protects."""
    from fastapi import FastAPI, Request, Response
    from x402 import x402ResourceServer
    from x402.http.middleware.fastapi import payment_middleware

    application = FastAPI()
    option = {"scheme": "exact", "payTo": PAYEE, "price": "$0.01", "network": "eip155:8453"}
    check = payment_middleware(
        {"GET /paid": {"accepts": option}}, x402ResourceServer(), sync_facilitator_on_start=False
    )
    application.middleware("http")(check)

    @application.get("/{path:path}")
    async def pass_on(path: str, request: Request) -> Response:
        sent = {name: value for name, value in request.headers.items() if name != "host"}
        status, headers, body = await fetch(f"{upstream}/{path}", sent)
        passed = {name.decode(): value.decode("latin-1") for name, value in headers if name not in NOT_PASSED}
        return Response(body, status, passed)

    return application


def create() -> Any:
    """The application of the command line."""
    kind, _, upstream = sys.argv[1:]
    if kind == "x402":
        return behind_x402(with_aiohttp(), upstream)
    return passing(with_pyreqwest() if kind == "pyreqwest" else with_aiohttp(), upstream)


def main() -> None:
    Granian(
        "passing:create",
        factory=True,
        address="127.0.0.1",
        port=int(sys.argv[2]),
        interface=Interfaces.ASGINL,
        loop=Loops.uvloop,
        workers=1,
        websockets=False,
        log_level=LogLevels.warning,
        backlog=2048,
    ).serve()


if __name__ == "__main__":
    main()
