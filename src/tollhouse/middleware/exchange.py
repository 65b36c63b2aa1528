"""One request to the application behind the toll, in this process: its body in, its answer out, both as they come."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request, Response
from tollhouse.http.request import HttpRequest, Receive, Scope, Send
from tollhouse.http.terms import Caller
from tollhouse.http_client.connection import Headers, RequestFailed
from tollhouse.proxy.handler import AnswerStream, ProxyRules
from tollhouse.statistics.recorder import Payment


class TollCall(Struct, frozen=True):
    """`scope["tollhouse"]`, and `request.state.tollhouse` in Starlette, FastAPI and Litestar, on routes with a toll.

    `caller` is who calls: the holder of a key, a wallet, or only a client address. `payment` is what pays for the call
    if it is answered (`plan`, `allowance`, `credit` or `x402`), and `payer` the wallet of an x402 payment, else empty.
    """

    caller: Caller | None
    payment: Payment
    payer: str
    address: str


App = Callable[[Scope, Receive, Send], Awaitable[None]]

APP_SCOPE = "tollhouse.app_scope"
FAILURE = "tollhouse.failure"

# The application's background tasks may run on after its answer.
_RUNNING: set[asyncio.Task[None]] = set()

# Statuses that count neither on an allowance nor on a plan.
_UNCOUNTED = frozenset({401, 402, 403, 407, 429})
_NO_BODY = frozenset({204, 304})
_CREDENTIALS = frozenset(
    {b"authorization", b"payment-identifier", b"payment-signature", b"sign-in-with-x", b"x-payment"}
)
_CREDENTIAL_PREFIXES = (b"x-agent-", b"tollhouse-")
# The answer is read here: the server cannot send files for the application, nor more than one head.
_NOT_EXTENDED = ("http.response.pathsend", "http.response.zerocopysend", "http.response.early_hint",
                 "http.response.push", "http.response.trailers")  # fmt: skip


class Exchange:
    """The application's answer to one request: a stream of bytes. Closing it ends an answer in progress."""

    def __init__(self, app: App, scope: Scope, received: HttpRequest) -> None:
        self._received = received
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._upload: AsyncIterator[bytes] | None = None
        self._is_whole = False
        self._is_over = False
        self.failure: Exception | None = None
        self.head: asyncio.Future[tuple[int, Headers]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(app, scope))
        _RUNNING.add(self._task)
        self._task.add_done_callback(_RUNNING.discard)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next piece. Raises RequestFailed for an answer that is not complete."""
        piece = None if self._is_over else await self._pieces.get()
        if piece is not None:
            return piece
        self._is_over = True
        if not self._is_whole:
            raise RequestFailed("cut", repr(self.failure or "the application ended before its answer"))
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the answer, unless it is complete."""
        if not self._is_whole and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, app: App, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as failure:  # noqa: BLE001 - handed to what waits for the answer
            self.failure = failure
        if not self.head.done():
            self.head.set_exception(self.failure or RuntimeError("the application ended without an answer"))
        if not self._is_whole:
            await self._pieces.put(None)
        elif self.failure is not None:
            # After a complete answer, such as in a background task: nothing waits any more.
            raise self.failure

    async def _receive(self) -> MutableMapping[str, Any]:
        upload = self._received.upload
        assert upload is not None, "the endpoint passes through"
        if self._upload is None:
            self._upload = aiter(upload)
            if upload.is_empty:
                return {"type": "http.request", "body": b"", "more_body": False}
        elif upload.is_empty:
            return await self._disconnect()
        try:
            return {"type": "http.request", "body": await anext(self._upload), "more_body": upload.whole is None}
        except StopAsyncIteration:
            return await self._disconnect()

    async def _disconnect(self) -> MutableMapping[str, Any]:
        await self._received.wait_for_disconnect()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [(bytes(name).lower(), bytes(value)) for name, value in message.get("headers", ())]
            if not self.head.done():
                self.head.set_result((message["status"], headers))
        elif message["type"] == "http.response.body" and not self._is_whole:
            body = bytes(message.get("body", b""))
            if body:
                await self._pieces.put(body)
            if not message.get("more_body", False):
                self._is_whole = True
                await self._pieces.put(None)


class Application:
    """The application behind the toll. `handle` is the handler of its tolled routes."""

    def __init__(self, app: App, name: str, body_limit_bytes: int) -> None:
        self.body_limit_bytes = body_limit_bytes
        self.document: dict[str, Any] = {}
        """Its OpenAPI document with the prices, if it has one."""
        self._app = app
        # Its own pauses are its own affair.
        self._rules = ProxyRules(name=name, pause_seconds=86_400.0)

    async def handle(self, request: Request[Any, Any]) -> Response:
        """Its answer: whole where it is short, else with its stream. Raises what the application raises."""
        received = request.over_http
        exchange = Exchange(self._app, _app_scope(request, received), received)
        stream = AnswerStream(exchange, self._rules, lambda: None, _cut)
        try:
            status, headers = await exchange.head
            fields = dict(headers)
            length = int(declared) if (declared := fields.get(b"content-length", b"")).isdigit() else None
            media_type = fields.get(b"content-type", b"").decode("latin-1")
            has_no_body = received.method == "HEAD" or status in _NO_BODY
            is_long = (length or 0) > self._rules.buffer_bytes or media_type.lower().startswith("text/event-stream")
            whole = None if has_no_body or is_long else await stream.read_ahead(is_open=length is None)
        except BaseException:
            await stream.aclose()
            received.scope[FAILURE] = exchange.failure
            raise
        keeps_length = has_no_body or whole is None
        passed = tuple(one for one in headers if keeps_length or one[0] != b"content-length")
        response = Response(
            whole or b"", media_type, headers=passed, status=status,
            is_free=status >= 500 or status in _UNCOUNTED, passes_through=True,
        )  # fmt: skip
        if whole is not None:
            await stream.aclose()
        elif not has_no_body:
            response.stream, response.stream_length = stream, length
        return response


def _app_scope(request: Request[Any, Any], received: HttpRequest) -> Scope:
    """The scope as it came, without credentials for the toll, and with what the toll knows about the call."""
    scope: Scope = received.scope[APP_SCOPE]
    call = TollCall(request.caller, request.payment, request.payer, request.address)
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if name not in _CREDENTIALS and not name.startswith(_CREDENTIAL_PREFIXES)
    ]
    extensions = {name: one for name, one in (scope.get("extensions") or {}).items() if name not in _NOT_EXTENDED}
    state = {**(scope.get("state") or {}), "tollhouse": call}
    return {**scope, "headers": headers, "extensions": extensions, "state": state, "tollhouse": call}


def _cut(_failure: RequestFailed) -> Problem:
    return Problem("internal-error", "The answer broke off. The operator can find the reason in the log.")
