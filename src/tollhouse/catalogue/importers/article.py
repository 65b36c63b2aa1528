"""What every format is read into first: what can be ordered, in one size and colour, in its seller's words."""

from decimal import Decimal

from msgspec import Struct, field

from tollhouse.html_text import plain_text

MAX_BYTES = 64 * 1024 * 1024
"""A feed's size, unpacked."""
MAX_ARTICLES = 100_000
MAX_DESCRIPTION = 20_000


class Unreadable(ValueError):
    """The whole feed is of no use: nothing of it may land. The text says why, with a line where there is one."""


class Faulty(ValueError):
    """One article is of no use; the text says why."""


class Price(Struct, frozen=True):
    """In the currency's unit. `listed` is the price before a reduction; None where nothing is off."""

    now: Decimal
    listed: Decimal | None = None
    currency: str = ""


class FeedItem(Struct, frozen=True, kw_only=True):
    """`group` joins the articles that are one product in several sizes and colours; "" where it stands alone.

    `line` is that of the file, or the number of the entry where a format has no lines. `size` is what the feed calls
    this very article's size. `declared` holds what it says under a heading of its own by the attribute's name:
    `firmness`, `cooling`, `sleep_positions`, `material`. `description` is plain text. `fault` says why the article is
    of no use.
    """

    line: int
    id: str = ""
    group: str = ""
    title: str = ""
    brand: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    kind: str = ""
    size: str = ""
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    price: Price | None = None
    availability: str = "in stock"
    image_url: str = ""
    page_url: str = ""
    fault: str = ""


def description_text(html: str) -> str:
    """A description as plain text, each block on its own line."""
    return plain_text(html, MAX_DESCRIPTION)
