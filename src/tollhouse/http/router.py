"""Routing: finds the endpoint of a path and method, and calls its handler."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tollhouse import tracing
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem, missing_credentials
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.request import ADDRESS_LIMIT_BYTES, HttpRequest, Upload, check_content_encoding, receive_body
from tollhouse.http.request_parser import parse_body, parse_query
from tollhouse.http.response import fresh_json, json_response, negotiate_media_type
from tollhouse.http.service import Service
from tollhouse.http.terms import Caller, VisitorCaller
from tollhouse.logs import logger
from tollhouse.statistics.recorder import Payment

log = logger("http")

_PARAMETER = re.compile(r"\{(\w+(?::path)?)\}")


COMPARED_BODY_BYTES = 1_048_576
"""How much of a body that is passed on is read before it is paid for, and must be the same when it is sent again."""


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint mounted under `prefix`, which is empty at the root."""

    service: Service
    endpoint: Endpoint
    prefix: str


Methods = dict[str, Route]


ErrorPage = Callable[[Problem, HttpRequest, Route | None], Response]


LITERAL, PATTERN = 2, 1
"""How exactly a template names a path: by itself, with parameters; `{rest:path}` with what lies below it, 0."""


class _Template:
    """A path with parameters, which ends in `{name:path}` where everything below belongs to it."""

    def __init__(self, text: str) -> None:
        *_, last = parts = _PARAMETER.split(text)
        self.is_open = len(parts) > 1 and parts[-2].endswith(":path")
        if ":path}" in text and (last or text.count(":path}") > 1 or not self.is_open):
            raise ValueError(f"`{{name:path}}` stands at the end of a path: {text}")
        self.depth = len(parts[0])
        self.parameters = tuple("{" in segment for segment in text.split("/"))
        self.methods: Methods = {}
        pattern = "".join(_group(part) if index % 2 else re.escape(part) for index, part in enumerate(parts))
        self.match = re.compile(pattern).fullmatch
        self.match_loosely = re.compile(pattern, re.IGNORECASE).fullmatch


def _group(name: str) -> str:
    # Any length: what a template would not match may reach, cheaper, what takes everything below.
    length = r"[^\x00-\x1f]*" if name.endswith(":path") else r"[^/\x00-\x1f]+"
    return f"(?P<{name.partition(':')[0]}>{length})"


