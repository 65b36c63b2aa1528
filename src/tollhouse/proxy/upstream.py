"""What a proxied request is sent to: an HTTP server, or an application in this process."""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from tollhouse.http.endpoint import ByteStream
from tollhouse.http.request import HttpRequest
from tollhouse.http_client.connection import Headers


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
