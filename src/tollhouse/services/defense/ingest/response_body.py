"""How a stranger's response body is read: never more bytes than allowed, sent or unpacked."""

import zlib

import httpx2

from tollhouse.services.defense.ingest.upstream_error import UpstreamFailure

# What `read_body` unpacks; anything else is refused, because only zlib's output can be bounded as it comes.
ACCEPT_ENCODING = "gzip, deflate"

_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


async def read_body(response: httpx2.Response, cap_bytes: int) -> bytes:
    """The unpacked body of a streamed response. UpstreamFailure when it is too large or wrongly packed."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in _PACKED | {"identity", ""}:
        raise UpstreamFailure("encoding", f"{response.url.host} answered in the encoding {encoding[:40]!r}")
    if (response.headers.get("content-length") or "0").isdecimal() and _announced(response) > cap_bytes:
        raise _too_large(response, cap_bytes)
    if encoding in _PACKED:
        return await _unpacked(response, cap_bytes)
    return await _plain(response, cap_bytes)


def _announced(response: httpx2.Response) -> int:
    return int(response.headers.get("content-length") or "0")


async def _plain(response: httpx2.Response, cap_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > cap_bytes:
            raise _too_large(response, cap_bytes)
    return bytes(body)


async def _unpacked(response: httpx2.Response, cap_bytes: int) -> bytes:
    inflater = zlib.decompressobj(_ZLIB_OR_GZIP)
    body = bytearray()
    received = 0
    async for chunk in response.aiter_raw():
        received += len(chunk)
        try:
            # Never one byte more than it takes to see that it is too much: a bomb unpacks a thousandfold.
            body += inflater.decompress(chunk, cap_bytes + 1 - len(body))
        except zlib.error as cause:
            raise UpstreamFailure("encoding", f"{response.url.host} answered with a damaged gzip body") from cause
        if max(len(body), received) > cap_bytes:
            raise _too_large(response, cap_bytes)
        if inflater.eof:
            break
    if received and not inflater.eof:
        raise UpstreamFailure("encoding", f"{response.url.host} answered with a gzip body that is cut short")
    return bytes(body)


def _too_large(response: httpx2.Response, cap_bytes: int) -> UpstreamFailure:
    return UpstreamFailure("too-large", f"{response.url.host} answered with more than {cap_bytes} bytes")
