"""HTTP responses: content negotiation, problem details (RFC 9457), caching, compression and sending."""

import asyncio
import gzip
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import brotli
import msgspec
import zstandard

from tollhouse.errors import CODES, Problem
from tollhouse.http.endpoint import JSON, ByteStream, Endpoint, Response
from tollhouse.http.request import HttpRequest, Send


def negotiate_media_type(operation: Endpoint, accept: str, format_name: str | None) -> str:
    """The media type of the response. Raises Problem `not-acceptable`."""
    if format_name is not None:
        return operation.formats[format_name]
    if not accept:
        return next(iter(operation.responses), JSON)
    return negotiate(accept, tuple(operation.responses) or (JSON,))


@lru_cache(maxsize=1024)
def negotiate(accept: str, offered: tuple[str, ...]) -> str:
    """The offered type that the header prefers, earlier ones first among equals (RFC 9110, section 12.5.1)."""
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    weights = {media_type: _weight(media_type, ranges) for media_type in offered}
    best = max(offered, key=lambda media_type: weights[media_type])
    if ranges and weights[best] <= 0:
        raise Problem(
            "not-acceptable", f"Not acceptable. Supported media types: {', '.join(offered)}.", allowed=list(offered)
        )
    return best


def opens_page(request: HttpRequest) -> bool:
    """Whether a browser opens this address as a page: the client names `text/html` and prefers it to JSON.

    `*/*`, which programs send, never does.
    """
    accept = request.header(b"accept")
    if request.method not in {"GET", "HEAD"} or "text/html" not in accept:
        return False
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    html = _weight("text/html", ranges)
    named = [weight for name, weight in ranges if name in {JSON, PROBLEM_TYPE}]
    return html > 0 and html > max(named, default=0.0)


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = 1.0
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                weight = min(1.0, max(0.0, float(parameter[2:])))
            except ValueError:
                weight = 0.0
    return name, weight


def _weight(media_type: str, ranges: list[tuple[str, float]]) -> float:
    """The most specific range that fits decides."""
    kind = media_type.partition("/")[0]
    for candidate in (media_type, f"{kind}/*", "*/*"):
        fitting = [weight for name, weight in ranges if name == candidate]
        if fitting:
            return max(fitting)
    return 0.0


PROBLEM_TYPE = "application/problem+json"

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A problem (RFC 9457). `code` is stable; `type` is the path of a page that explains it.",
    "required": ["type", "title", "status", "detail", "instance", "code"],
    "properties": {
        "type": {
            "type": "string",
            "description": "Path of the page about this code",
            "examples": ["/problems/rate-limited"],
        },
        "title": {"type": "string", "examples": [CODES["rate-limited"][1]]},
        "status": {"type": "integer"},
        "detail": {"type": "string", "examples": ["Rate limit exceeded. Retry after 3 s."]},
        "instance": {"type": "string", "description": "The request id"},
        "code": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "examples": ["rate-limited"]},
        "parameter": {"type": "string", "description": "The invalid parameter or member"},
        "retry_after_seconds": {"type": "integer", "minimum": 1},
        "allowed": {"type": "array", "items": {"type": "string"}, "description": "Allowed values"},
    },
    "additionalProperties": True,
}


def render_problem(problem: Problem, request_id: str) -> Response:
    members = {
        "type": f"/problems/{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "instance": request_id,
        "code": problem.code,
        **problem.facts,
    }
    return Response(
        msgspec.json.encode(members),
        PROBLEM_TYPE,
        headers=problem_headers(problem),
        status=problem.status,
        cache_control="no-store",
    )


def problem_headers(problem: Problem) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode(), value.encode("latin-1", "replace")) for name, value in problem.headers.items())


COMPRESS_FROM_BYTES = 1_024

_COMPRESSIBLE = (
    "text/",
    "application/json",
    "application/problem+json",
    "application/geo+json",
    "application/yaml",
    "application/x-ndjson",
    "image/svg+xml",
    "application/javascript",
)
_CODINGS = ("zstd", "br", "gzip")

_READABLE_BY_PAGES = (
    b"Content-Disposition, ETag, Link, Location, Mcp-Session-Id, PAYMENT-REQUIRED, PAYMENT-RESPONSE, RateLimit, "
    b"RateLimit-Policy, Retry-After, WWW-Authenticate, X-Credits-Tier, X-PAYMENT-RESPONSE, X-RateLimit-Limit, "
    b"X-RateLimit-Remaining, X-Request-Id"
)
_ALWAYS = (
    (b"vary", b"Accept, Accept-Encoding"),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", _READABLE_BY_PAGES),
    (b"x-content-type-options", b"nosniff"),
)

Headers = list[tuple[bytes, bytes]]


def compute_etag(body: bytes) -> str:
    """A weak ETag of these bytes, whatever their compression."""
    return f'W/"{blake2b(body, digest_size=12).hexdigest()}"'


def json_response(value: Any, cache_control: str = "no-cache") -> Response:
    """A value as JSON, with its `ETag`."""
    body = msgspec.json.encode(value)
    return Response(body, etag=compute_etag(body), cache_control=cache_control)


