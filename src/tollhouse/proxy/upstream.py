"""What a proxied request is sent to: an HTTP/1.1 server whose connections are used again, or an application here."""

import ssl
from collections.abc import AsyncIterator
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from tollhouse.http.endpoint import ByteStream
from tollhouse.http.request import HttpRequest
from tollhouse.http_client.connection import Framing, Headers
from tollhouse.http_client.pool import CONNECT_SECONDS, ConnectionPool, Origin, encode_head


class OutgoingRequest(Struct, frozen=True):
    """A request to an upstream.

    `path` and `query` are the bytes that the client sent, percent-encoded as they were, without the prefix of the
    service; `path` begins with a slash. `headers` have lower-case names, no hop-by-hop headers, no `host`, no
    `content-length` and no credentials for this server. `body` is None without one, bytes where it is in memory and
    can be sent again, else its stream, which is read once; `length` is its number of bytes where it is known.
    `received` is the request that came in.
    """

    method: str
    path: bytes
    query: bytes
    headers: Headers
    body: bytes | AsyncIterator[bytes] | None
    length: int | None
    received: HttpRequest


class UpstreamAnswer(Struct, frozen=True):
    """The final answer (never 1xx). `headers` are as sent, with lower-case names.

    `body` yields the bytes without their transfer coding, but in their content coding. It raises RequestFailed when
    the answer is cut. Closing it ends the request at the upstream, and does no harm after its end. `whole` is the body
    where all of it came with the head; there is then nothing to read or to close.
    """

    status: int
    headers: Headers
    body: ByteStream
    whole: bytes | None = None


class Upstream(Protocol):
    """Answers requests. Many may be in progress at once. `url` is its address; empty in this process."""

    url: str

    async def send(self, request: OutgoingRequest) -> UpstreamAnswer:
        """Send a request; the answer once its head is there. Cancelling ends the request.

        Raises RequestFailed, and what reading the request's body raises.
        """

    async def close(self) -> None:
        """Close every connection."""


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
        is_https = parts.scheme == "https"
        self._origin = Origin(is_https, parts.hostname, parts.port or (443 if is_https else 80))
        context = tls or (ssl.create_default_context() if is_https else None)
        self._pool = ConnectionPool(context, MAX_IDLE, connect_seconds=connect_seconds)
        self._base = parts.path.rstrip("/").encode()
        self._authority = parts.netloc.encode()

    async def send(self, request: OutgoingRequest) -> UpstreamAnswer:
        """See Upstream. A request that changes nothing when it is repeated is sent twice, if the connection fails."""
        headers = [(b"host", self._authority), *request.headers]
        if request.length is not None:
            headers.append((b"content-length", b"%d" % request.length))
        elif request.body is not None:
            headers.append((b"transfer-encoding", b"chunked"))
        target = self._base + request.path + (b"?" + request.query if request.query else b"")
        head = encode_head(request.method.encode(), target, headers)
        framing = Framing(request.length, request.method == "HEAD", b"\nexpect: " in head)
        may_repeat = request.method in IDEMPOTENT_METHODS and not isinstance(request.body, AsyncIterator)
        exchange = await self._pool.send(self._origin, head, request.body, framing, may_repeat=may_repeat)
        return UpstreamAnswer(exchange.status, exchange.headers, exchange, exchange.whole)

    async def close(self) -> None:
        await self._pool.close()
