"""A whole feed read: from a file or an address, in any of the formats, into rows."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from tollhouse.catalogue.importers.article import MAX_ARTICLES, MAX_BYTES, FeedItem, Unreadable
from tollhouse.catalogue.importers.context import Context
from tollhouse.catalogue.importers.fetcher import fetcher
from tollhouse.catalogue.importers.formats import FORMATS, Format, FormatName
from tollhouse.catalogue.importers.mapping import Mapping
from tollhouse.catalogue.importers.paging import pages_of
from tollhouse.catalogue.importers.unicode import text_of, unpacked
from tollhouse.services.mattress.feed_item import ImportedRow
from tollhouse.services.mattress.import_rows import Terms, repeats_left_out, rows_of
from tollhouse.services.mattress.product import CURRENCY

Tell = Callable[[str], None]


class Wanted(Struct, frozen=True):
    """What to read. `site` is the shop's address, where links in the feed lack it.

    `currency` is that of prices which name none. `allow_loopback` lets addresses of this machine be fetched.
    """

    source: str
    format_name: FormatName
    currency: str = ""
    site: str = ""
    mapping: Mapping = Mapping()
    allow_loopback: bool = False


async def read_feed(wanted: Wanted, tell: Tell) -> list[ImportedRow]:
    """The rows, good and refused. Raises Unreadable when the feed is of no use as a whole."""
    if is_address(wanted.source):
        async with fetcher(tell, allow_loopback=wanted.allow_loopback) as fetching:
            pages = await pages_of(fetching, wanted.source, wanted.format_name)
        texts, site = [page for page, _ in pages], wanted.site or _origin(pages[0][1].url)
    else:
        texts, site = [await asyncio.to_thread(_file, wanted)], wanted.site
    rows = await asyncio.to_thread(rows_in, texts, wanted, site)
    tell(f"{len(rows)} rows read, {sum(bool(row.refused) for row in rows)} of them refused")
    return rows


def rows_in(texts: list[str], wanted: Wanted, site: str = "") -> list[ImportedRow]:
    """The rows of a feed's pages. Raises Unreadable, and nothing else whatever the texts hold."""
    chosen = FORMATS[wanted.format_name]
    articles = _articles(texts, chosen, wanted, site)
    currency = wanted.currency or ("" if chosen.names_currency else CURRENCY)
    rows = rows_of(articles, Terms(currency, site))
    is_paged = len(texts) > 1
    # A shop that changes while it is paged through shows one product on two pages.
    return list(repeats_left_out(rows)) if chosen.repeats or is_paged else rows


def is_address(source: str) -> bool:
    """Whether the source is to be fetched, not opened."""
    return source.lower().startswith(("http://", "https://"))


def _articles(texts: list[str], chosen: Format, wanted: Wanted, site: str) -> list[FeedItem]:
    if not any(text.strip() for text in texts):
        raise Unreadable("the feed is empty")
    if wanted.format_name == "woocommerce" and len(texts) > 1:
        texts = [_joined(texts)]
    articles: list[FeedItem] = []
    for text in texts:
        before = articles[-1].line if articles else 0
        articles += chosen.read(text, Context(site, before, wanted.mapping))
        if len(articles) > MAX_ARTICLES:
            raise Unreadable(f"the feed has more than {MAX_ARTICLES} things to order")
    return articles


def _joined(texts: list[str]) -> str:
    """Lists as one list: variations on a later page speak of products on an earlier one."""
    inner = [text.strip().removeprefix("[").removesuffix("]").strip() for text in texts]
    return f"[{','.join(filter(None, inner))}]"


def _file(wanted: Wanted) -> str:
    with Path(wanted.source).open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if not raw.strip():
        raise Unreadable("the file is empty")
    return text_of(unpacked(raw), encoding=wanted.mapping.encoding)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"
