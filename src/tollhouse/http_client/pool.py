"""Connections that are used again for the same server."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from tollhouse.http_client.connection import Connection, Exchange, Framing, Headers, RequestFailed

CONNECT_SECONDS = 5.0
ADDRESSES_TRIED = 3
IDLE_SECONDS = 4.0
"""How long a connection is kept for the next request. Common servers close theirs after five seconds."""


class Origin(NamedTuple):
    """A server, with TLS or without."""

    is_https: bool
    host: str
    port: int


Addresses = Callable[[Origin], Awaitable[Sequence[str]]]
"""What may be connected to for a server: names or IP addresses, tried in this order. Its errors pass."""


def encode_head(method: bytes, target: bytes, headers: Headers) -> bytes:
    """The head of a request. Raises RequestFailed for a header with a line break."""
    lines = [b"%b %b HTTP/1.1" % (method, target), *(b"%b: %b" % header for header in headers)]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head:
        raise RequestFailed("invalid", "a header of the request has a line break")
    return head + b"\r\n\r\n"


class ConnectionPool:
    """Sends one request at a time on each connection. Without `addresses`, names are resolved as this machine does.

    TLS keeps the name, so certificates are verified against it.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        most_idle: int,
        addresses: Addresses | None = None,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self._tls = tls
        self._most_idle = most_idle
        self._addresses = addresses
        self._connect_seconds = connect_seconds
        self._idle: dict[Origin, list[Connection]] = {}
        self._idle_number = 0
        self._open: set[Connection] = set()
        self._reaping: asyncio.TimerHandle | None = None

    async def send(
        self,
        origin: Origin,
        head: bytes,
        body: bytes | AsyncIterator[bytes] | None,
        framing: Framing,
        *,
        may_repeat: bool,
    ) -> Exchange:
        """Send a request; the exchange once the head of its answer is there. Raises RequestFailed.

        With `may_repeat` it is sent again if the server had closed the connection that was used again.
        """
        connection = self._take(origin)
        if connection is not None:
            try:
                return await connection.send(head, body, framing)
            except RequestFailed as failure:
                if not may_repeat or failure.kind != "cut" or connection.has_answer_begun:
                    raise
        return await (await self._connect(origin)).send(head, body, framing)

    async def close(self) -> None:
        if self._reaping is not None:
            self._reaping.cancel()
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)

    async def _connect(self, origin: Origin) -> Connection:
        addresses = [origin.host] if self._addresses is None else await self._addresses(origin)
        assert addresses, "a server has an address"
        for address in addresses[:ADDRESSES_TRIED]:
            try:
                return await self._open_at(address, origin)
            except RequestFailed as error:
                failure = error
                if failure.kind == "tls":
                    break
        raise failure

    async def _open_at(self, address: str, origin: Origin) -> Connection:
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(partial(self._put, origin), self._open.discard),
                    address,
                    origin.port,
                    ssl=self._tls if origin.is_https else None,
                    server_hostname=origin.host if origin.is_https else None,
                )
        except TimeoutError:
            raise RequestFailed("unreachable", f"no connection within {self._connect_seconds:g} s") from None
        except ssl.SSLError as error:
            raise RequestFailed("tls", str(error)) from error
        except OSError as error:
            raise RequestFailed("unreachable", str(error)) from error
        self._open.add(connection)
        return connection

    def _take(self, origin: Origin) -> Connection | None:
        """The connection that was used last: the others may then be closed."""
        idle = self._idle.get(origin)
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            self._idle_number -= 1
            if not connection.is_closed and _is_fresh(connection, now):
                return connection
            connection.close()
        return None

    def _put(self, origin: Origin, connection: Connection) -> None:
        if self._idle_number >= self._most_idle:
            connection.close()
            return
        self._idle.setdefault(origin, []).append(connection)
        self._idle_number += 1
        if self._reaping is None:
            self._reaping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._reap)

    def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        former, self._idle, self._idle_number = self._idle, {}, 0
        for origin, connections in former.items():
            for connection in connections:
                if not _is_fresh(connection, now):
                    connection.close()
            if fresh := [one for one in connections if not one.is_closed]:
                self._idle[origin] = fresh
                self._idle_number += len(fresh)
        self._reaping = loop.call_later(IDLE_SECONDS, self._reap) if self._idle else None


def _is_fresh(connection: Connection, now: float) -> bool:
    """Whether the server still keeps the connection. One that it closed is known to be closed."""
    lasts = IDLE_SECONDS if connection.idle_seconds is None else min(IDLE_SECONDS, connection.idle_seconds - 1.0)
    return now - connection.idle_since < lasts
