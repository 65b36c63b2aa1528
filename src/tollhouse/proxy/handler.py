"""The handler of proxied endpoints: passes a request to an upstream and its answer back."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import ByteStream, Request, Response
from tollhouse.http.request import HttpRequest, Upload
from tollhouse.http_client.connection import RequestFailed
from tollhouse.logs import logger
from tollhouse.proxy.caller_header import CallerSigner
from tollhouse.proxy.circuit_breaker import CircuitBreaker
from tollhouse.proxy.headers import CALLER, forwarded, returned, rewritten
from tollhouse.proxy.upstream import OutgoingRequest, Upstream, UpstreamAnswer

log = logger("proxy")

WATCH_AFTER_SECONDS = 0.05
"""An answer that comes sooner is not worth a look whether the client is still there."""
BUFFER_SECONDS = 0.25
"""How long an answer without a length is read before what there is of it is passed on."""

SMALL_BODY_BYTES = 65_536
"""Bodies of this length are read before they are passed on."""

_REFUSES_US = frozenset({401, 402, 407})
"""Statuses that are about this server's credentials at the upstream, not about the caller's."""
_UNCOUNTED = frozenset({403, 429})
_NO_BODY = frozenset({204, 304})
_DOTS = re.compile(rb"(?:^|[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/\\;]|%2f|%5c|%3b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRules:
    """What is declared for an upstream. Times are in seconds, sizes in bytes.

    `name` is the service's. `set_headers` (names in lower case) replace what the client sends under those
    names. `answer_seconds`: until the head of an answer, from the end of the request. `pause_seconds`: between two
    pieces of an answer. `total_seconds`: until the end of an answer; None for no limit. An answer that has more than
    `buffer_bytes` is passed on as it comes. `caller_key` signs `Tollhouse-Caller`; empty for no such header. With
    `passes_authentication` the upstream's own 401, 402 and 407 are passed on, which otherwise are a 502: the caller
    cannot mend credentials of this server. `passes_cookies`: `Cookie` and `Set-Cookie` are passed on.
    """

    name: str
    set_headers: tuple[tuple[bytes, bytes], ...] = ()
    answer_seconds: float = 30.0
    pause_seconds: float = 60.0
    total_seconds: float | None = None
    buffer_bytes: int = 1_048_576
    caller_key: bytes = b""
    passes_authentication: bool = False
    passes_cookies: bool = False


class Proxy:
    """Passes requests on to one upstream. `handle` is the handler of endpoints that pass through."""

    def __init__(
        self, upstream: Upstream, rules: ProxyRules, settings: Settings, breaker: CircuitBreaker | None = None
    ) -> None:
        self._upstream = upstream
        self._rules = rules
        self._trusted = settings.trusted_networks()
        self._breaker = breaker or CircuitBreaker(rules.name)
        self._waits = Waits()
        issuer = settings.public_url.rstrip("/") or "tollhouse"
        self._signer = CallerSigner(rules.caller_key, rules.name, issuer) if rules.caller_key else None

    async def close(self) -> None:
        await self._upstream.close()

    async def handle(self, request: Request[Any, Any]) -> Response:
        """The upstream's answer: whole where it is short, else with its stream, which raises a Problem when it breaks.

        Raises Problem `upstream-unavailable`, `upstream-timeout`, `upstream-suspended`, and those of the upload.
        """
        received = request.over_http
        assert received.upload is not None, "the endpoint passes through"
        self._breaker.check()
        upload = received.upload
        if upload.length and upload.length <= SMALL_BODY_BYTES and b"expect" not in received.headers:
            # One write instead of a task that waits for pieces; and it can be sent again.
            await upload.peek(upload.length)
        outgoing = self._outgoing(request, received, upload)
        try:
            answer = await self._send(outgoing, received, upload)
        except RequestFailed as failure:
            raise self._failed(failure, received) from None
        if answer.status in _REFUSES_US and not self._rules.passes_authentication:
            await answer.body.aclose()
            self._breaker.succeed()
            log.warning("upstream refused this server", upstream=self._rules.name, status=answer.status)
            raise Problem(
                "upstream-unavailable",
                "The upstream refused this server's credentials. The operator can find this in the log.",
                upstream=self._rules.name,
            )
        return await self._response(answer, request, received)

    def _outgoing(self, request: Request[Any, Any], received: HttpRequest, upload: Upload) -> OutgoingRequest:
        """Raises Problem `invalid-request` for a path that leaves the upstream's."""
        path = received.raw_path
        if request.prefix:
            # As many segments as the prefix has, however they are encoded.
            below = path.split(b"/", request.prefix.count("/") + 1)
            path = b"/" + below[-1] if len(below) > request.prefix.count("/") + 1 else b"/"
        if (b"." in path or b"%2" in path) and _DOTS.search(path):
            raise Problem("invalid-request", "A path must not have `.` or `..` as a segment.")
        added = self._rules.set_headers
        if self._signer is not None:
            added = (*added, (CALLER, self._signer.sign(request, received.id)))
        headers = forwarded(received, request.prefix, added, self._trusted, passes_cookies=self._rules.passes_cookies)
        body: bytes | AsyncIterator[bytes] | None = None
        if not upload.is_empty:
            body = upload if (whole := upload.whole) is None else whole
            if whole is None and b"expect" in received.headers:
                headers.append((b"expect", b"100-continue"))
        length = len(body) if isinstance(body, bytes) else upload.length
        return OutgoingRequest(received.method, path, received.query, headers, body, length, received)

    async def _send(self, outgoing: OutgoingRequest, received: HttpRequest, upload: Upload) -> UpstreamAnswer:
        """The answer, unless it comes too late or the client leaves. Raises RequestFailed, Problem."""
        seconds = self._rules.answer_seconds
        try:
            with AnswerWait(self._waits, received, seconds) as waiting:
                upload.on_progress = waiting.begin
                return await self._upstream.send(outgoing)
        except TimeoutError:
            if received.is_disconnected():
                raise Problem("invalid-request", "The connection closed before the answer.") from None
            raise RequestFailed("timeout", f"no answer within {seconds:g} s") from None
        finally:
            upload.on_progress = None

    async def _response(self, answer: UpstreamAnswer, request: Request[Any, Any], received: HttpRequest) -> Response:
        """The whole answer if it is short and comes at once, else its stream. Raises Problem."""
        rules, status = self._rules, answer.status
        fields = dict(answer.headers)
        declared = fields.get(b"content-length", b"")
        length = int(declared) if declared.isdigit() else None
        media_type = fields.get(b"content-type", b"").decode("latin-1")
        has_no_body = received.method == "HEAD" or status in _NO_BODY
        whole, stream = b"" if has_no_body else answer.whole, None
        if whole is None:
            stream = AnswerStream(answer.body, rules, self._breaker.succeed, partial(self._failed, received=received))
            is_long = (length or 0) > rules.buffer_bytes or media_type.lower().startswith("text/event-stream")
            whole = None if is_long else await stream.read_ahead(is_open=length is None)
        elif answer.whole is None:
            await answer.body.aclose()
        keeps_length = has_no_body or whole is None
        headers = returned(answer.headers, keeps_length=keeps_length, passes_cookies=rules.passes_cookies)
        if b"location" in fields or b"content-location" in fields:
            headers = rewritten(headers, self._upstream.url, received.root_path + request.prefix)
        response = Response(
            whole or b"",
            media_type,
            headers=tuple(headers),
            status=status,
            is_free=status >= 500 or status in _UNCOUNTED,
            passes_through=True,
        )
        if whole is None:
            response.stream, response.stream_length = stream, length
        else:
            self._breaker.succeed()
        return response

    def _failed(self, failure: RequestFailed, received: HttpRequest) -> Problem:
        """Count and log a failure; the problem for the caller."""
        self._breaker.fail()
        name = self._rules.name
        log.warning("upstream failed", upstream=name, kind=failure.kind, cause=str(failure), request_id=received.id)
        if failure.kind == "timeout":
            return Problem("upstream-timeout", "The upstream did not answer in time.", upstream=name)
        detail = {
            "unreachable": "The upstream cannot be reached.",
            "tls": "The upstream cannot be reached over TLS.",
            "cut": "The upstream closed the connection before its answer was complete.",
            "invalid": "The upstream's answer is not valid HTTP.",
        }[failure.kind]
        return Problem("upstream-unavailable", detail, upstream=name)


