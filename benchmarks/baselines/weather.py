"""What the benchmark of the proxy compares, on granian with the options of `tollhouse serve`.

`weather.py upstream PORT`: an API with 5 KB of JSON at `/json` and server-sent events at `/events`.
`weather.py passing PORT UPSTREAM`: an application that passes each GET on, with the client that Tollhouse uses.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from functools import cache
from typing import Any

from granian import Granian
from granian.constants import Interfaces, Loops
from granian.log import LogLevels

from tollhouse.http.request import HttpRequest
from tollhouse.proxy.upstream import HttpUpstream, OutgoingRequest

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY = b'{"forecast": "' + b"sunny " * 850 + b'"}'
EVENT_SECONDS = 1.0


async def upstream(scope: Message, receive: Receive, send: Send) -> None:
    """The API."""
    if scope["type"] != "http":
        return
    if scope["path"].endswith("/events"):
        await events(receive, send)
        return
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


async def events(receive: Receive, send: Send) -> None:
    """An event a second, until the client leaves."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    gone = asyncio.ensure_future(receive())
    while not gone.done() or (await gone)["type"] != "http.disconnect":
        if gone.done():
            gone = asyncio.ensure_future(receive())
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await asyncio.wait({gone}, timeout=EVENT_SECONDS)
    with suppress(Exception):
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@cache
def client() -> HttpUpstream:
    """The client of this process."""
    return HttpUpstream(sys.argv[3])


async def passing(scope: Message, receive: Receive, send: Send) -> None:
    """The least that passes an answer on."""
    if scope["type"] != "http":
        return
    request = HttpRequest(scope, receive)
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    outgoing = OutgoingRequest(request.method, request.raw_path, request.query, headers, None, None, request)
    answer = await client().send(outgoing)
    body = b"".join([piece async for piece in answer.body])
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    Granian(
        f"weather:{sys.argv[1]}",
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
