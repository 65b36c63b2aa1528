"""Bounded HTTP fetches."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Literal, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2
import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.services.defense.ingest.feed_parser import read_moment

Failure = Literal["timeout", "network", "too-large", "encoding", "redirect", "address", "status", "denied", "malformed"]


class UpstreamFailure(Problem):
    """An `upstream-unavailable` problem. `retry_after_seconds` is what the provider asked for, if it did.

    `detail` names the host at most: addresses may carry an operator's secrets.
    """

    def __init__(self, failure: Failure, detail: str, retry_after_seconds: float | None = None) -> None:
        super().__init__("upstream-unavailable", detail)
        self.failure = failure
        self.retry_after_seconds = retry_after_seconds


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


MOST_REDIRECTS = 5

_WITH_BODY = frozenset({200, 206})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Fetched(Struct, frozen=True):
    """An answer. `body` is empty unless `status` is 200 or 206; `url` is where it lay after redirects."""

    status: int
    body: bytes
    etag: str
    last_modified: str
    url: str
    content_type: str = ""
    retry_after_seconds: float | None = None

    @property
    def is_unchanged(self) -> bool:
        """Whether the page is still the one that `etag` and `last_modified` describe."""
        return self.status == 304


async def fetch(  # noqa: PLR0913 - the bounds and the conditions of one request
    client: httpx2.AsyncClient,
    url: str,
    *,
    cap_bytes: int,
    deadline_seconds: float,
    etag: str = "",
    last_modified: str = "",
    last_bytes: int = 0,
) -> Fetched:
    """GET, through at most MOST_REDIRECTS redirects to http(s) addresses. UpstreamFailure when no answer came.

    `cap_bytes` bounds the body as sent and as unpacked; `deadline_seconds` the whole of it, redirects included.
    `last_bytes` asks for the end of the page alone, which a server may grant (206) or not (200).
    """
    headers = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    if last_bytes:
        headers["Range"] = f"bytes=-{last_bytes}"
    async with within_deadline(url, deadline_seconds):
        for _ in range(MOST_REDIRECTS + 1):
            answer = await _get(client, url, {name: value for name, value in headers.items() if value}, cap_bytes)
            if isinstance(answer, Fetched):
                return answer
            url = answer
        raise UpstreamFailure("redirect", f"{_host(url)} redirected more than {MOST_REDIRECTS} times")


@asynccontextmanager
async def within_deadline(url: str, deadline_seconds: float) -> AsyncGenerator[None]:
    """Turns a passed deadline and everything that can break on the way into an UpstreamFailure."""
    try:
        async with asyncio.timeout(deadline_seconds):
            yield
    except (TimeoutError, httpx2.TimeoutException) as cause:
        raise UpstreamFailure("timeout", f"{_host(url)} did not answer within {deadline_seconds:g} seconds") from cause
    except httpx2.InvalidURL as cause:
        raise UpstreamFailure("address", "the address is malformed") from cause
    except httpx2.HTTPError as cause:
        raise UpstreamFailure("network", f"{_host(url)} cannot be reached: {type(cause).__name__}") from cause


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """What Retry-After asks for (RFC 9110, 10.2.3): a number of seconds or a date; None where it asks nothing."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    moment = read_moment(text)
    return max(0.0, (moment - clock.now()).total_seconds()) if moment else None


async def _get(client: httpx2.AsyncClient, url: str, headers: dict[str, str], cap_bytes: int) -> Fetched | str:
    """The answer, or the address to which it redirects."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise UpstreamFailure("address", "only http and https addresses are fetched")
    headers = {"Accept-Encoding": ACCEPT_ENCODING, **headers}
    async with client.stream("GET", url, headers=headers, follow_redirects=False, timeout=None) as response:
        if response.status_code in _REDIRECTS:
            return _target(response)
        return Fetched(
            response.status_code,
            await read_body(response, cap_bytes) if response.status_code in _WITH_BODY else b"",
            response.headers.get("etag", ""),
            response.headers.get("last-modified", ""),
            str(response.url),
            response.headers.get("content-type", ""),
            retry_after_seconds(response.headers),
        )


def _target(response: httpx2.Response) -> str:
    location = response.headers.get("location", "")
    try:
        target = urljoin(str(response.url), location)
        is_allowed = bool(location) and urlsplit(target).scheme in {"http", "https"}
    except ValueError:
        is_allowed = False
    if not is_allowed:
        raise UpstreamFailure("redirect", f"{response.url.host} redirected to no http(s) address")
    return target


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "the address"
    except ValueError:
        return "the address"


CAP_BYTES = 32 * 1024 * 1024
DEADLINE_SECONDS = 60.0

Answer = TypeVar("Answer")


async def fetch_json(  # noqa: PLR0913 - the parts of one request
    client: httpx2.AsyncClient,
    url: str,
    answer: type[Answer],
    *,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> Answer:
    """The decoded answer to a GET, or to a POST when there is a form. UpstreamFailure for everything else.

    No redirect is followed: it would carry the operator's secret to wherever it points.
    """
    async with within_deadline(url, DEADLINE_SECONDS):
        request = client.build_request(
            "POST" if form else "GET",
            url,
            params=params,
            headers={"Accept": "application/json", "Accept-Encoding": ACCEPT_ENCODING, **(headers or {})},
            data=form,
            timeout=None,
        )
        response = await client.send(request, stream=True, follow_redirects=False)
        async with aclosing(response):
            _check(response)
            body = await read_body(response, CAP_BYTES)
    return _decoded(body, answer, str(response.url.host))


def _check(response: httpx2.Response) -> None:
    status, host = response.status_code, response.url.host
    if status in {401, 403}:
        raise UpstreamFailure("denied", f"{host} refused the operator's credentials ({status})")
    if status != 200:
        raise UpstreamFailure("status", f"{host} answered {status}", retry_after_seconds(response.headers))


def _decoded(body: bytes, answer: type[Answer], host: str) -> Answer:
    try:
        return msgspec.json.decode(body, type=answer, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise UpstreamFailure("malformed", f"{host} answered with something other than the documented JSON") from cause
