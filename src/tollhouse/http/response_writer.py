"""How an answer leaves: conditional, compressed, and with the headers every answer carries."""

import asyncio
import gzip
from collections.abc import AsyncGenerator, Callable
from functools import lru_cache
from hashlib import blake2b

import brotli
import zstandard

from tollhouse.http.endpoint import Response
from tollhouse.http.request import HttpRequest, Send

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


def etag_of(body: bytes) -> str:
    """A validator for these bytes, whatever they are compressed to."""
    return f'W/"{blake2b(body, digest_size=12).hexdigest()}"'


def is_unchanged(answer: Response, request: HttpRequest) -> bool:
    """Whether the caller has this answer already (If-None-Match)."""
    known = request.header(b"if-none-match")
    if not known or answer.etag is None or answer.status != 200:
        return False
    return known.strip() == "*" or answer.etag.removeprefix("W/") in {
        tag.strip().removeprefix("W/") for tag in known.split(",")
    }


async def send_answer(answer: Response, usage: Headers, request: HttpRequest, send: Send) -> int:
    """Send the answer, or 304 in its place; tells the status that went out."""
    headers: Headers = [(b"x-request-id", request.id.encode()), *_head(answer), *usage]
    if answer.stream is not None:
        headers.append((b"content-type", answer.media_type.encode()))
        await _send(send, answer.status, headers, b"", more=True)
        await _stream(answer.stream, request, send)
        return answer.status
    if is_unchanged(answer, request):
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
    left = asyncio.ensure_future(request.left())
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
