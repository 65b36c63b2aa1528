"""How a shop's feed is fetched: from vetted addresses only, bounded in bytes, in time and in redirects."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urljoin

import httpx2
from msgspec import Struct

from tollhouse.catalogue.importers.article import MAX_BYTES, Unreadable
from tollhouse.webhooks.target_validation import Resolve, Rules, SystemResolver, TargetRefused
from tollhouse.webhooks.transport import VettedTransport

ANSWER_SECONDS = 60.0
MOST_REDIRECTS = 5
MOST_TRIES = 4
LONGEST_PAUSE_SECONDS = 30.0

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BUSY = frozenset({429, 502, 503, 504})
# What is unpacked here; anything else is refused, because only zlib's output can be bounded as it comes.
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_HEADERS = {"Accept-Encoding": "gzip, deflate", "User-Agent": "Tollhouse-import"}


class Fetched(Struct, frozen=True):
    """`url` is where it lay after redirects."""

    url: str
    status: int
    body: bytes
    content_type: str


Tell = Callable[[str], None]


class Fetcher:
    """Fetches while `left` bytes are left of what one import may take."""

    def __init__(self, client: httpx2.AsyncClient, tell: Tell) -> None:
        self._client = client
        self._tell = tell
        self._left = MAX_BYTES

    async def page(self, url: str) -> Fetched:
        """One answer of status 200. A shop that is busy is asked again. Raises Unreadable."""
        answer = await self.answer(url)
        if answer.status != 200:
            raise Unreadable(f"{_host(url)} answered {answer.status} to {url[:200]}")
        return answer

    async def answer(self, url: str) -> Fetched:
        """One answer, whatever its status. Raises Unreadable where none comes."""
        for attempt in range(1, MOST_TRIES + 1):
            self._tell(f"fetching {url}")
            answer, pause = await self._once(url, attempt)
            if answer.status not in _BUSY or attempt == MOST_TRIES:
                return answer
            self._tell(f"{_host(url)} answered {answer.status}: asking again in {pause:g} s")
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt answers")

    async def _once(self, url: str, attempt: int) -> tuple[Fetched, float]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._through_redirects(url, attempt)
        except TargetRefused as refused:
            raise Unreadable(f"this server does not call {url[:200]}: {refused}") from None
        except (TimeoutError, httpx2.TimeoutException):
            raise Unreadable(f"{_host(url)} did not answer within {ANSWER_SECONDS:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unreadable(f"{_host(url)} cannot be reached: {type(error).__name__}") from None

    async def _through_redirects(self, url: str, attempt: int) -> tuple[Fetched, float]:
        for _ in range(MOST_REDIRECTS + 1):
            async with self._client.stream("GET", url, headers=_HEADERS, follow_redirects=False) as response:
                location = response.headers.get("location", "")
                if response.status_code not in _REDIRECTS or not location:
                    body = await self._body(response)
                    fetched = Fetched(url, response.status_code, body, response.headers.get("content-type", ""))
                    return fetched, _pause(response, attempt)
            try:
                url = urljoin(url, location)
            except ValueError:
                raise Unreadable(f"{_host(url)} redirects to no address") from None
        raise Unreadable(f"{_host(url)} redirects more than {MOST_REDIRECTS} times")

    async def _body(self, response: httpx2.Response) -> bytes:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in _PACKED | {"identity", ""}:
            raise Unreadable(f"{response.url.host} answered in the encoding {encoding[:40]!r}")
        inflater = zlib.decompressobj(32 + zlib.MAX_WBITS) if encoding in _PACKED else None
        body = bytearray()
        async for chunk in response.aiter_raw():
            try:
                # Never one byte more than it takes to see that it is too much: a bomb unpacks a thousandfold.
                body += inflater.decompress(chunk, self._left + 1 - len(body)) if inflater else chunk
            except zlib.error:
                raise Unreadable(f"{response.url.host} answered with a damaged {encoding} body") from None
            if len(body) > self._left:
                raise Unreadable(f"the feed is larger than {MAX_BYTES} bytes")
        if inflater and body and not inflater.eof:
            raise Unreadable(f"{response.url.host} answered with a {encoding} body that is cut short")
        self._left -= len(body)
        return bytes(body)


@asynccontextmanager
async def fetcher(tell: Tell, *, allow_loopback: bool, resolve: Resolve | None = None) -> AsyncIterator[Fetcher]:
    """A fetcher, its connections closed afterwards. Feeds may lie behind plain http."""
    machine = SystemResolver()
    transport = VettedTransport(Rules(allow_loopback=allow_loopback, allow_plain=True), resolve or machine)
    try:
        # The deadline over the whole answer is the one that counts.
        async with httpx2.AsyncClient(transport=transport, timeout=None) as client:
            yield Fetcher(client, tell)
    finally:
        machine.close()


def _pause(response: httpx2.Response, attempt: int) -> float:
    """What Retry-After asks for in seconds, at most LONGEST_PAUSE_SECONDS; else growing."""
    asked = response.headers.get("retry-after", "").strip()
    seconds = float(asked[:9]) if asked.isascii() and asked.isdecimal() else 0.5 * 2**attempt
    return min(seconds, LONGEST_PAUSE_SECONDS)


def _host(url: str) -> str:
    try:
        return httpx2.URL(url).host or "the address"
    except httpx2.InvalidURL:
        return "the address"
