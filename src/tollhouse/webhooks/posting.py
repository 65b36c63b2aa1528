"""Posts over connections that go to validated addresses only, and are used again (HTTP/1.1, RFC 9112).

TLS and the Host header keep the name, so certificates are verified against it. Proxies from the environment and
redirects are not followed, because their targets are not validated.
"""

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import cast

import httpx2
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

from tollhouse.webhooks.target_validation import (
    Resolve,
    TargetRefused,
    TargetRules,
    parse_target,
    resolve_public_addresses,
)

CONNECT_SECONDS = 5.0
ADDRESSES_TRIED = 3
IDLE_CONNECTIONS = 512
IDLE_SECONDS = 5.0
MAX_HEAD_BYTES = 65_536
# The body is ignored. If it is read to its end, the connection can be used again.
BODY_BYTES = 4_096
BODY_SECONDS = 1.0
_REMEMBERED_URLS = 4_096

Origin = tuple[str, str, int]


class TlsFailed(Exception):
    """The other end does not speak TLS, or its certificate is not valid for the name."""


class BrokenAnswer(Exception):
    """The connection ended before the answer, or the answer is not HTTP."""


class Answer(Struct, frozen=True):
    """The status, and the header `Retry-After`."""

    status: int
    retry_after: str | None


class Poster:
    """Sends one request at a time on each connection, and uses a connection again for the same origin."""

    def __init__(self, rules: TargetRules, resolve: Resolve, tls: ssl.SSLContext | None = None) -> None:
        self._rules = rules
        self._resolve = resolve
        self._tls = tls or httpx2.create_ssl_context()
        self._parse = lru_cache(_REMEMBERED_URLS)(lambda url: parse_target(url, rules))
        self._idle: dict[Origin, list[_Connection]] = {}
        self._by_age: OrderedDict[_Connection, Origin] = OrderedDict()
        self._open: set[_Connection] = set()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Post a body. Raises TargetRefused, TlsFailed, BrokenAnswer, OSError and TimeoutError."""
        target = self._parse(url)
        origin = target.scheme, target.host, target.port or (443 if target.scheme == "https" else 80)
        lines = [b"POST %b HTTP/1.1" % target.raw_path, b"Host: %b" % target.netloc]
        lines += [f"{name}: {value}".encode("ascii") for name, value in headers.items()]
        message = b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])
        connection = self._take(origin)
        if connection is not None:
            try:
                return await self._exchange(connection, origin, message)
            except BrokenAnswer:
                # The receiver closed an idle connection as we wrote to it.
                if connection.head_bytes:
                    raise
        return await self._exchange(await self._connect(origin), origin, message)

    async def aclose(self) -> None:
        """Close every connection."""
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)

    async def _exchange(self, connection: "_Connection", origin: Origin, message: bytes) -> Answer:
        try:
            answer = await connection.send(message)
        except BaseException:
            connection.close()
            raise
        if connection.is_complete.done():
            self._release(connection, origin)
        else:
            # The result is known, however the body ends.
            timer = asyncio.get_running_loop().call_later(BODY_SECONDS, connection.close)
            connection.is_complete.add_done_callback(lambda _: timer.cancel())
            connection.is_complete.add_done_callback(lambda _: self._release(connection, origin))
        return answer

    def _release(self, connection: "_Connection", origin: Origin) -> None:
        """Leave a connection to the next request, if it can take one."""
        if connection.is_reusable and len(self._by_age) < IDLE_CONNECTIONS:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.setdefault(origin, []).append(connection)
            self._by_age[connection] = origin
        else:
            connection.close()

    def _take(self, origin: Origin) -> "_Connection | None":
        """The idle connection that was used last; those that were idle for too long are closed."""
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._by_age:
            connection = next(iter(self._by_age))
            if connection.idle_since >= oldest:
                break
            connection.close()
        idle = self._idle.get(origin)
        if not idle:
            return None
        connection = idle[-1]
        self._forget(connection)
        return connection

    def _forget(self, connection: "_Connection") -> None:
        """It is not idle any more."""
        origin = self._by_age.pop(connection, None)
        if origin is not None:
            idle = self._idle[origin]
            idle.remove(connection)
            if not idle:
                del self._idle[origin]

    def _closed(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        self._forget(connection)

    async def _connect(self, origin: Origin) -> "_Connection":
        scheme, host, port = origin
        addresses = await resolve_public_addresses(scheme, host, self._rules, self._resolve)
        failure: Exception = TargetRefused("the host name does not resolve")
        for address in addresses[:ADDRESSES_TRIED]:
            try:
                stream = await _open_stream(str(address), port)
            except OSError as error:
                failure = error
            else:
                return await self._begin(stream, host if scheme == "https" else None)
        raise failure

    async def _begin(self, stream: socket.socket, tls_name: str | None) -> "_Connection":
        """Raises TlsFailed."""
        loop = asyncio.get_running_loop()
        connection = _Connection(self._closed)
        try:
            await loop.create_connection(
                lambda: connection, sock=stream, ssl=self._tls if tls_name else None, server_hostname=tls_name
            )
        except OSError as error:
            stream.close()
            raise (TlsFailed(str(error)) if tls_name else error) from error
        except BaseException:
            stream.close()
            raise
        self._open.add(connection)
        return connection


async def _open_stream(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    stream = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    stream.setblocking(False)  # noqa: FBT003 - the socket's own method
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().sock_connect(stream, (address, port))
    except BaseException:
        stream.close()
        raise
    return stream


class _Connection(asyncio.Protocol):
    """One request after another. An answer is its status; the body is counted and dropped."""

    def __init__(self, on_closed: "Callable[[_Connection], None]") -> None:
        self.idle_since = 0.0
        self.head_bytes = 0
        self.is_reusable = False
        self._is_closed = False
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._head: asyncio.Future[Answer] | None = None
        self.is_complete: asyncio.Future[None] = self._loop.create_future()

    async def send(self, message: bytes) -> Answer:
        """Send a request; its answer, whose body may still come. Raises BrokenAnswer."""
        if self._is_closed:
            raise BrokenAnswer("the connection was closed")
        self._head, self.is_complete = self._loop.create_future(), self._loop.create_future()
        self._parser = HttpResponseParser(self)
        self.head_bytes = self._body_bytes = 0
        self._retry_after: str | None = None
        self.is_reusable = False
        self._transport.write(message)
        return await self._head

    def close(self) -> None:
        """Close the connection at once."""
        if not self._is_closed:
            self._transport.abort()
            self.connection_lost(None)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        # uvloop's is of another class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._head is None or self.is_complete.done():
            # Nothing is due: it must not become the answer to the next request.
            self.close()
            return
        if not self._head.done():
            self.head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._end(BrokenAnswer(f"the answer is not HTTP: {error}"))
        if not self._head.done() and self.head_bytes > MAX_HEAD_BYTES:
            self._end(BrokenAnswer(f"the head of the answer has over {MAX_HEAD_BYTES} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if not self._is_closed:
            self._is_closed = True
            self._on_closed(self)
            self._end(BrokenAnswer(str(exc or "the connection was closed")))

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take the header that matters."""
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The status is known."""
        status = self._parser.get_status_code()
        if status >= 200 and self._head is not None and not self._head.done():
            self._head.set_result(Answer(status, self._retry_after))

    def on_body(self, body: bytes) -> None:
        """Count the body; close where it is long."""
        self._body_bytes += len(body)
        if self._body_bytes > BODY_BYTES:
            self._end(None)

    def on_message_complete(self) -> None:
        """The answer ended, or a 1xx before it."""
        if self._head is not None and self._head.done():
            is_sent = not self._transport.get_write_buffer_size()
            self.is_reusable = is_sent and self._parser.should_keep_alive() and self._body_bytes <= BODY_BYTES
            if not self.is_complete.done():
                self.is_complete.set_result(None)

    def _end(self, failure: BrokenAnswer | None) -> None:
        self.is_reusable = False
        if self._head is not None and not self._head.done() and failure is not None:
            self._head.set_exception(failure)
        if not self.is_complete.done():
            self.is_complete.set_result(None)
        self.close()
