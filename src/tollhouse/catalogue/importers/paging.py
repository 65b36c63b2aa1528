"""The pages of a feed at an address: which addresses they have, and when there are no more."""

from collections.abc import AsyncIterator
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from tollhouse.catalogue.importers.article import MAX_ARTICLES, Unreadable
from tollhouse.catalogue.importers.fetcher import Fetched, Fetcher
from tollhouse.catalogue.importers.formats import FormatName
from tollhouse.catalogue.importers.json_text import Object, decoded, objects, text
from tollhouse.catalogue.importers.unicode import text_of, unpacked

SHOPIFY_PAGE = 250
WOOCOMMERCE_PAGE = 100
MOST_PAGES = 500


async def pages_of(fetcher: Fetcher, url: str, format_name: FormatName) -> list[tuple[str, Fetched]]:
    """Every page of the feed, decoded, with the answer it came in. Raises Unreadable: half a feed is none."""
    if format_name == "shopify":
        return [page async for page in _numbered(fetcher, shopify_address(url), "limit", SHOPIFY_PAGE)]
    if format_name == "woocommerce":
        return await _woocommerce(fetcher, url)
    answer = await fetcher.page(url)
    return [(_text(answer), answer)]


def shopify_address(url: str) -> str:
    """Where a shop's products lie: the address itself, or `products.json` of the shop or collection it names."""
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        return url
    return urljoin(
        urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/", query="", fragment="")), "products.json"
    )


async def _woocommerce(fetcher: Fetcher, url: str) -> list[tuple[str, Fetched]]:
    """The products, then the variations, as one list: they belong together, and lie apart."""
    products = [page async for page in _numbered(fetcher, url, "per_page", WOOCOMMERCE_PAGE)]
    if not any(entry.get("type") == "variable" for page, _ in products for entry in _entries(page)):
        return products
    of_variations = _with(url, type="variation")
    probe = await fetcher.answer(_with(of_variations, per_page=str(WOOCOMMERCE_PAGE), page="1"))
    if probe.status == 400:
        # An old shop that does not know this type: what a product shows is all there is.
        return products
    return products + [page async for page in _numbered(fetcher, of_variations, "per_page", WOOCOMMERCE_PAGE)]


async def _numbered(fetcher: Fetcher, url: str, size: str, most: int) -> AsyncIterator[tuple[str, Fetched]]:
    """Pages 1, 2, 3… until one has nothing new in it. The first is given even if it is empty."""
    seen: set[str] = set()
    for number in range(1, MOST_PAGES + 1):
        answer = await fetcher.page(_with(url, **{size: str(most), "page": str(number)}))
        page = _text(answer)
        found = {text(entry.get("id")) or str(entry) for entry in _entries(page)}
        if number > 1 and found <= seen:
            return
        if len(seen | found) > MAX_ARTICLES:
            raise Unreadable(f"the shop has more than {MAX_ARTICLES} products")
        seen |= found
        yield page, answer
    raise Unreadable(f"the feed has more than {MOST_PAGES} pages")


def _entries(page: str) -> list[Object]:
    value = decoded(page)
    return objects(value.get("products") if isinstance(value, dict) else value)


def _text(answer: Fetched) -> str:
    return text_of(unpacked(answer.body), answer.content_type)


def _with(url: str, **parameters: str) -> str:
    parts = urlsplit(url)
    kept = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in parameters]
    return urlunsplit(parts._replace(query=urlencode([*kept, *parameters.items()]), fragment=""))
