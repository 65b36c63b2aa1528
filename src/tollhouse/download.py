"""Downloads from other servers, limited in bytes, time and redirects, with one error type for every failure."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import BinaryIO, Literal, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2
import msgspec
from msgspec import Struct

from tollhouse import clock, tracing
from tollhouse.errors import Problem

Failure = Literal["timeout", "network", "too-large", "encoding", "redirect", "address", "status", "denied", "malformed"]


class UpstreamFailure(Problem):
    """An `upstream-unavailable` problem with a machine-readable reason and the provider's Retry-After.

    `detail` names at most the host: URLs may contain an operator's secrets.
    """

    def __init__(self, failure: Failure, detail: str, retry_after_seconds: float | None = None) -> None:
        super().__init__("upstream-unavailable", detail)
        self.failure = failure
        self.retry_after_seconds = retry_after_seconds


# The encodings that `read_body` decodes: only zlib's output can be limited while it is decoded.
ACCEPT_ENCODING = "gzip, deflate"

_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS
_WRITTEN_BYTES = 262_144


async def read_body(response: httpx2.Response, cap_bytes: int) -> bytes:
    """The decoded body of a streamed response. Raises UpstreamFailure if it is too large or damaged."""
    body = bytearray()
    decoder = _BodyDecoder(response, cap_bytes)
    async for chunk in response.aiter_raw():
        for piece in decoder.decode(chunk):
            body += piece
        if decoder.is_complete:
            break
    decoder.end()
    return bytes(body)


async def save_body(response: httpx2.Response, file: BinaryIO, cap_bytes: int, on_bytes: Callable[[], None]) -> int:
    """Write the decoded body of a streamed response to a file; its size. `on_bytes` is called whenever some arrive.

    Raises UpstreamFailure if it is too large or damaged.
    """
    decoder, waiting, size = _BodyDecoder(response, cap_bytes), bytearray(), 0

    def write(data: bytes) -> int:
        return sum(map(file.write, decoder.decode(data)))

    async for chunk in response.aiter_raw():
        on_bytes()
        waiting += chunk
        if len(waiting) >= _WRITTEN_BYTES:
            size += await asyncio.to_thread(write, bytes(waiting))
            waiting.clear()
        if decoder.is_complete:
            break
    size += await asyncio.to_thread(write, bytes(waiting))
    decoder.end()
    return size


class _BodyDecoder:
    """Decodes a body in pieces of limited length, and counts them. Raises UpstreamFailure."""

    def __init__(self, response: httpx2.Response, cap_bytes: int) -> None:
        self._host = response.url.host
        self._cap_bytes = cap_bytes
        self._received = self._decoded = 0
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in _PACKED | {"identity", ""}:
            raise UpstreamFailure("encoding", f"{self._host} sent the unsupported content encoding {encoding[:40]!r}")
        announced = response.headers.get("content-length") or "0"
        if announced.isdecimal() and int(announced) > cap_bytes:
            raise self._too_large()
        self._inflater = zlib.decompressobj(_ZLIB_OR_GZIP) if encoding in _PACKED else None

    @property
    def is_complete(self) -> bool:
        """Whether the compressed body ended; what follows does not count."""
        return self._inflater is not None and self._inflater.eof

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._received += len(data)
        while data and not self.is_complete:
            piece, data = self._inflate(data) if self._inflater else (data, b"")
            self._decoded += len(piece)
            if max(self._received, self._decoded) > self._cap_bytes:
                raise self._too_large()
            yield piece

    def end(self) -> None:
        if self._inflater and self._received and not self._inflater.eof:
            raise UpstreamFailure("encoding", f"{self._host} sent a truncated compressed body")

    def _inflate(self, data: bytes) -> tuple[bytes, bytes]:
        """A piece, and what is left to decode: a decompression bomb expands a thousandfold."""
        assert self._inflater is not None
        try:
            return self._inflater.decompress(data, _WRITTEN_BYTES), self._inflater.unconsumed_tail
        except zlib.error as cause:
            raise UpstreamFailure("encoding", f"{self._host} sent a damaged compressed body") from cause

    def _too_large(self) -> UpstreamFailure:
        return UpstreamFailure("too-large", f"{self._host} sent more than {self._cap_bytes} bytes")


MOST_REDIRECTS = 5

_WITH_BODY = frozenset({200, 206})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Fetched(Struct, frozen=True):
    """A response. `body` is empty unless `status` is 200 or 206; `url` is the address after redirects."""

    status: int
    body: bytes
    etag: str
    last_modified: str
    url: str
    content_type: str = ""
    retry_after_seconds: float | None = None

    @property
    def is_not_modified(self) -> bool:
        """Whether the page still matches `etag` and `last_modified`."""
        return self.status == 304


async def fetch(  # noqa: PLR0913 - the limits and conditions of one request
    client: httpx2.AsyncClient,
    url: str,
    *,
    cap_bytes: int,
    deadline_seconds: float,
    etag: str = "",
    last_modified: str = "",
    last_bytes: int = 0,
) -> Fetched:
    """GET a page, following at most MOST_REDIRECTS redirects to http(s) addresses. Raises UpstreamFailure on failure.

    `cap_bytes` limits the body as sent and as decoded; `deadline_seconds` limits the request with its redirects.
    `last_bytes` requests only the end of the page, which a server may grant (206) or not (200).
    """
    headers = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    if last_bytes:
        headers["Range"] = f"bytes=-{last_bytes}"
    given = {name: value for name, value in headers.items() if value}
    async with within_deadline(url, deadline_seconds):
        return await _get(client, url, given, partial(read_body, cap_bytes=cap_bytes))


async def download(  # noqa: PLR0913 - the limits of one request
    client: httpx2.AsyncClient,
    url: str,
    file: BinaryIO,
    *,
    cap_bytes: int,
    idle_seconds: float,
    deadline_seconds: float,
) -> Fetched:
    """GET a page of any size as `fetch` does, its decoded body into a file. Raises UpstreamFailure on failure.

    `idle_seconds` limits the time without a byte, `deadline_seconds` the whole request.
    """
    loop = asyncio.get_running_loop()
    async with within_deadline(url, deadline_seconds):
        try:
            async with asyncio.timeout(idle_seconds) as idle:

                async def save(response: httpx2.Response) -> bytes:
                    await save_body(response, file, cap_bytes, lambda: idle.reschedule(loop.time() + idle_seconds))
                    return b""

                return await _get(client, url, {}, save)
        except TimeoutError as cause:
            raise UpstreamFailure(
                "timeout", f"{host_of(url)} did not respond within {idle_seconds:g} seconds"
            ) from cause


@asynccontextmanager
async def within_deadline(url: str, deadline_seconds: float) -> AsyncGenerator[None]:
    """Convert a timeout and every transport error into an UpstreamFailure."""
    try:
        async with asyncio.timeout(deadline_seconds):
            with tracing.span("provider", **{"server.address": host_of(url)}):
                yield
    except (TimeoutError, httpx2.TimeoutException) as cause:
        raise UpstreamFailure(
            "timeout", f"{host_of(url)} did not respond within {deadline_seconds:g} seconds"
        ) from cause
    except httpx2.InvalidURL as cause:
        raise UpstreamFailure("address", "the URL is malformed") from cause
    except httpx2.HTTPError as cause:
        raise UpstreamFailure("network", f"{host_of(url)} cannot be reached: {type(cause).__name__}") from cause


def parse_retry_after(header: str, now: float) -> float | None:
    """Seconds of a `Retry-After` header, a number or a date (RFC 9110, 10.2.3); None if it is not usable."""
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
        return max(0.0, moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None


ReadBody = Callable[[httpx2.Response], Awaitable[bytes]]


async def _get(client: httpx2.AsyncClient, url: str, headers: dict[str, str], read: ReadBody) -> Fetched:
    """The response after redirects."""
    for _ in range(MOST_REDIRECTS + 1):
        response = await _get_once(client, url, headers, read)
        if isinstance(response, Fetched):
            return response
        url = response
    raise UpstreamFailure("redirect", f"{host_of(url)} redirected more than {MOST_REDIRECTS} times")


async def _get_once(client: httpx2.AsyncClient, url: str, headers: dict[str, str], read: ReadBody) -> Fetched | str:
    """The response, or the address it redirects to."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise UpstreamFailure("address", "only http and https URLs are fetched")
    headers = {"Accept-Encoding": ACCEPT_ENCODING, **headers}
    async with client.stream("GET", url, headers=headers, follow_redirects=False, timeout=None) as response:
        if response.status_code in _REDIRECTS:
            return _target(response)
        return Fetched(
            response.status_code,
            await read(response) if response.status_code in _WITH_BODY else b"",
            response.headers.get("etag", ""),
            response.headers.get("last-modified", ""),
            str(response.url),
            response.headers.get("content-type", ""),
            parse_retry_after(response.headers.get("retry-after", ""), clock.seconds()),
        )