class Waits:
    """The waits in progress. One timer looks after all of them: most end before one of their own would be worth it."""

    def __init__(self) -> None:
        self._waits: set[AnswerWait] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wait: "AnswerWait") -> None:
        """Look after it until it is removed."""
        self._waits.add(wait)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, self._poll)

    def remove(self, wait: "AnswerWait") -> None:
        self._waits.discard(wait)

    def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for wait in list(self._waits):
            wait.poll(now)
        self._timer = loop.call_later(WATCH_AFTER_SECONDS, self._poll) if self._waits else None


class AnswerWait:
    """Cancels what this task awaits when the client leaves, or when the time is over; then raises TimeoutError."""

    def __init__(self, waits: Waits, received: HttpRequest, seconds: float) -> None:
        self._waits = waits
        self._received = received
        self._seconds = seconds
        self._task = asyncio.current_task()
        self._is_watching = self._has_ended = self._is_over = False

    def __enter__(self) -> Self:
        self.begin()
        self._waits.add(self)
        return self

    def begin(self) -> None:
        self._ends_at = asyncio.get_running_loop().time() + self._seconds

    def poll(self, now: float) -> None:
        """End it if its time is over; watch the client from now on."""
        if now >= self._ends_at:
            self._end()
        elif not self._is_watching:
            self._is_watching = True
            self._received.call_on_disconnect(self._end)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over = True
        self._waits.remove(self)
        is_ours = self._has_ended and self._task is not None and self._task.uncancel() == 0
        if is_ours and kind is asyncio.CancelledError:
            raise TimeoutError

    def _end(self) -> None:
        if self._task is not None and not self._is_over and not self._has_ended:
            self._has_ended = True
            self._task.cancel()


