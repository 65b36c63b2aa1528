"""WooCommerce's Store API, `/wp-json/wc/store/v1/products`: prices are strings of minor units."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.fetcher import Fetcher, page_entries, with_parameters
from tollhouse.catalogue.importers.items import (
    Context,
    FeedItem,
    FeedItemError,
    Price,
    StreamedItems,
    UnreadableFeed,
    description_text,
    item_or_fault,
    reduced_price,
)
from tollhouse.catalogue.importers.json_text import Object, decode_json, document_parts, objects, text
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.values import availability, minor_units
from tollhouse.html_text import one_line
from tollhouse.storage.spool import Spool

_PAGE_SIZE = 100
_VARIATION = "variation"


def read_woocommerce(documents: list[Document], context: Context) -> Iterable[FeedItem]:
    """Products, and the variations among them (`?type=variation`), which alone say what each size costs.

    The documents are read one after another, anew in each iteration.
    """

    def entries() -> Iterator[Any]:
        return chain.from_iterable(map(_entries, documents))

    parents = _parents(lambda: (each for each in entries() if isinstance(each, dict)))

    def read() -> Iterator[FeedItem]:
        for number, entry in enumerate(entries(), start=1):
            if not isinstance(entry, dict):
                yield FeedItem(line=number, fault="the entry is not an object")
            elif entry.get("type") == _VARIATION:
                yield _variation(entry, parents.get(text(entry.get("parent"))) or {}, number, context)
            elif not parents.has(text(entry.get("id"))):
                choices = {} if _costs_differ(entry) else dict(_choices(entry))
                common = _common(entry, entry, {*choices}, number, context)
                yield _item({**common, "choices": tuple(choices.items())}, entry)

    return StreamedItems(read)


def _parents(entries: Callable[[], Iterator[Object]]) -> Spool[Object]:
    """The products that have variations, by id."""
    variations, parents = Spool(str), Spool(Object)
    for entry in entries():
        if entry.get("type") == _VARIATION:
            variations.add(text(entry.get("parent")), "")
    if variations:
        for entry in entries():
            if entry.get("type") != _VARIATION and variations.has(text(entry.get("id"))):
                parents.add(text(entry.get("id")), entry)
    return parents


def _entries(document: Document) -> Iterator[Any]:
    """One after another. Raises UnreadableFeed."""
    members: dict[str | None, Any] = {}
    for part in document_parts(document):
        value = decode_json(part.text)
        if part.is_element:
            yield value
        else:
            members[part.member] = value
    if "code" in members and "message" in members:
        raise UnreadableFeed(f"the shop returned an error: {text(members['message'])[:200]}")
    if "prices" in members:
        yield members
    elif not isinstance(members.get(None), list):
        raise UnreadableFeed("this is not a response of the WooCommerce Store API: it has no list of products")


def _variation(entry: Object, product: Object, number: int, context: Context) -> FeedItem:
    options = tuple(_options(entry))
    common = _common(entry, product or entry, {name for name, _ in options}, number, context)
    return _item({**common, "group": text(entry.get("parent")), "options": options}, entry)


def _item(common: dict[str, Any], entry: Object) -> FeedItem:
    return item_or_fault(common, lambda: {"price": _price(entry), "availability": _availability(entry)})


def _common(entry: Object, product: Object, chosen: set[str], number: int, context: Context) -> dict[str, Any]:
    """What an item and its product say; the attributes in `chosen` are options or choices."""
    identity = text(entry.get("id"))
    pairs = [
        (one_line(text(each.get("name"))), one_line(text(term.get("name"))))
        for each in objects(product.get("attributes"))
        for term in objects(each.get("terms"))
    ]
    brand = next((text(each.get("name")) for each in objects(product.get("brands"))), "")
    descriptions = (text(product.get(name)) for name in ("short_description", "description"))
    images = [text(each.get("src")) for source in (entry, product) for each in objects(source.get("images"))]
    return {
        "line": number,
        "id": identity,
        "group": identity,
        "variant": identity,
        "title": one_line(text(product.get("name")) or text(entry.get("name"))),
        "brand": one_line(brand or next((value for name, value in pairs if name.lower() == "brand"), "")),
        "description": description_text("\n".join(filter(None, descriptions))),
        "tags": tuple(one_line(text(each.get("name"))) for each in objects(product.get("tags"))),
        "category": one_line(", ".join(text(each.get("name")) for each in objects(product.get("categories")))),
        "attributes": tuple((name, value) for name, value in pairs if name not in chosen),
        "image_url": next(filter(None, images), ""),
        "page_url": context.page(text(entry.get("permalink"))),
    }


def _price(entry: Object) -> Price:
    prices = entry.get("prices")
    if not isinstance(prices, dict) or prices.get("price") in (None, ""):
        raise FeedItemError("has no price")
    decimals = prices.get("currency_minor_unit", 2)
    if not isinstance(decimals, int) or isinstance(decimals, bool):
        raise FeedItemError("the currency_minor_unit is not a number of decimals")
    regular = prices.get("regular_price")
    listed = None if regular in (None, "") else minor_units(regular, decimals, "regular_price")
    return reduced_price(minor_units(prices["price"], decimals), listed, text(prices.get("currency_code")).upper())


def _costs_differ(entry: Object) -> bool:
    prices = entry.get("prices")
    costs = prices.get("price_range") if isinstance(prices, dict) else None
    return isinstance(costs, dict) and text(costs.get("min_amount")) != text(costs.get("max_amount"))


def _availability(entry: Object) -> str:
    if entry.get("is_on_backorder") is True:
        return "backorder"
    remaining = entry.get("low_stock_remaining")
    if entry.get("is_in_stock") is not False and isinstance(remaining, int) and remaining > 0:
        return "low stock"
    return availability(entry.get("is_in_stock") is not False)


def _choices(entry: Object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Attributes that a buyer chooses from."""
    for each in objects(entry.get("attributes")):
        terms = tuple(one_line(text(term.get("name"))) for term in objects(each.get("terms")))
        if each.get("has_variations", True) and terms:
            yield one_line(text(each.get("name"))), terms


def _options(entry: Object) -> Iterator[tuple[str, str]]:
    """What makes this variation: its attributes, or the text "Size: Queen, Feel: Firm"."""
    for each in objects(entry.get("attributes")):
        if value := text(each.get("value")):
            yield text(each.get("name")), value
    for part in one_line(text(entry.get("variation"))).split(","):
        name, _, value = part.partition(":")
        if value.strip():
            yield name.strip(), value.strip()


async def _fetch_pages(fetcher: Fetcher, url: str) -> list[Document]:
    """The pages of products, then those of variations."""
    products = await fetcher.numbered_pages(url, "per_page", _PAGE_SIZE)
    if not any(entry.get("type") == "variable" for page in products for entry in page_entries(page)):
        return products
    variations = with_parameters(url, type="variation")
    status, _ = await fetcher.response(with_parameters(variations, per_page=str(_PAGE_SIZE), page="1"))
    if status == 400:
        # An old shop that does not know this type: it shows nothing else than its products.
        return products
    return products + await fetcher.numbered_pages(variations, "per_page", _PAGE_SIZE)


register(
    Format(
        name="woocommerce",
        help="WooCommerce's Store API, `/wp-json/wc/store/v1/products`; every page and its variations",
        prices="strings of minor units",
        read_items=read_woocommerce,
        fetch_pages=_fetch_pages,
    )
)
