"""Items of a product feed: what every format is read into, before a service maps it."""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urljoin

from msgspec import Struct

from tollhouse.catalogue.importers.mapping import Mapping
from tollhouse.html_text import plain_text

MAX_WHOLE_BYTES = 64 * 1024 * 1024
"""The size of a response that has to be read as a whole, decompressed."""
MAX_DESCRIPTION = 20_000


class UnreadableFeed(ValueError):
    """The feed cannot be used at all. The message says why, with a line where there is one."""


class FeedItemError(ValueError):
    """One item cannot be used; the message says why."""


class Price(Struct, frozen=True):
    """In the currency's unit. `listed` is the price before a reduction, None without one."""

    now: Decimal
    listed: Decimal | None = None
    currency: str = ""


class FeedItem(Struct, frozen=True, kw_only=True):
    """One variant of a product, as its seller describes it.

    `line` is the line of the file, or the number of the entry from 1 where a format has no lines. `group` joins the
    variants of one product ("" for a single one), and `variant` is the variant's own id. `options` are what tells a
    variant from the others, as pairs of heading and value; `choices` are options at one price that the feed does not
    list as variants. `attributes` are further properties by heading. `variant_url` is the page with this variant
    selected. `fault` says why the item cannot be used.
    """

    line: int
    id: str = ""
    group: str = ""
    variant: str = ""
    title: str = ""
    brand: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    category: str = ""
    size: str = ""
    options: tuple[tuple[str, str], ...] = ()
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    price: Price | None = None
    availability: str = "in stock"
    image_url: str = ""
    page_url: str = ""
    variant_url: str = ""
    fault: str = ""


class StreamedItems(Iterable[FeedItem]):
    """Items that are read from their file in each iteration."""

    def __init__(self, read: Callable[[], Iterator[FeedItem]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[FeedItem]:
        return self._read()


class Context(Struct, frozen=True):
    """What a reader knows besides the feed. `site` is the shop's address with a slash at the end, or ""."""

    site: str = ""
    mapping: Mapping = Mapping()

    def page(self, address: str) -> str:
        """An absolute address; unchanged where the site is unknown."""
        if not address or not self.site:
            return address
        try:
            return urljoin(self.site, address)
        except ValueError:
            return address


def item_or_fault(members: dict[str, Any], read_offer: Callable[[], dict[str, Any]]) -> FeedItem:
    """An item with the `price` and `availability` that are read, or with the fault if they cannot be."""
    try:
        return FeedItem(**members, **read_offer())
    except FeedItemError as fault:
        return FeedItem(**members, fault=str(fault))


def description_text(html: str) -> str:
    """A description as plain text, each block on its own line."""
    return plain_text(html, MAX_DESCRIPTION)


def reduced_price(now: Decimal, listed: Decimal | None, currency: str = "") -> Price:
    """A price, with the one before the reduction only where that is higher."""
    return Price(now, listed if listed is not None and listed > now else None, currency)


def sale_price(listed: Decimal, sale: Decimal | None, currency: str = "") -> Price:
    """A list price, with a sale price only where that is lower."""
    return reduced_price(listed if sale is None else min(sale, listed), listed, currency)
