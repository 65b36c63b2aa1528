"""What a proxied request is sent to: an HTTP server, or an application in this process."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from tollhouse.http.request import HttpRequest

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request to an upstream.

    `path` and `query` are the bytes that the client sent, percent-encoded as they were, without the prefix of the
    service; `path` begins with a slash. `headers` have lower-case names, no hop-by-hop headers and no credentials for
    this server. `body` is None without one, bytes where it is in memory and can be sent again, else its stream, which
    may be read once; `length` is its number of bytes where it is known. `received` is the request that came in.
    """

    method: str
    path: bytes
    query: bytes
    headers: Headers
    body: bytes | AsyncIterator[bytes] | None
    length: int | None
    received: HttpRequest


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """The final answer (never 1xx). `headers` are as sent, with lower-case names.

    `body` yields the bytes without their transfer coding, but in their content coding. It raises UpstreamFailure when
    the answer is cut, and closing it (`aclose`) ends the request at the upstream, which then may stop its work.
    """

    status: int
    headers: Headers
    body: AsyncGenerator[bytes, None]


class UpstreamFailure(Exception):
    """The upstream gave no whole answer.

    `unreachable`: no connection. `timeout`: too late. `cut`: the connection ended before the answer did. `invalid`:
    the answer is not HTTP. `had_no_effect`: not a byte of the request was sent, or the upstream closed an idle
    connection while it was: an idempotent request may be sent again. The text is for the log.
    """

    def __init__(
        self, kind: Literal["unreachable", "timeout", "cut", "invalid"], text: str, *, had_no_effect: bool = False
    ) -> None:
        super().__init__(text)
        self.kind = kind
        self.had_no_effect = had_no_effect


class Upstream(Protocol):
    """Answers requests. Many may be in progress at once."""

    async def send(self, request: OutgoingRequest) -> UpstreamAnswer:
        """Send a request; the answer once its head is there. Cancelling ends the request. Raises UpstreamFailure."""

    async def close(self) -> None:
        """Close every connection."""
