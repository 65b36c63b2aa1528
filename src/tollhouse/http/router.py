"""Routing: finds the endpoint of a path and method, and calls its handler."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from tollhouse import tracing
from tollhouse.caller import Caller, VisitorCaller
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem, missing_credentials
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.request import HttpRequest, check_content_encoding, receive_body
from tollhouse.http.request_parser import parse_body, parse_query
from tollhouse.http.response import compute_etag, negotiate_media_type
from tollhouse.http.service import Service
from tollhouse.statistics.recorder import Payment

_PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint mounted under `prefix`, which is empty at the root."""

    service: Service
    endpoint: Endpoint
    prefix: str


Methods = dict[str, Route]


ErrorPage = Callable[[Problem, HttpRequest, Route | None], Response]


class Router:
    """The routes of one host. `error_page`, if it is set, renders a problem for a browser that opens a page."""

    def __init__(self) -> None:
        self.error_page: ErrorPage | None = None
        self._literal: dict[str, Methods] = {}
        self._patterns: list[tuple[re.Pattern[str], Methods]] = []
        self._templates: dict[str, Methods] = {}

    def mount(self, service: Service, prefix: str) -> None:
        """Mount a service's endpoints under `prefix` (empty for the root)."""
        for endpoint in service.endpoints:
            self.add(service, endpoint, prefix)

    def add(self, service: Service, endpoint: Endpoint, prefix: str) -> None:
        """Add one endpoint, which counts as the service's."""
        self._methods(prefix + endpoint.path)[endpoint.method] = Route(service, endpoint, prefix)

    def find(self, request: HttpRequest) -> tuple[Route, dict[str, str]]:
        """The route and its path parameters. Raises Problem `not-found` or `method-not-allowed`."""
        return self.match("GET" if request.method == "HEAD" else request.method, request.path)

    def match(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route of a method and path. Raises Problem `not-found` or `method-not-allowed`."""
        methods, parameters = self._at(path)
        route = methods.get(method)
        if route is None:
            allowed = allowed_methods(methods)
            raise Problem(
                "method-not-allowed",
                f"{method} is not allowed on this path. Allowed: {', '.join(allowed)}.",
                headers={"Allow": ", ".join(allowed)},
                allowed=allowed,
            )
        return route, parameters

    def routes(self, path: str) -> Mapping[str, Route]:
        """The routes of a path by method. Raises Problem `not-found`."""
        return self._at(path)[0]

    def literal_paths(self) -> list[str]:
        """The paths without parameters that GET answers."""
        return [path for path, methods in self._literal.items() if "GET" in methods]

    def _methods(self, template: str) -> Methods:
        if "{" not in template:
            return self._literal.setdefault(template, {})
        if template not in self._templates:
            pattern = "".join(
                rf"(?P<{part}>[^/\x00-\x1f]{{1,200}})" if index % 2 else re.escape(part)
                for index, part in enumerate(_PARAMETER.split(template))
            )
            self._templates[template] = {}
            self._patterns.append((re.compile(pattern), self._templates[template]))
        return self._templates[template]

    def _at(self, path: str) -> tuple[Methods, dict[str, str]]:
        literal = self._literal.get(path)
        if literal is not None:
            return literal, {}
        for pattern, methods in self._patterns:
            match = pattern.fullmatch(path)
            if match:
                return methods, match.groupdict()
        raise Problem("not-found", "No endpoint at this path.")


def allowed_methods(methods: Mapping[str, Route]) -> list[str]:
    """The value of `Allow`: GET implies HEAD, and OPTIONS always works."""
    return sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])})


class Call:
    """A request with its route, and what admission finds out about it: who calls from where, and what is paid."""

    __slots__ = (
        "_body",
        "_parameters",
        "_settings",
        "address",
        "caller",
        "charged_micros",
        "payment",
        "request",
        "route",
    )

    def __init__(self, settings: Settings, request: HttpRequest, route: Route, parameters: dict[str, str]) -> None:
        self._settings = settings
        self._parameters = parameters
        self._body: bytes | None = None
        self.request = request
        self.route = route
        self.address = ""
        self.caller: Caller | None = None
        self.payment: Payment = ""
        self.charged_micros = 0

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the call."""
        return self.route.endpoint

    @property
    def path(self) -> str:
        """The path without the prefix of the service."""
        return self.request.path[len(self.route.prefix) :]

    async def body(self) -> bytes:
        """The whole body, read once; empty where the endpoint takes none."""
        if self._body is None:
            limit, deadline = self._settings.body_limit_bytes, self._settings.request_deadline_seconds
            has_body = self.endpoint.body is not None or self.endpoint.takes_bytes
            if has_body:
                check_content_encoding(self.request)
            self._body = await receive_body(self.request, limit, deadline) if has_body else b""
        return self._body

    async def handle(self, caller: Caller, address: str) -> Response:
        """Parse the request and run the handler. Raises Problem."""
        endpoint, request = self.endpoint, self.request
        query = parse_query(request.query, endpoint.query)
        media_type = negotiate_media_type(endpoint, request.header(b"accept"), getattr(query, "format", None))
        if isinstance(caller, VisitorCaller) and media_type not in endpoint.visit_types:
            raise missing_credentials(
                f"The pages of this server read {', '.join(endpoint.visit_types)} here. {media_type} requires an API "
                "key: create one with POST /api/keys/create."
            )
        body: Any = await self.body()
        if endpoint.body is not None and not endpoint.takes_bytes:
            body = parse_body(body, request.header(b"content-type"), endpoint.body)
        parsed = Request(query, body, self._parameters, caller, address, media_type, request)
        if tracing.is_on():
            with tracing.span("handler"):
                result = await endpoint.handler(parsed)
        else:
            result = await endpoint.handler(parsed)
        return result if isinstance(result, Response) else _encoded(result, endpoint)


def _encoded(result: Struct, endpoint: Endpoint) -> Response:
    body = msgspec.json.encode(result)
    if endpoint.method != "GET":
        return Response(body, cache_control="no-store")
    return Response(body, etag=compute_etag(body))


@dataclass(frozen=True, slots=True)
class Admitted:
    """The response to a call, the headers about the caller's plan, and what to call once it was wholly sent or not."""

    response: Response
    usage: list[tuple[bytes, bytes]] = field(default_factory=list)
    delivered: Callable[[], None] | None = None
    undelivered: Callable[[], None] | None = None

    @property
    def is_paid(self) -> bool:
        """Whether money was taken for this response."""
        return self.delivered is not None


class Admission(Protocol):
    """Decides who may call an endpoint and on which terms."""

    async def admit(self, call: Call) -> Admitted:
        """Handle the call of a caller who may make it. Raises Problem, with the usage headers on it."""
