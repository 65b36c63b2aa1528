"""Fetching of feeds: from vetted addresses only, into temporary files, with limits on bytes, time and redirects."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx2
from msgspec import Struct

from tollhouse import clock
from tollhouse.catalogue.importers.documents import Document, FeedTooLarge, unpack
from tollhouse.catalogue.importers.items import UnreadableFeed
from tollhouse.catalogue.importers.json_text import Object, decode_json, document_parts, text
from tollhouse.config.settings import Settings
from tollhouse.download import Fetched, UpstreamFailure, download, host_of
from tollhouse.http_client.targets import Resolve, SystemResolver, TargetRefused, TargetRules
from tollhouse.http_client.validated import ValidatedTransport

IDLE_SECONDS = 60.0
MAX_ATTEMPTS = 4
MAX_PAUSE_SECONDS = 30.0

_BUSY = frozenset({429, 502, 503, 504})
_HEADERS = {"User-Agent": "Tollhouse-import"}
_PREFIX = "feed-"
_BLOCK_BYTES = 4_096
# What a process that was killed left behind is removed after so long.
_LEFT_SECONDS = 86_400.0

Progress = Callable[[str], None]


class FetchRules(Struct, frozen=True):
    """How much is fetched for one feed, and from where. Responses are in `folder`, or in the system's temporary one.

    `max_bytes` is the disk space of the whole feed, unpacked; a response counts as a block of 4,096 bytes at least.
    However high it is, a response leaves half of the disk's free space to others.
    """

    max_bytes: int = 1_073_741_824
    seconds: float = 3_600.0
    folder: Path | None = None
    allow_loopback: bool = False

    @classmethod
    def from_settings(cls, settings: Settings) -> "FetchRules":
        """The rules of these settings. Addresses are checked like those of webhooks."""
        return cls(
            settings.import_max_bytes,
            settings.import_seconds,
            Path(settings.data_dir) / "imports",
            settings.webhook_allow_loopback,
        )


class Fetcher:
    """Fetches the documents of one feed into a folder."""

    def __init__(self, client: httpx2.AsyncClient, progress: Progress, folder: Path, rules: FetchRules) -> None:
        self._client = client
        self._progress = progress
        self._folder = folder
        self._rules = rules
        self._remaining_bytes = self._cap_bytes = rules.max_bytes
        self._ends_at = time.monotonic() + rules.seconds
        self._number = 0

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
            self._number += 1
            file = self._folder / str(self._number)
            try:
                fetched = await self._download(url, file)
            except TargetRefused as refused:
                raise UnreadableFeed(f"this server does not call {url[:200]}: {refused}") from None
            except OSError as error:
                raise UnreadableFeed(f"the feed cannot be stored: {error.strerror or error}") from None
            except UpstreamFailure as failure:
                if failure.failure == "too-large":
                    raise self._too_large() from None
                if failure.failure == "timeout" and time.monotonic() >= self._ends_at:
                    raise self._too_slow() from None
                raise UnreadableFeed(failure.detail) from None
            if fetched.status not in _BUSY or attempt == MAX_ATTEMPTS:
                await asyncio.to_thread(self._keep, file)
                return fetched.status, Document(b"", fetched.content_type, fetched.url, file)
            file.unlink()
            requested = fetched.retry_after_seconds
            pause = min(0.5 * 2**attempt if requested is None else requested, MAX_PAUSE_SECONDS)
            self._progress(f"{host_of(url)} returned {fetched.status}: retrying in {pause:g} s")
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns")

    async def numbered_pages(self, url: str, size_parameter: str, size: int) -> list[Document]:
        """Pages 1, 2, 3… of a JSON feed until one has nothing new in it; the first is included even if it is empty.

        Nothing new: what the page before and the first page have, or exactly what any earlier page has.
        """
        pages: list[Document] = []
        seen: set[int] = set()
        first: frozenset[str] = frozenset()
        before: frozenset[str] = frozenset()
        while True:
            number = str(len(pages) + 1)
            page = await self.fetch(with_parameters(url, **{size_parameter: str(size), "page": number}))
            ids = await asyncio.to_thread(_entry_ids, page)
            if pages and (ids <= first | before or hash(ids) in seen):
                return pages
            seen.add(hash(ids))
            first, before = first or ids, ids
            pages.append(page)

    async def _download(self, url: str, file: Path) -> Fetched:
        remaining = self._ends_at - time.monotonic()
        if remaining <= 0:
            raise self._too_slow()
        self._cap_bytes = min(self._remaining_bytes, shutil.disk_usage(self._folder).free // 2)
        with file.open("wb") as opened:
            return await download(
                self._client,
                url,
                opened,
                cap_bytes=self._cap_bytes,
                idle_seconds=IDLE_SECONDS,
                deadline_seconds=remaining,
            )

    def _keep(self, file: Path) -> None:
        """Unpack a file, and count its disk space."""
        try:
            unpack(file, self._cap_bytes - file.stat().st_size)
        except FeedTooLarge:
            raise self._too_large() from None
        except OSError as error:
            raise UnreadableFeed(f"the feed cannot be stored: {error.strerror or error}") from None
        self._remaining_bytes -= max(file.stat().st_size, _BLOCK_BYTES)
        if self._remaining_bytes < 0:
            raise self._too_large()

    def _too_large(self) -> UnreadableFeed:
        if self._cap_bytes < self._remaining_bytes:
            return UnreadableFeed("the feed is larger than half of the free disk space")
        return UnreadableFeed(f"the feed is larger than {self._rules.max_bytes} bytes (the setting import_max_bytes)")

    def _too_slow(self) -> UnreadableFeed:
        return UnreadableFeed(f"the feed took longer than {self._rules.seconds:g} seconds (the setting import_seconds)")


@asynccontextmanager
async def open_fetcher(
    progress: Progress, rules: FetchRules, *, resolve: Resolve | None = None
) -> AsyncIterator[Fetcher]:
    """A fetcher; afterwards its connections are closed and its documents removed. Plain http is allowed."""
    machine = SystemResolver()
    targets = TargetRules(allow_loopback=rules.allow_loopback, allow_plain=True)
    transport = ValidatedTransport(targets, resolve or machine)
    if rules.folder:
        rules.folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(_remove_left, rules.folder)
    try:
        folder = Path(mkdtemp(prefix=_PREFIX, dir=rules.folder))
        try:
            # The limits of `download` are the ones that count.
            async with httpx2.AsyncClient(transport=transport, timeout=None, headers=_HEADERS) as client:
                yield Fetcher(client, progress, folder, rules)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    finally:
        machine.close()


def _remove_left(folder: Path) -> None:
    """Remove what processes that were killed left behind."""
    for each in folder.glob(f"{_PREFIX}*"):
        with suppress(FileNotFoundError):
            if clock.now().timestamp() - each.stat().st_mtime > _LEFT_SECONDS:
                shutil.rmtree(each, ignore_errors=True)


def _entry_ids(page: Document) -> frozenset[str]:
    return frozenset(text(entry.get("id")) or str(entry) for entry in page_entries(page))


def page_entries(page: Document) -> Iterator[Object]:
    """The objects listed on a page of JSON. Raises UnreadableFeed."""
    for part in document_parts(page, {"products"}):
        if part.member in {None, "products"} and isinstance(entry := decode_json(part.text), dict):
            yield entry


def with_parameters(url: str, **parameters: str) -> str:
    """The address with these query parameters in place of its own of the same names."""
    parts = urlsplit(url)
    others = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in parameters]
    return urlunsplit(parts._replace(query=urlencode([*others, *parameters.items()]), fragment=""))
