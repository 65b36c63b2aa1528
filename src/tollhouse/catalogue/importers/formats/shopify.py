"""Shopify's JSON: the public `/products.json`, the Admin API's products, and `/products/<handle>.js`."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit, urlunsplit

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.fetcher import Fetcher
from tollhouse.catalogue.importers.items import (
    Context,
    FeedItem,
    FeedItemError,
    Price,
    StreamedItems,
    UnreadableFeed,
    description_text,
    reduced_price,
)
from tollhouse.catalogue.importers.json_text import Object, decode_json, document_parts, objects, text, texts
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.values import availability, feed_money, minor_units
from tollhouse.html_text import one_line

Dialect = Literal["public", "admin", "js"]

_PAGE_SIZE = 250
_MAX_OPTIONS = 3
_CENTS = 2
_UNSOLD = frozenset({"draft", "archived"})


def read_shopify(documents: list[Document], context: Context, dialect: Dialect) -> Iterable[FeedItem]:
    """The variants of every product, one document after another; read anew in each iteration.

    `public` is `/products.json`: prices are decimal strings, `available` says whether a variant is in stock. `admin`:
    tags are one string, stock is counted, drafts and archived products are left out. `js` is `/products/<handle>.js`,
    one product or a list of them: prices are whole cents.
    """

    def read() -> Iterator[FeedItem]:
        products = chain.from_iterable(map(_products, documents))
        for number, product in enumerate(products, start=1):
            if not isinstance(product, dict):
                yield FeedItem(line=number, fault="the entry is not an object")
            elif dialect != "admin" or product.get("status") not in _UNSOLD:
                yield from product_items(product, [number], context, dialect)

    return StreamedItems(read)


def product_items(product: Object, lines: Sequence[int], context: Context, dialect: Dialect) -> Iterator[FeedItem]:
    """One item for each variant; `lines` has a line for each, or one for all."""
    handle = text(product.get("handle"))
    identity = text(product.get("id")) or handle
    image_urls = [_image(each) for each in (*_list(product.get("images")), product.get("featured_image"))]
    common: dict[str, Any] = {
        "line": lines[0],
        "id": identity,
        "group": identity,
        "title": one_line(text(product.get("title"))),
        "brand": one_line(text(product.get("vendor"))),
        "description": description_text(text(product.get("body_html")) or text(product.get("description"))),
        "tags": texts(product.get("tags")),
        "category": one_line(text(product.get("product_type")) or text(product.get("type"))),
        "image_url": next(filter(None, image_urls), ""),
        "page_url": context.page(text(product.get("url")) or (f"/products/{handle}" if handle else "")),
    }
    variants = objects(_list(product.get("variants")))
    if not variants:
        yield FeedItem(**common, fault="has no variants, so no price")
    for variant, line in zip(variants, lines if len(lines) > 1 else [*lines] * len(variants), strict=True):
        item = {**common, "line": line, **_variant(product, variant, common["page_url"])}
        item["image_url"] = _image(variant.get("featured_image")) or common["image_url"]
        try:
            price = _price(variant, dialect)
            yield FeedItem(**item, price=price, availability=_availability(product, variant, dialect))
        except FeedItemError as fault:
            yield FeedItem(**item, fault=str(fault))


def _products(document: Document) -> Iterator[Any]:
    """One after another. Raises UnreadableFeed, also after products: an error may stand behind them."""
    members: dict[str | None, Any] = {}
    for part in document_parts(document, {"products"}):
        value = decode_json(part.text)
        if part.is_element:
            yield value
        else:
            members[part.member] = value
    if "errors" in members:
        raise UnreadableFeed(f"the shop returned an error: {str(members['errors'])[:200]}")
    if isinstance(members.get("products", members.get(None)), list):
        return
    if "products" not in members and isinstance(members.get("product"), dict):
        yield members["product"]
    elif "products" not in members and "variants" in members:
        yield members
    else:
        raise UnreadableFeed("this is not a Shopify feed: it has no list of products")


def _variant(product: Object, variant: Object, page_url: str) -> dict[str, Any]:
    options = _list(product.get("options"))
    names = [text(each.get("name")) if isinstance(each, dict) else text(each) for each in options]
    names += [""] * (_MAX_OPTIONS - len(names))
    identity = text(variant.get("id"))
    return {
        "variant": identity or text(variant.get("sku")),
        "options": tuple(
            (name or f"option {place}", value)
            for place, name in enumerate(names[:_MAX_OPTIONS], start=1)
            if (value := text(variant.get(f"option{place}"))) and value.lower() not in {"default title", "default"}
        ),
        "variant_url": f"{page_url}?variant={identity}" if page_url and identity and "?" not in page_url else "",
    }


def _price(variant: Object, dialect: Dialect) -> Price:
    now, before = variant.get("price"), variant.get("compare_at_price")
    if now in (None, ""):
        raise FeedItemError("has no price")
    listed: Decimal | None = None
    if dialect == "js":
        if before not in (None, ""):
            listed = minor_units(before, _CENTS, "compare_at_price")
        return reduced_price(minor_units(now, _CENTS), listed, _currency(variant))
    if not isinstance(now, str):
        # The .js dialect has whole cents under the same name: a price a hundred times too high must not pass.
        raise FeedItemError(f'the price {str(now)[:20]} is a number, not text such as "1299.00": is this shopify-js?')
    if before not in (None, ""):
        listed = feed_money(before, "compare_at_price")[0]
    return reduced_price(feed_money(now)[0], listed, _currency(variant))


def _currency(variant: Object) -> str:
    """Most feeds do not say. Where prices are shown in several currencies, the shop's own is the one of this amount."""
    for shown in objects(variant.get("presentment_prices")):
        price = shown.get("price")
        if isinstance(price, dict) and text(price.get("amount")) == text(variant.get("price")):
            return text(price.get("currency_code")).upper()
    return text(variant.get("price_currency")).upper()


def _availability(product: Object, variant: Object, dialect: Dialect) -> str:
    if dialect != "admin":
        return availability(variant.get("available", product.get("available", True)) is not False)
    counted = variant.get("inventory_quantity")
    if not isinstance(counted, int) or counted > 0 or variant.get("inventory_management", "shopify") is None:
        return "in stock"
    return "backorder" if variant.get("inventory_policy") == "continue" else "out of stock"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _image(value: Any) -> str:
    address = text(value.get("src")) if isinstance(value, dict) else text(value)
    return f"https:{address}" if address.startswith("//") else address


async def _fetch_pages(fetcher: Fetcher, url: str) -> list[Document]:
    """`products.json` of the shop or the collection at the address, or the address itself where it is JSON."""
    parts = urlsplit(url)
    if not parts.path.endswith(".json"):
        folder = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/", query="", fragment=""))
        url = urljoin(folder, "products.json")
    return await fetcher.numbered_pages(url, "limit", _PAGE_SIZE)


register(
    Format(
        name="shopify",
        help="Shopify's public `/products.json`; every page when given an address",
        prices="decimal strings",
        read_items=partial(read_shopify, dialect="public"),
        fetch_pages=_fetch_pages,
        names_currency=False,
    ),
    Format(
        name="shopify-admin",
        help="products of Shopify's Admin API; drafts and archived products are left out, stock is counted",
        prices="decimal strings",
        read_items=partial(read_shopify, dialect="admin"),
        names_currency=False,
    ),
    Format(
        name="shopify-js",
        help="Shopify's `/products/<handle>.js`, one product or a list",
        prices="whole cents",
        read_items=partial(read_shopify, dialect="js"),
        names_currency=False,
    ),
)
