"""What no request may exceed: bytes of headers and address, bytes of body, and the time the body may take."""

import asyncio
import contextlib

from tollhouse.errors import Problem
from tollhouse.http.request import HttpRequest

HEADERS_LIMIT_BYTES = 16_384
ADDRESS_LIMIT_BYTES = 8_192
DRAINED_BYTES = 1_048_576
DRAIN_SECONDS = 1.0


def check_head(request: HttpRequest) -> None:
    """Raises Problem `uri-too-long` or `headers-too-large`."""
    if len(request.path) + len(request.query) > ADDRESS_LIMIT_BYTES:
        raise Problem("uri-too-long", f"The address may have at most {ADDRESS_LIMIT_BYTES} bytes.")
    if request.headers_bytes > HEADERS_LIMIT_BYTES:
        raise Problem("headers-too-large", f"The headers may have at most {HEADERS_LIMIT_BYTES} bytes together.")


def check_coding(request: HttpRequest) -> None:
    """Raises Problem `unsupported-media-type` for a compressed body: nobody may have us unpack a bomb."""
    if request.header(b"content-encoding").strip().lower() not in {"", "identity"}:
        raise Problem(
            "unsupported-media-type",
            "Send the body as it is, without Content-Encoding.",
            headers={"Accept-Encoding": "identity"},
            allowed=["identity"],
        )


async def whole_body(request: HttpRequest, limit_bytes: int, deadline_seconds: float) -> bytes:
    """The body, if it arrives in time and in size. Raises Problem `payload-too-large` or `request-timeout`."""
    request.has_reader = True
    declared = request.header(b"content-length")
    if declared.isdigit() and len(declared) < 20 and int(declared) > limit_bytes:
        raise _too_large(limit_bytes)
    try:
        async with asyncio.timeout(deadline_seconds):
            return await _collected(request, limit_bytes)
    except TimeoutError:
        raise Problem(
            "request-timeout",
            f"The body did not arrive within {deadline_seconds:g} seconds.",
            headers={"Connection": "close"},
        ) from None


async def drain(request: HttpRequest) -> None:
    """Take in a short body that nobody reads: with bytes of it still under way, the connection is reset at the answer.

    A client that waits to be told to go on has sent none.
    """
    is_short = _length(request) <= DRAINED_BYTES
    if request.has_reader or not is_short or b"expect" in request.headers or not _announces_body(request):
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            left, more = DRAINED_BYTES, True
            while more and left > 0:
                message = await request.receive()
                left -= len(message.get("body", b""))
                more = message.get("more_body", False)


def _announces_body(request: HttpRequest) -> bool:
    return b"transfer-encoding" in request.headers or _length(request) > 0


def _length(request: HttpRequest) -> int:
    declared = request.header(b"content-length")
    return int(declared) if declared.isdecimal() and len(declared) < 20 else 0


async def _collected(request: HttpRequest, limit_bytes: int) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Problem("invalid-request", "The connection closed before the body was whole.")
        body += message.get("body", b"")
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
        more = message.get("more_body", False)
    return bytes(body)


def _too_large(limit_bytes: int) -> Problem:
    return Problem(
        "payload-too-large",
        f"The body may have at most {limit_bytes} bytes.",
        headers={"Connection": "close"},
        limit_bytes=limit_bytes,
    )
