"""Fetching of feeds: from vetted addresses only, with limits on bytes, time, redirects and pages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx2

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import MAX_BYTES, MAX_ITEMS, UnreadableFeed
from tollhouse.catalogue.importers.json_text import Object, decode_json, objects, text
from tollhouse.download import UpstreamFailure, fetch, host_of
from tollhouse.http_client.targets import Resolve, SystemResolver, TargetRefused, TargetRules
from tollhouse.http_client.validated import ValidatedTransport

RESPONSE_SECONDS = 60.0
MAX_ATTEMPTS = 4
MAX_PAUSE_SECONDS = 30.0
MAX_PAGES = 500

_BUSY = frozenset({429, 502, 503, 504})
_HEADERS = {"User-Agent": "Tollhouse-import"}

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
            raise UnreadableFeed(f"{host_of(url)} returned {status} for {url[:200]}")
        return document

    async def response(self, url: str) -> tuple[int, Document]:
        """One response, whatever its status. Raises UnreadableFeed when there is none."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            self._progress(f"fetching {url}")
            try:
                fetched = await fetch(
                    self._client, url, cap_bytes=self._remaining_bytes, deadline_seconds=RESPONSE_SECONDS
                )
            except TargetRefused as refused:
                raise UnreadableFeed(f"this server does not call {url[:200]}: {refused}") from None
            except UpstreamFailure as failure:
                is_large = failure.failure == "too-large"
                detail = f"the feed is larger than {MAX_BYTES} bytes" if is_large else failure.detail
                raise UnreadableFeed(detail) from None
            self._remaining_bytes -= len(fetched.body)
            if fetched.status not in _BUSY or attempt == MAX_ATTEMPTS:
                return fetched.status, Document(fetched.body, fetched.content_type, fetched.url)
            requested = fetched.retry_after_seconds
            pause = min(0.5 * 2**attempt if requested is None else requested, MAX_PAUSE_SECONDS)
            self._progress(f"{host_of(url)} returned {fetched.status}: retrying in {pause:g} s")
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


@asynccontextmanager
async def open_fetcher(
    progress: Progress, *, allow_loopback: bool, resolve: Resolve | None = None
) -> AsyncIterator[Fetcher]:
    """A fetcher, its connections closed afterwards. Feeds may be served over plain http."""
    machine = SystemResolver()
    transport = ValidatedTransport(TargetRules(allow_loopback=allow_loopback, allow_plain=True), resolve or machine)
    try:
        # The time limit on the whole response is the one that counts.
        async with httpx2.AsyncClient(transport=transport, timeout=None, headers=_HEADERS) as client:
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