class AnswerStream:
    """The pieces of an answer, each within the time for it. Raises Problem when the answer is cut."""

    def __init__(
        self,
        body: ByteStream,
        rules: ProxyRules,
        succeed: Callable[[], None],
        problem_of: Callable[[RequestFailed], Problem],
    ) -> None:
        self._body = body
        self._rules = rules
        self._succeed = succeed
        self._problem_of = problem_of
        self._ahead: deque[bytes] | None = None
        self._next: asyncio.Task[bytes] | None = None
        total, loop = rules.total_seconds, asyncio.get_running_loop()
        self._ends_at = None if total is None else loop.time() + total

    async def read_ahead(self, *, is_open: bool) -> bytes | None:
        """The whole answer if it arrives within the buffer, and soon where it `is_open`; else None. Raises Problem."""
        size, limit = 0, self._rules.buffer_bytes
        ahead = self._ahead = deque()
        until = asyncio.get_running_loop().time() + BUFFER_SECONDS
        try:
            while size <= limit:
                if is_open and not await self._has_next(until):
                    return None
                piece = await self._piece()
                size += len(piece)
                ahead.append(piece)
        except StopAsyncIteration:
            return b"".join(ahead)
        except BaseException:
            await self.aclose()
            raise
        return None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next piece. Raises Problem `upstream-unavailable`, `upstream-timeout`."""
        if self._ahead:
            return self._ahead.popleft()
        return await self._piece()

    async def aclose(self) -> None:
        """End the request at the upstream, unless its answer has ended."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._body.aclose()

    async def _has_next(self, until: float) -> bool:
        """Whether there is a piece, or the end, at that time."""
        self._next = asyncio.ensure_future(self._body.__anext__())
        await asyncio.wait({self._next}, timeout=max(0.0, until - asyncio.get_running_loop().time()))
        return self._next.done()

    async def _piece(self) -> bytes:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._rules.pause_seconds
        if self._ends_at is not None:
            deadline = min(deadline, self._ends_at)
        try:
            async with asyncio.timeout_at(deadline):
                waiting, self._next = self._next, None
                piece = await (self._body.__anext__() if waiting is None else waiting)
        except StopAsyncIteration:
            self._succeed()
            raise
        except TimeoutError:
            raise self._problem_of(RequestFailed("timeout", "the answer paused too long")) from None
        except RequestFailed as failure:
            raise self._problem_of(failure) from None
        return piece
