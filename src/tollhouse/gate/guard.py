"""What no request may exceed: bytes of headers and address, bytes of body, and the time the body may take."""

import asyncio

from tollhouse.errors import Problem
from tollhouse.gate.request import Request

HEADERS_LIMIT_BYTES = 16_384
ADDRESS_LIMIT_BYTES = 8_192


def check_head(request: Request) -> None:
    """Raises Problem `uri-too-long` or `headers-too-large`."""
    if len(request.path) + len(request.query) > ADDRESS_LIMIT_BYTES:
        raise Problem("uri-too-long", f"The address may have at most {ADDRESS_LIMIT_BYTES} bytes.")
    if request.headers_bytes > HEADERS_LIMIT_BYTES:
        raise Problem("headers-too-large", f"The headers may have at most {HEADERS_LIMIT_BYTES} bytes together.")


async def whole_body(request: Request, limit_bytes: int, deadline_seconds: float) -> bytes:
    """The body, if it arrives in time and in size. Raises Problem `payload-too-large` or `request-timeout`."""
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


async def _collected(request: Request, limit_bytes: int) -> bytes:
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
