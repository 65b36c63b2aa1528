"""A whole feed, from a file or an address: loaded as documents, then read as products or as a table."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tollhouse.catalogue.importers.documents import Document, are_streamed
from tollhouse.catalogue.importers.fetcher import FetchRules, Progress, open_fetcher
from tollhouse.catalogue.importers.items import Context, FeedItem, UnreadableFeed
from tollhouse.catalogue.importers.registry import Format
from tollhouse.catalogue.importers.tables import Table, items_from_table, table_from_items


def is_address(source: str) -> bool:
    """Whether the source is fetched, not opened."""
    return source.lower().startswith(("http://", "https://"))


@asynccontextmanager
async def open_feed(
    source: str | Path, form: Format, progress: Progress, rules: FetchRules | None = None
) -> AsyncIterator[list[Document]]:
    """The documents of a feed, several where it has pages. What is fetched is there until the end of the context.

    Raises UnreadableFeed, and OSError for a file that cannot be opened.
    """
    if not is_address(str(source)):
        await asyncio.to_thread(_check_readable, Path(source))
        yield [Document(file=Path(source))]
        return
    async with open_fetcher(progress, rules or FetchRules()) as fetcher:
        if form.fetch_pages:
            yield await form.fetch_pages(fetcher, str(source))
        else:
            yield [await fetcher.fetch(str(source))]


def site_of(documents: list[Document]) -> str:
    """The origin of the address a feed was fetched from, "" for a file."""
    parts = urlsplit(documents[0].url)
    return f"{parts.scheme}://{parts.netloc}/" if parts.netloc else ""


def read_items(documents: list[Document], form: Format, context: Context) -> Iterable[FeedItem]:
    """The products of a feed, those of a large one read anew in each iteration.

    Raises UnreadableFeed, also in the iteration, and nothing else whatever the documents contain.
    """
    _check_content(documents)
    if form.read_items:
        return form.read_items(documents, context)
    assert form.read_table, form.name
    return items_from_table(form.read_table(documents, context), context)


def read_table(documents: list[Document], form: Format, context: Context, currency: str = "") -> Table:
    """The rows of a feed; `currency` is that of prices which name none. Raises UnreadableFeed, and nothing else."""
    if form.read_table:
        return form.read_table(documents, context)
    items = read_items(documents, form, context)
    return table_from_items(items, currency, is_streamed=are_streamed(documents))


def _check_content(documents: list[Document]) -> None:
    if not any(chunk.strip() for document in documents for chunk in document.chunks()):
        raise UnreadableFeed("the feed is empty")


def _check_readable(path: Path) -> None:
    with path.open("rb"):
        pass
