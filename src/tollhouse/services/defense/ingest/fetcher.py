"""How a page of a stranger is fetched: bounded in bytes, in time and in redirects, and only when it has changed."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import httpx2
from msgspec import Struct

from tollhouse import clock
from tollhouse.services.defense.ingest.feed_dates import read_moment
from tollhouse.services.defense.ingest.response_body import ACCEPT_ENCODING, read_body
from tollhouse.services.defense.ingest.upstream_error import UpstreamFailure

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