def fresh_json(value: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """A value as JSON that no cache stores."""
    return Response(msgspec.json.encode(value), headers=headers, status=status, cache_control="no-store")


def is_not_modified(response: Response, request: HttpRequest) -> bool:
    """Whether the caller has this response already (If-None-Match)."""
    known = request.header(b"if-none-match")
    if not known or response.etag is None or response.status != 200:
        return False
    return known.strip() == "*" or response.etag.removeprefix("W/") in {
        tag.strip().removeprefix("W/") for tag in known.split(",")
    }


def is_passed_stream(answer: Response) -> bool:
    """Whether the answer is passed on while it arrives."""
    return answer.passes_through and answer.stream is not None


async def send_response(response: Response, usage: Headers, request: HttpRequest, send: Send) -> int:
    """Send the response, or 304 in its place; return the status sent."""
    if response.passes_through:
        return await _pass_on(response, usage, request, send)
    headers: Headers = [(b"x-request-id", request.id.encode()), *_head(response), *usage]
    if response.stream is not None:
        headers.append((b"content-type", response.media_type.encode()))
        await _send(send, response.status, headers, b"", more=True)
        await _stream(response.stream, request, send)
        return response.status
    if is_not_modified(response, request):
        await _send(send, 304, headers, b"")
        return 304
    body = response.body
    coding = _coding(request.header(b"accept-encoding"), response)
    if coding:
        if coding not in response.compressed:
            response.compressed[coding] = _COMPRESSORS[coding](response.body)
        body = response.compressed[coding]
        headers.append((b"content-encoding", coding.encode()))
    headers.append((b"content-type", response.media_type.encode()))
    headers.append((b"content-length", b"%d" % len(body)))
    await _send(send, response.status, headers, b"" if request.method == "HEAD" else body)
    return response.status


_EXPOSE = b"access-control-expose-headers"
_ALLOW_ORIGIN = b"access-control-allow-origin"


async def _pass_on(response: Response, usage: Headers, request: HttpRequest, send: Send) -> int:
    """Send somebody else's response as it is, with the headers that browsers and callers of this server rely on."""
    headers: Headers = [(b"x-request-id", request.id.encode()), *response.headers, *usage]
    names = {name for name, _ in response.headers}
    exposed = _READABLE_BY_PAGES
    if _EXPOSE in names:
        exposed = b", ".join((exposed, *(value for name, value in response.headers if name == _EXPOSE)))
        headers = [header for header in headers if header[0] != _EXPOSE]
    headers.append((_EXPOSE, exposed))
    if _ALLOW_ORIGIN not in names:
        headers.append((_ALLOW_ORIGIN, b"*"))
    if response.stream is not None:
        try:
            await _send(send, response.status, headers, b"", more=True)
        except BaseException:
            await response.stream.aclose()
            raise
        await _stream(response.stream, request, send)
        return response.status
    if request.method != "HEAD" and response.status not in {204, 304}:
        headers.append((b"content-length", b"%d" % len(response.body)))
    await _send(send, response.status, headers, response.body)
    return response.status


async def _send(send: Send, status: int, headers: Headers, body: bytes, *, more: bool = False) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _stream(pieces: ByteStream, request: HttpRequest, send: Send) -> None:
    """Send pieces as they come; stop when the client disconnects. Raises what making them raises."""
    sending = asyncio.ensure_future(_send_pieces(pieces, request, send))
    request.call_on_disconnect(sending.cancel)
    try:
        await asyncio.wait({sending})
    finally:
        sending.cancel()
        (outcome,) = await asyncio.gather(sending, return_exceptions=True)
        await pieces.aclose()
    if isinstance(outcome, Exception):
        raise outcome


async def _send_pieces(pieces: ByteStream, request: HttpRequest, send: Send) -> None:
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    # After the end, Granian reports every client as disconnected.
    request.end()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _head(response: Response) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that are the same each time this response is sent."""
    if not response.head:
        etag = ((b"etag", response.etag.encode()),) if response.etag else ()
        response.head = (*_ALWAYS, *response.headers, (b"cache-control", response.cache_control.encode()), *etag)
    return response.head


def _coding(accepted: str, response: Response) -> str | None:
    if not accepted or len(response.body) < COMPRESS_FROM_BYTES or not response.media_type.startswith(_COMPRESSIBLE):
        return None
    return _best_coding(accepted)


@lru_cache(maxsize=1024)
def _best_coding(accepted: str) -> str | None:
    weights = dict(_range(part) for part in accepted.split(","))
    best = max(_CODINGS, key=lambda coding: weights.get(coding, weights.get("*", 0.0)))
    return best if weights.get(best, weights.get("*", 0.0)) > 0 else None


_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    # A copy, because what the library returns keeps the memory of the largest possible result.
    "zstd": lambda body: bytes(memoryview(zstandard.ZstdCompressor(level=3).compress(body))),
    "br": lambda body: brotli.compress(body, quality=4),
    "gzip": lambda body: gzip.compress(body, compresslevel=5, mtime=0),
}
