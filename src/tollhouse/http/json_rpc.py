"""JSON-RPC 2.0 over HTTP, one message per request: what MCP and A2A share."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.http.endpoint import Request, Response
from tollhouse.http.hosts import OwnHosts
from tollhouse.http.request import HttpRequest
from tollhouse.http.response import fresh_json
from tollhouse.http.router import Admitted

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603

Json = dict[str, Any]


class Message(Struct, frozen=True):
    """A request, or a notification when it has no id."""

    jsonrpc: str
    method: str
    id: int | str | None = None
    params: Json = {}


class RpcError(Exception):
    """An error of JSON-RPC, with the status of its HTTP response."""

    def __init__(self, code: int, message: str, data: Any = None, *, status: int = 200) -> None:
        super().__init__(message)
        self.status = status
        self.members = {"code": code, "message": message} | ({"data": data} if data else {})


# The result of a message, None for a notification, and the call that it answers.
Answer = Callable[[Message, HttpRequest], Awaitable[tuple[Json | None, Admitted | None]]]


async def respond(rpc_request: Request[None, bytes], hosts: OwnHosts, answer: Answer, *, bad_request: int) -> Response:
    """Answer one message. A body that is no message has the status `bad_request`, other errors that of the RpcError."""
    request = rpc_request.over_http
    hosts.check_browser(request)
    identity: int | str | None = None
    try:
        message = _read(rpc_request.body, bad_request)
        identity = message.id
        result, admitted = await answer(message, request)
    except RpcError as error:
        return fresh_json({"jsonrpc": "2.0", "id": identity, "error": error.members}, error.status)
    if result is None:
        return Response(b"", status=202, cache_control="no-store")
    response = fresh_json({"jsonrpc": "2.0", "id": identity, "result": result})
    if admitted is not None and admitted.is_paid:
        response.delivered, response.undelivered = admitted.delivered, admitted.undelivered
    return response


def _read(body: bytes, bad_request: int) -> Message:
    try:
        message = msgspec.json.decode(body, type=Message)
    except msgspec.ValidationError as error:
        text = f"The body must be one JSON-RPC 2.0 message: {error}."
        raise RpcError(INVALID_REQUEST, text, status=bad_request) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, "The body is not JSON.", status=bad_request) from None
    if message.jsonrpc != "2.0":
        raise RpcError(INVALID_REQUEST, "`jsonrpc` must be `2.0`.", status=bad_request)
    return message
