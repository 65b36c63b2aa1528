"""A connection to a server: HTTP/1.1, one request at a time (RFC 9112)."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Literal, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

Headers = list[tuple[bytes, bytes]]

MAX_HEAD_BYTES = 65_536
READ_AHEAD_BYTES = 262_144
"""How much of an answer is read before somebody takes it."""
CONTINUE_SECONDS = 1.0
"""How long a body waits for `100 Continue` (RFC 9110, section 10.1.1: not forever)."""


class RequestFailed(Exception):
    """The server gave no whole answer. The text is for the log.

    `unreachable`: no connection. `tls`: no TLS, or a certificate that is not valid for the name. `timeout`: too late.
    `cut`: the connection ended before the answer did. `invalid`: what was to be sent, or the answer, is not valid HTTP.
    """

    def __init__(self, kind: Literal["unreachable", "tls", "timeout", "cut", "invalid"], text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Framing(Struct, frozen=True):
    """What the head says of the bodies. `length` is that of the request's in bytes, None where it is sent chunked."""

    length: int | None
    is_head_request: bool
    expects_continue: bool


class Exchange:
    """One request and its answer, whose body it yields; the connection is free again once the answer has arrived."""

    __slots__ = ("_arrived", "_connection", "_failure", "_is_complete", "_pieces", "_size", "head", "headers", "status")

    def __init__(self, connection: "Connection", head: "asyncio.Future[None]") -> None:
        self.head = head
        self.status = 0
        self.headers: Headers = []
        self._connection: Connection | None = connection
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_complete = False
        self._failure: BaseException | None = None
        self._arrived: asyncio.Future[None] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next piece. Raises RequestFailed."""
        while not self._pieces:
            if self._failure is not None:
                raise self._failure
            if self._is_complete:
                raise StopAsyncIteration
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self._connection is not None and self._size < READ_AHEAD_BYTES // 2:
            self._connection.resume_reading()
        return piece

    async def aclose(self) -> None:
        """End the request, unless its answer has arrived."""
        if self._connection is not None:
            self._connection.close()

    @property
    def whole(self) -> bytes | None:
        """The body, if the answer has arrived."""
        return b"".join(self._pieces) if self._is_complete else None

    def add(self, piece: bytes) -> bool:
        """Add a piece of the body; whether there is enough for now."""
        self._pieces.append(piece)
        self._size += len(piece)
        self._wake()
        return self._size > READ_AHEAD_BYTES

    def complete(self) -> None:
        self._is_complete = True
        self._connection = None
        self._wake()

    def fail(self, failure: BaseException) -> None:
        self._connection = None
        if not self.head.done():
            self.head.set_exception(failure)
            return
        self._failure = failure
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


class Connection(asyncio.Protocol):
    """Sends requests one after another. `on_idle` is called when it can take the next one, `on_closed` at its end."""

    def __init__(self, on_idle: "Callable[[Connection], None]", on_closed: "Callable[[Connection], None]") -> None:
        self.idle_since = 0.0
        self.idle_seconds: float | None = None
        """How long the server keeps the connection, if it says so (`Keep-Alive: timeout=…`)."""
        self.is_closed = False
        self._on_idle = on_idle
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._parser = HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._sending: asyncio.Task[None] | None = None
        self._continue: asyncio.Event | None = None
        self._is_reading = True
        self._can_write: asyncio.Event | None = None

    async def send(self, head: bytes, body: bytes | AsyncIterator[bytes] | None, framing: Framing) -> Exchange:
        """Send a request; the exchange once the head of its answer is there. Raises RequestFailed."""
        exchange = self._exchange = Exchange(self, self._loop.create_future())
        self._is_head_request = framing.is_head_request
        self._reset_head()
        if isinstance(body, bytes) and not framing.expects_continue:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            if body is not None:
                self._continue = asyncio.Event() if framing.expects_continue else None
                pieces = _once(body) if isinstance(body, bytes) else body
                self._sending = self._loop.create_task(self._send_body(pieces, framing.length))
        try:
            await exchange.head
        except BaseException:
            self.close()
            raise
        return exchange

    @property
    def has_answer_begun(self) -> bool:
        """Whether any byte of an answer to the last request arrived."""
        return self._head_bytes > 0

    def close(self) -> None:
        """Close the connection. A request in progress fails."""
        if not self.is_closed:
            self.is_closed = True
            self._transport.abort()
            self._end(RequestFailed("cut", "the connection was closed here"))

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()

    async def _send_body(self, pieces: AsyncIterator[bytes], length: int | None) -> None:
        """Send the body as it comes, no faster than the server reads it: chunked where its length is not known."""
        try:
            if self._continue is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._continue.wait(), CONTINUE_SECONDS)
            sent = 0
            async for piece in pieces:
                sent += len(piece)
                if self.is_closed or (length is not None and sent > length):
                    break
                if piece:
                    self._transport.write(piece if length is not None else b"%x\r\n%b\r\n" % (len(piece), piece))
                    if self._can_write is not None:
                        await self._can_write.wait()
                if sent == length:
                    break
            if length is None:
                self._transport.write(b"0\r\n\r\n")
            elif sent != length:
                self._fail(RequestFailed("cut", f"the body of the request has {sent} bytes instead of {length}"))
        except Exception as failure:  # noqa: BLE001 - of the client that sends the body: its request ends with it
            self._fail(failure)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is of another class.
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._can_write = asyncio.Event()

    def resume_writing(self) -> None:
        self._let_write()

    def data_received(self, data: bytes) -> None:
        if self._exchange is None:
            # Nothing is due: what comes unasked must not become the answer to the next request.
            self.close()
            return
        if not self._exchange.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail(RequestFailed("invalid", "the server changed the protocol"))
        except HttpParserError as error:
            self._fail(RequestFailed("invalid", f"the answer is not HTTP: {error}"))
        if self._is_in_head() and self._head_bytes > MAX_HEAD_BYTES:
            self._fail(RequestFailed("invalid", f"the head of the answer has over {MAX_HEAD_BYTES} bytes"))

    def _let_write(self) -> None:
        if self._can_write is not None:
            self._can_write.set()
            self._can_write = None

    def _is_in_head(self) -> bool:
        return self._exchange is not None and not self._exchange.status

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._on_closed(self)
        self._let_write()
        exchange = self._exchange
        if exchange is not None and exchange.status and not self._is_framed and exc is None:
            self._end(None)
        else:
            self._end(RequestFailed("cut", "the server closed the connection" + (f": {exc}" if exc else "")))

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer is dropped."""
        if self._exchange is None or self._exchange.status:
            return
        lower = name.lower()
        self._headers.append((lower, value.rstrip(b" \t")))
        if lower in {b"content-length", b"transfer-encoding"}:
            self._is_framed = True
        elif lower == b"keep-alive":
            self.idle_seconds = _keep_alive_seconds(value)

    def on_headers_complete(self) -> None:
        """Hand over the head of the final answer."""
        status = self._parser.get_status_code()
        if self._exchange is None or status < 200:
            return
        self._exchange.status = status
        self._exchange.headers = self._headers
        self._is_framed = self._is_framed or self._is_head_request or status in {204, 304}
        self._keeps_alive = self._parser.should_keep_alive() or (
            # A parser that does not know of the HEAD request waits for a body that ends with the connection.
            self._is_head_request and b"close" not in dict(self._headers).get(b"connection", b"").lower()
        )
        if not self._exchange.head.done():
            self._exchange.head.set_result(None)
        if self._is_head_request:
            self._parser = HttpResponseParser(self)
            self._complete()

    def on_body(self, body: bytes) -> None:
        """Hand over a piece of the body; stop reading where no one takes it."""
        if self._exchange is None:
            self.close()
        elif self._exchange.add(body) and self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer ended, or a 1xx before it."""
        if self._exchange is not None and not self._exchange.status:
            self._reset_head(keeps_count=True)
            if self._continue is not None:
                self._continue.set()
        elif self._exchange is not None:
            self._complete()

    def _reset_head(self, *, keeps_count: bool = False) -> None:
        self._headers: Headers = []
        self._is_framed = False
        self._keeps_alive = False
        if not keeps_count:
            self._head_bytes = 0

    def _complete(self) -> None:
        # After an answer that came before the body was sent, the connection is of no more use.
        is_sent = self._sending is None or self._sending.done()
        self._end(None)
        self._sending = self._continue = None
        if self._keeps_alive and is_sent and not self.is_closed:
            self.resume_reading()
            self.idle_since = self._loop.time()
            self._on_idle(self)
        else:
            self.close()

    def _fail(self, failure: BaseException) -> None:
        self._end(failure)
        self.close()

    def _end(self, failure: BaseException | None) -> None:
        exchange, self._exchange = self._exchange, None
        if self._sending is not None and not self._sending.done() and self._sending is not asyncio.current_task():
            self._sending.cancel()
        if exchange is not None:
            exchange.complete() if failure is None else exchange.fail(failure)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _keep_alive_seconds(value: bytes) -> float | None:
    for part in value.split(b","):
        name, _, seconds = part.strip().partition(b"=")
        if name.lower() == b"timeout" and seconds.isdigit() and len(seconds) < 9:
            return float(seconds)
    return None
