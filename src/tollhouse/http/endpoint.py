"""Endpoints, declared once: route, limits, OpenAPI description and price list read the declaration."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from inspect import getdoc
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.http.described import DescribedOperation
from tollhouse.http.request import HttpRequest
from tollhouse.http.terms import Caller, Terms
from tollhouse.statistics.recorder import Payment

Query = TypeVar("Query")
Body = TypeVar("Body")
Declared = TypeVar("Declared", bound=Callable[..., Awaitable[Any]])

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

JSON = "application/json"


class Request(Struct, Generic[Query, Body], frozen=True):
    """A parsed and validated request. `address` is the client's.

    `http` is the raw request, for endpoints of foreign protocols that read their own headers. The endpoint is mounted
    under `prefix`. `payment` is what pays for the call if it is answered, and `payer` the wallet of an x402 payment.
    """

    query: Query
    body: Body
    path: dict[str, str]
    caller: Caller | None
    address: str
    media_type: str
    http: HttpRequest | None = None
    prefix: str = ""
    payment: Payment = ""
    payer: str = ""

    @property
    def over_http(self) -> HttpRequest:
        """The raw request, where there is one."""
        assert self.http is not None, "a request that came over HTTP"
        return self.http


class ByteStream(Protocol):
    """Bytes as they come, such as an async generator of them. Closing it ends the work behind it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    async def aclose(self) -> None: ...


@dataclass(slots=True)
class Response:
    """A response. `etag` is opaque; a response that is reused keeps its head and compressed forms.

    `delivered`, if any, is called once the response was wholly sent, `undelivered` if it was not. One that `is_free`
    costs neither money nor allowance. `cost_micros` is what it costs where the price states only the most a call costs.
    One that `passes_through` is somebody else's: its status, headers and body are sent as they are, with this server's
    headers about the call. Its `stream` raises when it breaks; `stream_length` is its number of bytes where that is
    known.
    """

    body: bytes
    media_type: str = JSON
    etag: str | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    status: int = 200
    cache_control: str = "no-cache"
    is_free: bool = False
    cost_micros: int | None = None
    delivered: Callable[[], None] | None = None
    undelivered: Callable[[], None] | None = None
    stream: ByteStream | None = None
    stream_length: int | None = None
    passes_through: bool = False
    compressed: dict[str, bytes] = field(default_factory=dict)
    head: tuple[tuple[bytes, bytes], ...] = ()


Handler = Callable[[Request[Any, Any]], Awaitable[Response | Struct]]
UnitCount = Callable[[Request[Any, Any]], Awaitable[int]]


class Example(Struct, frozen=True):
    """An example call for the code samples. A text `$NAME` stands for an environment variable.

    Path parameters and the body default to the description's examples; a body that is a text is sent as it is.
    """

    path: dict[str, str] = {}
    query: dict[str, Any] = {}
    body: Any = None
    headers: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class ProblemForm:
    """How an endpoint of a foreign protocol writes a problem; `schema` is a JSON Schema of what `render` returns."""

    render: Callable[[Problem], Response]
    media_type: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`responses` maps each media type offered to its schema: a type, or a plain JSON Schema. The first is the default.

    `formats` names the media types in the `format` parameter where there is one. `problems` are the codes this
    operation raises itself; those of its terms and its reading are known from the rest of the declaration. With
    `takes_bytes` the body is handed over as it came. `is_tool`: agents may call it over MCP.
    `problem_form` is a foreign protocol's own; None uses problem details. `failures` are error responses
    of the handler's own: the status of each, and the type of its JSON. `visit_types` are the media types that the
    console's pages may read without a key, on the visitor's budget; none for what no page reads, and for whole exports.
    One that `passes_through` reads the raw request itself: query and body are neither parsed nor checked, and the
    body's stream is `request.http.upload`. Its path may end in `{name:path}`, which is everything below.
    `body_limit_bytes` is the largest body it takes; None for the setting.
    `count_units` counts what a request returns where its price has a part for each unit. It runs before the handler,
    with no caller in the request, and raises what the handler would.
    `described` are the parts that somebody else's OpenAPI document gives, in place of `query` and `body`.
    `paid_prefix` is the beginning of the path where that says how the call is paid for.
    """

    id: str
    method: Method
    path: str
    summary: str
    handler: Handler
    terms: Terms
    description: str = ""
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    takes_bytes: bool = False
    path_parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    responses: dict[str, Any] = field(default_factory=dict)
    formats: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    tag: str = ""
    examples: dict[str, Any] = field(default_factory=dict)
    sample: Example = field(default_factory=Example)
    is_described: bool = True
    is_tool: bool = False
    problem_form: ProblemForm | None = None
    failures: dict[int, type[Struct]] = field(default_factory=dict)
    visit_types: tuple[str, ...] = ()
    passes_through: bool = False
    body_limit_bytes: int | None = None
    count_units: UnitCount | None = None
    described: DescribedOperation | None = None
    paid_prefix: str = ""


def endpoint(method: Method, path: str, **declaration: Any) -> Callable[[Declared], Declared]:
    """Declare the endpoint of a handler, a method of which `endpoints_of` makes an Endpoint.

    The docstring is public: its first line is the summary, the rest is the description. The signature gives the types
    of the query, the body and the JSON response. `declaration` are other members of Endpoint, and go before those.
    """

    def declare(handler: Declared) -> Declared:
        handler.__endpoint__ = {"method": method, "path": path, **declaration}  # type: ignore[attr-defined]
        return handler

    return declare


def declared_members(*kinds: type) -> list[dict[str, Any]]:
    """What `endpoint` was given for the methods of these classes."""
    return [one.__endpoint__ for kind in kinds for one in vars(kind).values() if hasattr(one, "__endpoint__")]


def endpoints_of(handlers: object, **defaults: Any) -> list[Endpoint]:
    """The endpoints that the methods of an object declare, in order. `defaults` are members that most of them share."""
    declared = [
        getattr(handlers, name) for name, member in vars(type(handlers)).items() if hasattr(member, "__endpoint__")
    ]
    return [Endpoint(**{**_signature(one), **defaults, **one.__endpoint__}, handler=one) for one in declared]


def _signature(handler: Handler) -> dict[str, Any]:
    """What the docstring and the annotations of a handler say of its endpoint."""
    summary, _, description = (getdoc(handler) or "").partition("\n\n")
    members: dict[str, Any] = {"summary": summary.removesuffix("."), "description": " ".join(description.split())}
    hints = get_type_hints(handler)
    response = hints.pop("return")
    if isinstance(response, type) and issubclass(response, Struct):
        members["responses"] = {JSON: response}
    query, body = next(get_args(hint) for hint in hints.values() if get_origin(hint) is Request)
    types = {"query": query, "body": body}
    return members | {name: kind for name, kind in types.items() if isinstance(kind, type) and issubclass(kind, Struct)}
