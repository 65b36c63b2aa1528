"""The registry of import formats: each module in `formats/` registers what it reads."""

from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.fetcher import Fetcher
from tollhouse.catalogue.importers.items import Context, FeedItem
from tollhouse.catalogue.importers.tables import Table


class Format(Struct, frozen=True, kw_only=True):
    """One format, with what `--help` and docs/importers.md say of it.

    A format of products has `read_items`, which can be iterated again, one of columns `read_table`. Both raise
    UnreadableFeed, and nothing else. `fetch_pages` fetches a feed that has pages. `names_currency` is False where
    prices have no place for a currency. `repeats`: one product may occur twice in a feed. `endings` are the file names
    it is recognised by.
    """

    name: str
    help: str
    prices: str
    read_items: Callable[[list[Document], Context], Iterable[FeedItem]] | None = None
    read_table: Callable[[list[Document], Context], Table] | None = None
    fetch_pages: Callable[[Fetcher, str], Awaitable[list[Document]]] | None = None
    names_currency: bool = True
    repeats: bool = False
    endings: tuple[str, ...] = ()


FORMATS: dict[str, Format] = {}


def register(*formats: Format) -> None:
    """Add formats, in the order in which they are listed."""
    for each in formats:
        assert each.name not in FORMATS, each.name
        FORMATS[each.name] = each
