"""`POST /mcp`: the Model Context Protocol over streamable HTTP, without sessions, in its old and its new form.

Revisions up to 2025-11-25 begin with a handshake, 2026-07-28 asks `server/discover`; both are answered here, each
message by itself. A tool's call goes through the same admission as the operation over HTTP, with the same credentials
in the same headers; a payment comes in `_meta["x402/payment"]`.
"""

import contextlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec

from tollhouse import __version__, tracing
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.host_openapi import operation_name
from tollhouse.http.hosts import OwnHosts
from tollhouse.http.inner_calls import Headers, InnerCalls, whole_body
from tollhouse.http.json_rpc import INVALID_PARAMS, METHOD_NOT_FOUND, Json, Message, RpcError, respond
from tollhouse.http.mcp import tools
from tollhouse.http.request import HttpRequest
from tollhouse.http.response import render_problem
from tollhouse.http.router import Admitted, Route
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSION = "2026-07-28"
CACHED_MS = 300_000

UNSUPPORTED_VERSION = -32022

PAYMENT, PAYMENT_RESPONSE = "x402/payment", "x402/payment-response"


def tool_routes(mounted: Sequence[tuple[Service, str]]) -> dict[str, Route]:
    """The tools of services by name, each with its route. A service under a prefix has its name before its tools'."""
    is_one = len(mounted) == 1
    return {
        each.id if is_one else operation_name(service.name, prefix, each.id): Route(service, each, prefix)
        for service, prefix in mounted
        for each in service.endpoints
        if each.is_tool
    }


class McpEndpoint:
    """The tools of `routes` by their names. `server` is what the endpoint calls itself."""

    def __init__(self, calls: InnerCalls, hosts: OwnHosts, server: Service, routes: Mapping[str, Route]) -> None:
        self._calls = calls
        self._hosts = hosts
        self._server = server
        self._routes = routes
        self._tools = [
            {**tools.describe_tool(route.endpoint, route.service.schemas), "name": name}
            for name, route in routes.items()
        ]

    def endpoint(self) -> Endpoint:
        return Endpoint("mcp", "POST", "/mcp", "Model Context Protocol", self.handle, FREE, takes_bytes=True,
                         responses={"application/json": {}}, is_described=False)  # fmt: skip

    async def handle(self, rpc_request: Request[None, bytes]) -> Response:
        return await respond(rpc_request, self._hosts, self._result, bad_request=HTTPStatus.BAD_REQUEST)

    async def _result(self, message: Message, request: HttpRequest) -> tuple[Json | None, Admitted | None]:
        """The result, None for a notification, and the call that it answers."""
        _check_version(request)
        if message.id is None:
            return None, None
        match message.method:
            case "initialize":
                return self._initialized(message.params), None
            case "server/discover":
                return self._discovered(), None
            case "ping":
                return {}, None
            case "tools/list":
                return {"tools": self._tools, **_CACHEABLE}, None
            case "tools/call":
                with tracing.span("tool call"):
                    return await self._called(message.params, request)
        raise RpcError(METHOD_NOT_FOUND, f"Unknown method {message.method[:100]!r}.")

    def _initialized(self, params: Json) -> Json:
        requested = params.get("protocolVersion")
        version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {"protocolVersion": version, "serverInfo": self._identity(), **self._abilities()}

    def _discovered(self) -> Json:
        return {
            "supportedVersions": [*HANDSHAKE_VERSIONS, STATELESS_VERSION],
            "_meta": {"io.modelcontextprotocol/serverInfo": self._identity()},
            **self._abilities(),
            **_CACHEABLE,
        }

    def _identity(self) -> Json:
        return {"name": f"tollhouse-{self._server.name}", "title": self._server.title, "version": __version__}

    def _abilities(self) -> Json:
        return {"capabilities": {"tools": {"listChanged": False}}, "instructions": self._server.description}

    async def _called(self, params: Json, request: HttpRequest) -> tuple[Json, Admitted | None]:
        route = self._routes.get(str(params.get("name")))
        arguments, meta = params.get("arguments", {}), params.get("_meta", {})
        if route is None:
            raise RpcError(INVALID_PARAMS, "Unknown tool. Call tools/list for the names.")
        if not isinstance(arguments, dict) or not isinstance(meta, dict):
            raise RpcError(INVALID_PARAMS, "`arguments` and `_meta` must be objects.")
        try:
            tool_request = tools.build_request(route.endpoint, arguments)
        except ValueError as error:
            raise RpcError(INVALID_PARAMS, f"{error}.") from None
        try:
            result, admitted = await self._calls.perform(
                route, tool_request, request, _succeeded, _payment(meta), str(params["name"])
            )
        except Problem as problem:
            return _failed(problem, request.id), None
        return result, admitted


_CACHEABLE: Json = {"resultType": "complete", "ttlMs": CACHED_MS, "cacheScope": "public"}


def _check_version(request: HttpRequest) -> None:
    version = request.header(b"mcp-protocol-version")
    supported = [*HANDSHAKE_VERSIONS, STATELESS_VERSION]
    if version and version not in supported:
        details = {"supported": supported, "requested": version[:50]}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version.", details, status=HTTPStatus.BAD_REQUEST)


def _payment(meta: Json) -> Headers:
    """The header of the payment that came with the message."""
    payment = meta.get(PAYMENT)
    if payment is None:
        return []
    is_first = isinstance(payment, dict) and payment.get("x402Version") == 1
    return [(b"x-payment" if is_first else b"payment-signature", b64encode(msgspec.json.encode(payment)))]


async def _succeeded(admitted: Admitted) -> Json:
    """The result of a call; a streamed response is collected first."""
    answer = admitted.response
    body = await whole_body(answer)
    result: Json = {
        "content": [_content(body, answer.media_type)],
        "isError": answer.status >= HTTPStatus.BAD_REQUEST,
        "resultType": "complete",
    }
    if answer.media_type.partition(";")[0].strip() == "application/json":
        # What a proxied API calls JSON may be something else.
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            structured = msgspec.json.decode(body)
            result |= {"structuredContent": structured} if isinstance(structured, dict) else {}
    for name, value in answer.headers:
        if name in {b"payment-response", b"x-payment-response"}:
            result["_meta"] = {PAYMENT_RESPONSE: msgspec.json.decode(b64decode(value))}
    return result


def _content(body: bytes, media_type: str) -> Json:
    """A text, or the bytes of an answer that is none."""
    try:
        return {"type": "text", "text": body.decode()}
    except UnicodeDecodeError:
        blob = {"uri": "tollhouse:answer", "mimeType": media_type, "blob": b64encode(body).decode()}
        return {"type": "resource", "resource": blob}


def _failed(problem: Problem, request_id: str) -> Json:
    """The problem, or the payment challenge of a 402."""
    body = render_problem(problem, request_id).body
    for name, value in problem.headers.items():
        if name.upper() == "PAYMENT-REQUIRED":
            with contextlib.suppress(ValueError):
                body = b64decode(value)
    return {
        "content": [{"type": "text", "text": body.decode()}],
        "structuredContent": msgspec.json.decode(body),
        "isError": True,
        "resultType": "complete",
    }
