"""Calls of operations that another protocol's message stands for, such as a tool call of MCP.

They go through the same admission as over HTTP, with the credentials in the headers of the message's own request.
"""

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Response
from tollhouse.http.mcp.tools import ToolRequest
from tollhouse.http.request import HttpRequest, check_head
from tollhouse.http.router import Admission, Admitted, Call, Route
from tollhouse.http.server import record_call
from tollhouse.logs import logger
from tollhouse.statistics.recorder import Recorder

log = logger("http")

Headers = Sequence[tuple[bytes, bytes]]
Rendered = TypeVar("Rendered")

# Headers that a call passes on.
_CREDENTIALS = (
    b"authorization",
    b"x-agent-address",
    b"x-agent-nonce",
    b"x-agent-signature",
    b"x-forwarded-for",
    b"host",
)


class InnerCalls:
    """Performs and records such calls."""

    def __init__(self, settings: Settings, admission: Admission, recorder: Recorder | None) -> None:
        self._settings = settings
        self._admission = admission
        self._recorder = recorder or Recorder()

    async def perform(  # noqa: PLR0913, PLR0917 - what a call is made of
        self,
        route: Route,
        sent: ToolRequest,
        outer: HttpRequest,
        render: Callable[[Admitted], Awaitable[Rendered]],
        headers: Headers = (),
        tool: str = "",
    ) -> tuple[Rendered, Admitted]:
        """What `render` makes of the response, and the call that it answers. The body of `outer` was read.

        `headers` are added to the credentials of `outer`. Raises Problem, also for any unexpected failure.
        """
        # From here on only a disconnect can follow.
        outer.watch_disconnect()
        inner, admitted, refusal, begun = _inner(route, sent, headers, outer), None, None, perf_counter()
        call = Call(self._settings, inner, route, sent.path_parameters, tool=tool)
        try:
            check_head(inner)
            admitted = await self._admission.admit(call)
            rendered = await render(admitted)
        except Problem as problem:
            refusal = problem
        except Exception:
            log.exception("unexpected failure", request_id=outer.id, path=inner.path)
            refusal = Problem("internal-error", "Internal error.")
        if refusal is not None and admitted is not None and admitted.undelivered is not None:
            admitted.undelivered()
        inner.end()
        ended, status = perf_counter(), refusal.status if refusal else 200
        address = call.address or outer.peer
        record_call(self._recorder, inner, route, call, status, refusal, address, ended - begun, ended)
        if refusal or admitted is None:
            assert refusal is not None, "a call that was not admitted raised"
            raise refusal
        return rendered, admitted


async def whole_body(response: Response) -> bytes:
    """The body of a response; a streamed one is collected first."""
    return response.body if response.stream is None else b"".join([piece async for piece in response.stream])


def _inner(route: Route, sent: ToolRequest, added: Headers, outer: HttpRequest) -> HttpRequest:
    """The HTTP request that the message stands for."""
    headers = [(name, outer.headers[name].encode("latin-1")) for name in _CREDENTIALS if name in outer.headers]
    headers += [(b"accept", b"application/json"), (b"x-request-id", outer.id.encode()), *added]
    headers += [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in sent.headers]
    if sent.body:
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(sent.body)).encode())]
    pieces = iter([{"type": "http.request", "body": sent.body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        message = next(pieces, None)
        if message is None:
            await outer.wait_for_disconnect()
        return message or {"type": "http.disconnect"}

    path = f"{route.prefix}{sent.path}"
    scope = {
        "method": route.endpoint.method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": sent.query,
        "client": (outer.peer, 0),
        "headers": headers,
    }
    return HttpRequest(scope, receive)