class Router:
    """The routes of one host. `error_page`, if it is set, renders a problem for a browser that opens a page."""

    def __init__(self) -> None:
        self.error_page: ErrorPage | None = None
        self._is_lower = True
        self._literal: dict[str, Methods] = {}
        self._loosely: dict[str, Methods] = {}
        self._patterns: list[_Template] = []
        self._templates: dict[str, _Template] = {}

    def mount(self, service: Service, prefix: str) -> None:
        """Mount a service's endpoints under `prefix` (empty for the root)."""
        for endpoint in service.endpoints:
            self.add(service, endpoint, prefix)

    def add(self, service: Service, endpoint: Endpoint, prefix: str) -> None:
        """Add one endpoint, which counts as the service's. Raises ValueError for a template that is not one."""
        template = prefix + endpoint.path
        self._is_lower = self._is_lower and template == template.lower()
        route = Route(service, endpoint, prefix)
        methods = self._methods(template)
        if (replaced := methods.get(endpoint.method)) is not None and replaced.endpoint.passes_through:
            log.warning("operation not served: its path is this server's own", method=endpoint.method, path=template)
        methods[endpoint.method] = route
        if "{" not in template:
            self._loosely.setdefault(_loose(template), {})[endpoint.method] = route

    def find(self, request: HttpRequest) -> tuple[Route, dict[str, str]]:
        """The route and its path parameters. Raises Problem `not-found` or `method-not-allowed`."""
        return self.match(request.method, request.path)

    def match(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route of a method and path, for HEAD that of GET where it has none of its own.

        Raises Problem `not-found`, `method-not-allowed`, or `invalid-request` for a path that an upstream may take for
        another one.
        """
        result = self._search(path, method)
        if result is None:
            allowed = allowed_methods(self.routes(path))
            raise Problem(
                "method-not-allowed",
                f"{method} is not allowed on this path. Allowed: {', '.join(allowed)}.",
                headers={"Allow": ", ".join(allowed)},
                allowed=allowed,
            )
        route, parameters, exactness = result
        if route.endpoint.passes_through and exactness < LITERAL:
            self._check_exactness(route, exactness, method, path)
        return route, parameters

    def routes(self, path: str) -> Mapping[str, Route]:
        """The routes of a path by method. Raises Problem `not-found`."""
        methods = dict(self._literal.get(path, {}))
        for template in self._patterns:
            if template.match(path):
                methods = template.methods | methods
                if not template.is_open:
                    break
        if not methods:
            raise Problem("not-found", "No endpoint at this path.")
        return methods

    def literal_paths(self) -> list[str]:
        """The paths without parameters that GET answers."""
        return [path for path, methods in self._literal.items() if "GET" in methods]

    def _methods(self, template: str) -> Methods:
        if "{" not in template:
            return self._literal.setdefault(template, {})
        if template not in self._templates:
            added = self._templates[template] = _Template(template)
            self._patterns.append(added)
            # A name precedes a parameter. What takes everything below comes last, the deepest of those first.
            self._patterns.sort(key=lambda one: (one.is_open, (-one.depth,) if one.is_open else one.parameters))
        return self._templates[template].methods

    def _search(self, path: str, method: str) -> tuple[Route, dict[str, str], int] | None:
        """The route, its parameters and how exactly it names the path; None where no method of the path fits."""
        methods = self._literal.get(path)
        if methods is not None and (route := _of(methods, method)) is not None:
            return route, {}, LITERAL
        for template in self._patterns:
            # A method that a path does not have may belong to what takes everything below a shorter one.
            if methods is not None and not template.is_open:
                continue
            match = template.match(path)
            if match:
                methods = template.methods
                if (route := _of(methods, method)) is not None:
                    return route, match.groupdict(), _exactness(template)
        return None

    def _check_exactness(self, route: Route, exactness: int, method: str, path: str) -> None:
        """Refuse a path that differs from that of another route only by what servers overlook.

        Many take `/Paid`, `//paid`, `/paid/`, `/paid;a` and `/%70aid%2F` for `/paid`, which may cost more than what is
        below `/`, or may not be offered at all.
        """
        if self._is_lower and _PLAIN.fullmatch(path):
            return
        loose = _loose(path)
        other = _of(self._loosely.get(loose, {}), method)
        if other is None:
            matching = (one for one in self._patterns if _exactness(one) > exactness and one.match_loosely(loose))
            other = next((near for one in matching if (near := _of(one.methods, method))), None)
        if other is not None and _offer(other) != _offer(route):
            raise Problem(
                "invalid-request",
                f"Send the path as it is declared: {other.prefix}{other.endpoint.path}.",
                allowed=[other.prefix + other.endpoint.path],
            )


def _exactness(template: _Template) -> int:
    return template.depth - ADDRESS_LIMIT_BYTES if template.is_open else PATTERN


def _of(methods: Mapping[str, Route], method: str) -> Route | None:
    route = methods.get(method)
    return methods.get("GET") if route is None and method == "HEAD" else route


_PLAIN = re.compile(r"(?:/[a-z0-9._~-]+)+")
"""Paths in which servers overlook nothing."""
_SLASHES = re.compile(r"(?:/|\\|%2f|%5c)+", re.IGNORECASE)
_SEGMENT_PARAMETERS = re.compile(r";[^/]*")


def _loose(path: str) -> str:
    """The path without what servers overlook: case, repeated and encoded slashes, one at the end, `;` in a segment."""
    segments = _SEGMENT_PARAMETERS.sub("", _SLASHES.sub("/", path))
    return _SLASHES.sub("/", segments).rstrip("/").lower()


def _offer(route: Route) -> tuple[object, object]:
    """What a call of the route costs, and what answers it."""
    return route.endpoint.terms, route.endpoint.handler


def allowed_methods(methods: Mapping[str, Route]) -> list[str]:
    """The value of `Allow`: GET implies HEAD, and OPTIONS always works."""
    return sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])})


class Call:
    """A request with its route, and what admission finds out about it: who calls from where, and what is paid.

    `paying` is what pays for it if it is answered, and `payment` what did; `payer` is the wallet of an x402 payment.
    `tool` is the name of the MCP tool that was called; empty for a call over HTTP.
    """

    __slots__ = (
        "_body",
        "_parameters",
        "_parsed",
        "_price_micros",
        "_settings",
        "address",
        "caller",
        "charged_micros",
        "endpoint",
        "payer",
        "paying",
        "payment",
        "request",
        "route",
        "tool",
    )

    def __init__(
        self, settings: Settings, request: HttpRequest, route: Route, parameters: dict[str, str], *, tool: str = ""
    ) -> None:
        self._settings = settings
        self._parameters = parameters
        self._body: bytes | None = None
        self._parsed: tuple[Any, Any, str] | None = None
        self._price_micros: int | None = None
        self.request = request
        self.route = route
        self.endpoint = route.endpoint
        self.tool = tool
        self.address = ""
        self.caller: Caller | None = None
        self.payment: Payment = ""
        self.charged_micros = 0
        self.paying: Payment = ""
        self.payer = ""

    @property
    def path(self) -> str:
        """The path of the operation, without the prefix of the service."""
        return self.request.path[len(self.prefix) :]

    @property
    def prefix(self) -> str:
        """What stands before the path of the operation: where its service is, and how the call is paid for."""
        return self.route.prefix + self.endpoint.paid_prefix

    async def body(self) -> bytes:
        """The whole body, read once; empty where the endpoint takes none. Of one that is passed on, the beginning."""
        if self._body is None and self.endpoint.passes_through:
            self._body = await self._upload().peek(COMPARED_BODY_BYTES)
        if self._body is None:
            limit, deadline = self._body_limit(), self._settings.request_deadline_seconds
            has_body = self.endpoint.body is not None or self.endpoint.takes_bytes
            if has_body:
                check_content_encoding(self.request)
            self._body = await receive_body(self.request, limit, deadline) if has_body else b""
        return self._body

    async def price_micros(self) -> int:
        """What this very call costs in micro-USD, or at most costs. Its units are counted once. Raises Problem."""
        if self._price_micros is None:
            price, units = self.endpoint.terms.price, 0
            assert price is not None, "only an endpoint with a price is paid for"
            if price.unit_micros and self.endpoint.count_units is not None:
                query, body, media_type = await self._parse()
                units = await self.endpoint.count_units(
                    Request(query, body, *self._known(None, self.address, media_type))
                )
            self._price_micros = price.micros(units)
        return self._price_micros

    async def cost_micros(self, answer: Response) -> int:
        """What an answer to this call costs: the price or, where that is only the most, what the answer says.

        An answer that says nothing costs the fixed part. Never more than `price_micros`. Raises Problem.
        """
        most, price = await self.price_micros(), self.endpoint.terms.price
        assert price is not None, "only an endpoint with a price is paid for"
        if price.max_micros is None:
            return most
        cost = price.request_micros if answer.cost_micros is None else answer.cost_micros
        return min(max(cost, 0), most)

    async def _parse(self) -> tuple[Any, Any, str]:
        """The query, the body and the negotiated media type, read once. Raises Problem."""
        if self._parsed is None:
            endpoint, request = self.endpoint, self.request
            query = parse_query(request.query, endpoint.query)
            media_type = negotiate_media_type(endpoint, request.header(b"accept"), getattr(query, "format", None))
            body: Any = await self.body()
            if endpoint.body is not None and not endpoint.takes_bytes:
                body = parse_body(body, request.header(b"content-type"), endpoint.body)
            self._parsed = query, body, media_type
        return self._parsed

    async def handle(self, caller: Caller, address: str) -> Response:
        """Parse the request and run the handler. Raises Problem."""
        endpoint = self.endpoint
        if endpoint.passes_through:
            self._upload()
            return await self._run(Request(None, None, *self._known(caller, address, "")))
        query, body, media_type = await self._parse()
        if isinstance(caller, VisitorCaller) and media_type not in endpoint.visit_types:
            raise missing_credentials(
                f"The pages of this server read {', '.join(endpoint.visit_types)} here. {media_type} requires an API "
                "key: create one with POST /api/keys/create."
            )
        return await self._run(Request(query, body, *self._known(caller, address, media_type)))

    def _known(self, caller: Caller | None, address: str, media_type: str) -> tuple[Any, ...]:
        """The members of a Request after the query and the body."""
        about = caller, address, media_type, self.request
        return self._parameters, *about, self.prefix, self.paying, self.payer

    def _body_limit(self) -> int:
        limit = self.endpoint.body_limit_bytes
        return self._settings.body_limit_bytes if limit is None else limit

    def _upload(self) -> Upload:
        """The body that is passed on. Raises Problem `payload-too-large`."""
        request = self.request
        if request.upload is None:
            request.upload = Upload(request, self._body_limit(), self._settings.request_deadline_seconds)
        return request.upload

    async def _run(self, parsed: Request[Any, Any]) -> Response:
        endpoint = self.endpoint
        if tracing.tracer is not None:
            with tracing.span("handler"):
                result = await endpoint.handler(parsed)
        else:
            result = await endpoint.handler(parsed)
        if isinstance(result, Response):
            return result
        return json_response(result) if endpoint.method == "GET" else fresh_json(result)


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