def _target(response: httpx2.Response) -> str:
    location = response.headers.get("location", "")
    try:
        target = urljoin(str(response.url), location)
        is_allowed = bool(location) and urlsplit(target).scheme in {"http", "https"}
    except ValueError:
        is_allowed = False
    if not is_allowed:
        raise UpstreamFailure("redirect", f"{response.url.host} redirected to an address that is not http(s)")
    return target


def host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or "the address"
    except ValueError:
        return "the address"


CAP_BYTES = 32 * 1024 * 1024
DEADLINE_SECONDS = 60.0

Body = TypeVar("Body")


async def fetch_json(  # noqa: PLR0913 - the parts of one request
    client: httpx2.AsyncClient,
    url: str,
    body_type: type[Body],
    *,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> Body:
    """GET JSON, or POST if there is a form. Raises UpstreamFailure on any failure.

    Redirects are not followed: they could send the operator's credentials elsewhere.
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
            status, host = response.status_code, str(response.url.host)
            if status in {401, 403}:
                raise UpstreamFailure("denied", f"{host} rejected the operator's credentials ({status})")
            if status != 200:
                wait = parse_retry_after(response.headers.get("retry-after", ""), clock.seconds())
                raise UpstreamFailure("status", f"{host} responded with status {status}", wait)
            body = await read_body(response, CAP_BYTES)
    try:
        return msgspec.json.decode(body, type=body_type, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise UpstreamFailure("malformed", f"{host} sent something other than the documented JSON") from cause
