"""HTTP responses: content negotiation, problem details (RFC 9457), caching, compression and sending."""

import asyncio
import gzip
from collections.abc import AsyncGenerator, Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import brotli
import msgspec
import zstandard

from tollhouse.errors import CODES, Problem
from tollhouse.http.endpoint import JSON, Endpoint, Response
from tollhouse.http.request import HttpRequest, Send


def negotiate_media_type(operation: Endpoint, accept: str, format_name: str | None) -> str:
    """The media type to answer in. Raises Problem `not-acceptable` when none offered will do."""
    if format_name is not None:
        return operation.formats[format_name]
    if not accept:
        return next(iter(operation.responses), JSON)
    return negotiate(accept, tuple(operation.responses) or (JSON,))


@lru_cache(maxsize=1024)
def negotiate(accept: str, offered: tuple[str, ...]) -> str:
    """The offered type the header likes best, earlier ones first among equals (RFC 9110, section 12.5.1)."""
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    weights = {media_type: _weight(media_type, ranges) for media_type in offered}
    best = max(offered, key=lambda media_type: weights[media_type])
    if ranges and weights[best] <= 0:
        raise Problem("not-acceptable", f"This is offered as {', '.join(offered)}.", allowed=list(offered))
    return best


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
    "description": "What went wrong (RFC 9457). `code` is stable; `type` is the page on this server that explains it.",
    "required": ["type", "title", "status", "detail", "instance", "code"],
    "properties": {
        "type": {
            "type": "string",
            "description": "Path of the page about this code",
            "examples": ["/problems/rate-limited"],
        },
        "title": {"type": "string", "examples": [CODES["rate-limited"][1]]},
        "status": {"type": "integer"},
        "detail": {"type": "string", "examples": ["The next request fits in 3 s."]},
        "instance": {"type": "string", "description": "The request id"},
        "code": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "examples": ["rate-limited"]},
        "parameter": {"type": "string", "description": "The parameter or member that is wrong"},
        "retry_after_seconds": {"type": "integer", "minimum": 1},
        "allowed": {"type": "array", "items": {"type": "string"}, "description": "What would be accepted"},
    },
    "additionalProperties": True,
}


def render_problem(problem: Problem, request_id: str) -> Response:
    """The problem as an answer, its own headers included."""
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
    """The problem's own headers, as an answer carries them."""
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
    b"ETag, Link, Location, RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, X-Credits-Tier, "
    b"X-RateLimit-Limit, X-RateLimit-Remaining, X-Request-Id, Payment-Required, Payment-Response, X-Payment-Response"
)
_ALWAYS = (
    (b"vary", b"Accept, Accept-Encoding"),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", _READABLE_BY_PAGES),
    (b"x-content-type-options", b"nosniff"),
)

Headers = list[tuple[bytes, bytes]]


def compute_etag(body: bytes) -> str:
    """A validator for these bytes, whatever they are compressed to."""
    return f'W/"{blake2b(body, digest_size=12).hexdigest()}"'


def is_not_modified(answer: Response, request: HttpRequest) -> bool:
    """Whether the caller has this answer already (If-None-Match)."""
    known = request.header(b"if-none-match")
    if not known or answer.etag is None or answer.status != 200:
        return False
    return known.strip() == "*" or answer.etag.removeprefix("W/") in {
        tag.strip().removeprefix("W/") for tag in known.split(",")
    }


async def send_response(answer: Response, usage: Headers, request: HttpRequest, send: Send) -> int:
    """Send the answer, or 304 in its place; tells the status that went out."""
    headers: Headers = [(b"x-request-id", request.id.encode()), *_head(answer), *usage]
    if answer.stream is not None:
        headers.append((b"content-type", answer.media_type.encode()))
        await _send(send, answer.status, headers, b"", more=True)
        await _stream(answer.stream, request, send)
        return answer.status
    if is_not_modified(answer, request):
        await _send(send, 304, headers, b"")
        return 304
    body = answer.body
    coding = _coding(request.header(b"accept-encoding"), answer)
    if coding:
        body = _compressed(answer, coding)
        headers.append((b"content-encoding", coding.encode()))
    headers.append((b"content-type", answer.media_type.encode()))
    headers.append((b"content-length", b"%d" % len(body)))
    await _send(send, answer.status, headers, b"" if request.method == "HEAD" else body)
    return answer.status


async def _send(send: Send, status: int, headers: Headers, body: bytes, *, more: bool = False) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _stream(pieces: AsyncGenerator[bytes, None], request: HttpRequest, send: Send) -> None:
    """Send pieces as they come; stop making them once the client has left."""
    sending = asyncio.ensure_future(_pieces(pieces, send))
    left = asyncio.ensure_future(request.wait_for_disconnect())
    try:
        await asyncio.wait({sending, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, left):
            task.cancel()
        await asyncio.gather(sending, left, return_exceptions=True)
        await pieces.aclose()


async def _pieces(pieces: AsyncGenerator[bytes, None], send: Send) -> None:
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _head(answer: Response) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that every sending of this answer has alike."""
    if not answer.head:
        etag = ((b"etag", answer.etag.encode()),) if answer.etag else ()
        answer.head = (*_ALWAYS, *answer.headers, (b"cache-control", answer.cache_control.encode()), *etag)
    return answer.head


def _coding(accepted: str, answer: Response) -> str | None:
    if not accepted or len(answer.body) < COMPRESS_FROM_BYTES or not answer.media_type.startswith(_COMPRESSIBLE):
        return None
    return _best_coding(accepted)


@lru_cache(maxsize=1024)
def _best_coding(accepted: str) -> str | None:
    weights = _weights(accepted)
    best = max(_CODINGS, key=lambda coding: weights.get(coding, weights.get("*", 0.0)))
    return best if weights.get(best, weights.get("*", 0.0)) > 0 else None


def _weights(accepted: str) -> dict[str, float]:
    weights = {}
    for part in accepted.lower().split(","):
        name, _, parameter = part.partition(";")
        try:
            weights[name.strip()] = float(parameter.strip().removeprefix("q=") or 1)
        except ValueError:
            weights[name.strip()] = 0.0
    return weights


def _compressed(answer: Response, coding: str) -> bytes:
    if coding not in answer.compressed:
        answer.compressed[coding] = _COMPRESSORS[coding](answer.body)
    return answer.compressed[coding]


_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": lambda body: zstandard.ZstdCompressor(level=3).compress(body),
    "br": lambda body: brotli.compress(body, quality=4),
    "gzip": lambda body: gzip.compress(body, compresslevel=5, mtime=0),
}
