"""One HTTP request as the gate sees it."""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from random import getrandbits
from typing import Any
from urllib.parse import unquote

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")


class HttpRequest:
    """Method, path, headers and the body's stream. Repeated headers are joined with a comma, as HTTP allows."""

    __slots__ = ("_gone", "has_reader", "headers", "headers_bytes", "id", "method", "path", "peer", "query", "receive")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.query: bytes = scope["query_string"]
        self.path: str = _path(scope)
        self.peer: str = scope["client"][0] if scope.get("client") else ""
        self.receive = receive
        self.has_reader = False
        self._gone: asyncio.Task[None] | None = None
        headers: dict[bytes, str] = {}
        size = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            text = value.decode("latin-1")
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        self.headers = headers
        self.headers_bytes = size
        given = headers.get(b"x-request-id")
        self.id: str = given if given and _REQUEST_ID.fullmatch(given) else _new_id()

    def header(self, name: bytes) -> str:
        """The header's value, empty when it was not sent."""
        return self.headers.get(name, "")

    def watch(self) -> None:
        """From now on, once the body was read, notice when the client leaves."""
        self.has_reader = True
        self._gone = asyncio.ensure_future(self._until_gone())

    async def left(self) -> None:
        """Wait until the client leaves; the body was read."""
        self.has_reader = True
        await self._until_gone()

    def is_gone(self) -> bool:
        """Whether the client was seen to leave since `watch`; stops watching."""
        if self._gone is None:
            return False
        self._gone.cancel()
        return self._gone.done()

    async def _until_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


def _new_id() -> str:
    """Tells requests apart. It opens nothing, so it may be guessable and need not cost a call into the kernel."""
    return f"{getrandbits(64):016x}"


def _path(scope: Scope) -> str:
    """The decoded path; a percent-encoded slash stays encoded, so that it cannot forge a segment."""
    raw = scope.get("raw_path") or scope["path"].encode()
    text: str = raw.decode("latin-1").partition("?")[0]
    if "%" not in text:
        return text
    return unquote(re.sub("%2[fF]", "%252F", text), errors="replace")
