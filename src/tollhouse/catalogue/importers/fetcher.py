"""Fetching of feeds: from vetted addresses only, with limits on bytes, time, redirects and pages."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

import httpx2

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import MAX_BYTES, MAX_ITEMS, UnreadableFeed
from tollhouse.catalogue.importers.json_text import Object, decode_json, objects, text
from tollhouse.webhooks.target_validation import Resolve, SystemResolver, TargetRefused, TargetRules
from tollhouse.webhooks.transport import VettedTransport

RESPONSE_SECONDS = 60.0
MAX_REDIRECTS = 5
MAX_ATTEMPTS = 4
MAX_PAUSE_SECONDS = 30.0
MAX_PAGES = 500

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BUSY = frozenset({429, 502, 503, 504})
# Decompressed here; anything else is refused, because only zlib's output can be limited as it comes.
_COMPRESSIONS = frozenset({"gzip", "x-gzip", "deflate"})
_HEADERS = {"Accept-Encoding": "gzip, deflate", "User-Agent": "Tollhouse-import"}

Progress = Callable[[str], None]


class Fetcher:
    """Fetches documents, together at most MAX_BYTES."""

    def __init__(self, client: httpx2.AsyncClient, progress: Progress) -> None:
        self._client = client
        self._progress = progress
        self._remaining_bytes = MAX_BYTES

    async def fetch(self, url: str) -> Document:
        """The document at an address. Retries while the server is busy. Raises UnreadableFeed."""
        status, document = await self.response(url)
        if status != 200:
            raise UnreadableFeed(f"{_host(url)} returned {status} for {url[:200]}")
        return document

    async def response(self, url: str) -> tuple[int, Document]:
        """One response, whatever its status. Raises UnreadableFeed when there is none."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            self._progress(f"fetching {url}")
            try:
                async with asyncio.timeout(RESPONSE_SECONDS):
                    status, document, pause = await self._through_redirects(url, attempt)
            except TargetRefused as refused:
                raise UnreadableFeed(f"this server does not call {url[:200]}: {refused}") from None
            except (TimeoutError, httpx2.TimeoutException):
                raise UnreadableFeed(f"{_host(url)} did not respond within {RESPONSE_SECONDS:g} seconds") from None
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise UnreadableFeed(f"{_host(url)} cannot be reached: {type(error).__name__}") from None
            if status not in _BUSY or attempt == MAX_ATTEMPTS:
                return status, document
            self._progress(f"{_host(url)} returned {status}: retrying in {pause:g} s")
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns")

    async def numbered_pages(self, url: str, size_parameter: str, size: int) -> list[Document]:
        """Pages 1, 2, 3… of a JSON feed until one has nothing new in it; the first is included even if it is empty."""
        pages: list[Document] = []
        seen: set[str] = set()
        for number in range(1, MAX_PAGES + 1):
            page = await self.fetch(with_parameters(url, **{size_parameter: str(size), "page": str(number)}))
            new = {text(entry.get("id")) or str(entry) for entry in page_entries(page)}
            if pages and new <= seen:
                return pages
            seen |= new
            if len(seen) > MAX_ITEMS:
                raise UnreadableFeed(f"the shop has more than {MAX_ITEMS} products")
            pages.append(page)
        raise UnreadableFeed(f"the feed has more than {MAX_PAGES} pages")

    async def _through_redirects(self, url: str, attempt: int) -> tuple[int, Document, float]:
        for _ in range(MAX_REDIRECTS + 1):
            async with self._client.stream("GET", url, headers=_HEADERS, follow_redirects=False) as response:
                location = response.headers.get("location", "")
                if response.status_code not in _REDIRECTS or not location:
                    body = await self._body(response)
                    document = Document(body, response.headers.get("content-type", ""), url)
                    return response.status_code, document, _pause(response, attempt)
            try:
                url = urljoin(url, location)
            except ValueError:
                raise UnreadableFeed(f"{_host(url)} redirects to an invalid address") from None
        raise UnreadableFeed(f"{_host(url)} redirects more than {MAX_REDIRECTS} times")

    async def _body(self, response: httpx2.Response) -> bytes:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in _COMPRESSIONS | {"identity", ""}:
            raise UnreadableFeed(f"{response.url.host} responded in the encoding {encoding[:40]!r}")
        inflater = zlib.decompressobj(32 + zlib.MAX_WBITS) if encoding in _COMPRESSIONS else None
        body = bytearray()
        async for chunk in response.aiter_raw():
            try:
                # One byte more than allowed is enough to see that it is too much: a bomb unpacks a thousandfold.
                body += inflater.decompress(chunk, self._remaining_bytes + 1 - len(body)) if inflater else chunk
            except zlib.error:
                raise UnreadableFeed(f"{response.url.host} responded with a damaged {encoding} body") from None
            if len(body) > self._remaining_bytes:
                raise UnreadableFeed(f"the feed is larger than {MAX_BYTES} bytes")
        if inflater and body and not inflater.eof:
            raise UnreadableFeed(f"{response.url.host} responded with a {encoding} body that is cut short")
        self._remaining_bytes -= len(body)
        return bytes(body)


@asynccontextmanager
async def open_fetcher(
    progress: Progress, *, allow_loopback: bool, resolve: Resolve | None = None
) -> AsyncIterator[Fetcher]:
    """A fetcher, its connections closed afterwards. Feeds may be served over plain http."""
    machine = SystemResolver()
    transport = VettedTransport(TargetRules(allow_loopback=allow_loopback, allow_plain=True), resolve or machine)
    try:
        # The time limit on the whole response is the one that counts.
        async with httpx2.AsyncClient(transport=transport, timeout=None) as client:
            yield Fetcher(client, progress)
    finally:
        machine.close()


def page_entries(page: Document) -> list[Object]:
    """The objects listed on a page of JSON. Raises UnreadableFeed."""
    value = decode_json(page.text())
    return objects(value.get("products") if isinstance(value, dict) else value)


def with_parameters(url: str, **parameters: str) -> str:
    """The address with these query parameters in place of its own of the same names."""
    parts = urlsplit(url)
    others = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in parameters]
    return urlunsplit(parts._replace(query=urlencode([*others, *parameters.items()]), fragment=""))


def _pause(response: httpx2.Response, attempt: int) -> float:
    """Seconds from Retry-After, at most MAX_PAUSE_SECONDS; without it, growing."""
    header = response.headers.get("retry-after", "").strip()
    seconds = float(header[:9]) if header.isascii() and header.isdecimal() else 0.5 * 2**attempt
    return min(seconds, MAX_PAUSE_SECONDS)


def _host(url: str) -> str:
    try:
        return httpx2.URL(url).host or "the address"
    except httpx2.InvalidURL:
        return "the address"
