"""An upstream over HTTP/1.1 with connections that are used again."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from tollhouse.proxy.connection import Connection, Framing
from tollhouse.proxy.upstream import OutgoingRequest, UpstreamAnswer, UpstreamFailure

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 4.0
"""How long a connection is kept for the next request. Common servers close theirs after five seconds."""
MAX_IDLE = 128
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
IDEMPOTENT_METHODS = SAFE_METHODS | {"PUT", "DELETE"}


class HttpUpstream:
    """A server at `url` (`http://` or `https://`, with the path below which requests go).

    It follows no redirects, keeps no cookies, decompresses nothing and takes no proxy from the environment.
    Raises ValueError for a URL that is not one.
    """

    def __init__(
        self, url: str, *, connect_seconds: float = CONNECT_SECONDS, tls: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("an upstream is an http:// or https:// URL without query and fragment")
        if parts.username is not None or not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("an upstream's URL is printable ASCII without user and password")
        self.url = url
        self._host = parts.hostname
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._base = parts.path.rstrip("/").encode()
        self._authority = parts.netloc.encode()
        self._connect_seconds = connect_seconds
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._reaping: asyncio.TimerHandle | None = None

    async def send(self, request: OutgoingRequest) -> UpstreamAnswer:
        """See Upstream. A request that changes nothing when it is repeated is sent twice, if the connection fails."""
        head, framing = self._encode(request)
        may_repeat = request.method in IDEMPOTENT_METHODS and not isinstance(request.body, AsyncIterator)
        connection = self._take() or await self._connect()
        try:
            exchange = await connection.send(head, request.body, framing)
        except UpstreamFailure as failure:
            if not may_repeat or failure.kind != "cut" or connection.has_answer_begun:
                raise
            # As a rule the upstream closed an idle connection while the request was on its way.
            exchange = await (await self._connect()).send(head, request.body, framing)
        return UpstreamAnswer(exchange.status, exchange.headers, exchange, exchange.whole)

    async def close(self) -> None:
        """See Upstream."""
        if self._reaping is not None:
            self._reaping.cancel()
        for connection in list(self._open):
            connection.close()

    def _encode(self, request: OutgoingRequest) -> tuple[bytes, Framing]:
        """The head of the request. Raises UpstreamFailure for a header with a line break."""
        target = self._base + request.path
        if request.query:
            target += b"?" + request.query
        lines = [b"%b %b HTTP/1.1" % (request.method.encode(), target), b"host: " + self._authority]
        lines += [b"%b: %b" % header for header in request.headers]
        if request.length is not None:
            lines.append(b"content-length: %d" % request.length)
        elif request.body is not None:
            lines.append(b"transfer-encoding: chunked")
        head = b"\r\n".join(lines)
        if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head:
            raise UpstreamFailure("invalid", "a header of the request has a line break")
        return head + b"\r\n\r\n", Framing(request.length, request.method == "HEAD", b"\nexpect: " in head)

    def _take(self) -> Connection | None:
        """The connection that was used last: the others may then be closed."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed and _is_fresh(connection, now):
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._put, self._open.discard), self._host, self._port, ssl=self._tls
                )
        except TimeoutError:
            raise UpstreamFailure("unreachable", f"no connection within {self._connect_seconds:g} s") from None
        except (OSError, ssl.SSLError) as error:
            raise UpstreamFailure("unreachable", str(error)) from error
        self._open.add(connection)
        return connection

    def _put(self, connection: Connection) -> None:
        """Take a connection back."""
        if len(self._idle) >= MAX_IDLE:
            connection.close()
            return
        self._idle.append(connection)
        if self._reaping is None:
            self._reaping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._reap)

    def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        old = [one for one in self._idle if not _is_fresh(one, now)]
        self._idle = [one for one in self._idle if one not in old and not one.is_closed]
        for connection in old:
            connection.close()
        self._reaping = loop.call_later(IDLE_SECONDS, self._reap) if self._idle else None


def _is_fresh(connection: Connection, now: float) -> bool:
    """Whether the upstream still keeps the connection. One that it closed is known to be closed."""
    lasts = IDLE_SECONDS if connection.idle_seconds is None else min(IDLE_SECONDS, connection.idle_seconds - 1.0)
    return now - connection.idle_since < lasts
