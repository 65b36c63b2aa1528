"""Shopify's three dialects: the public `/products.json`, the Admin API's export, and `/products/<handle>.js`."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Literal

from tollhouse.catalogue.importers.amounts import decimal, minor_units, priced
from tollhouse.catalogue.importers.article import Faulty, FeedItem, Price, Unreadable, description_text
from tollhouse.catalogue.importers.attribute_labels import attribute_of, declared
from tollhouse.catalogue.importers.availability import in_stock
from tollhouse.catalogue.importers.context import Context
from tollhouse.catalogue.importers.json_text import Object, decoded, objects, text, texts
from tollhouse.html_text import one_line
from tollhouse.services.mattress.attributes.size import declared_size

Dialect = Literal["public", "admin", "js"]

_OPTIONS = 3
_CENTS = 2
_WITHOUT_CHOICE = frozenset({"default title", "default", ""})
_UNSOLD = frozenset({"draft", "archived"})


def read_public(feed: str, context: Context) -> list[FeedItem]:
    """`/products.json`: prices are decimal strings, `available` says whether a variant can be had."""
    return list(_articles(feed, context, "public"))


def read_admin(feed: str, context: Context) -> list[FeedItem]:
    """The Admin API's products: tags are one string, stock is counted, drafts and archived products lie among them."""
    return list(_articles(feed, context, "admin"))


def read_js(feed: str, context: Context) -> list[FeedItem]:
    """`/products/<handle>.js`, one product or a list of them: prices are whole cents."""
    return list(_articles(feed, context, "js"))


def _articles(feed: str, context: Context, dialect: Dialect) -> Iterator[FeedItem]:
    for number, product in enumerate(_products(feed), context.before + 1):
        if not isinstance(product, dict):
            yield FeedItem(line=number, fault="the entry is no object")
        elif dialect != "admin" or product.get("status") not in _UNSOLD:
            yield from _of_product(product, number, context, dialect)


def _products(feed: str) -> list[Any]:
    value = decoded(feed)
    if isinstance(value, dict) and "errors" in value:
        raise Unreadable(f"the shop answered with an error: {str(value['errors'])[:200]}")
    if isinstance(value, dict) and "products" in value:
        value = value["products"]
    elif isinstance(value, dict) and isinstance(value.get("product"), dict):
        value = [value["product"]]
    elif isinstance(value, dict) and "variants" in value:
        value = [value]
    if not isinstance(value, list):
        raise Unreadable("this is no Shopify feed: it has no list of products")
    return value


def _of_product(product: Object, number: int, context: Context, dialect: Dialect) -> Iterator[FeedItem]:
    common = _common(product, number, context)
    variants = objects(product.get("variants"))
    if not variants:
        yield FeedItem(**common, fault="the product has no variants")
        return
    names = _option_names(product)
    sized = _size_option(names, variants)
    for variant in variants:
        try:
            yield _of_variant(product, variant, common, names, sized, dialect)
        except Faulty as fault:
            size = text(variant.get(f"option{sized}")) if sized else ""
            yield FeedItem(**common, size=size, fault=str(fault))


def _of_variant(  # noqa: PLR0917, PLR0913 - a variant within its product
    product: Object, variant: Object, common: dict[str, Any], names: list[str], sized: int, dialect: Dialect
) -> FeedItem:
    chosen = [text(variant.get(f"option{place}")) for place in range(1, _OPTIONS + 1)]
    pairs = [(name, said) for name, said in zip(names, chosen, strict=False) if attribute_of(name) != "size"]
    picture = _image(variant.get("featured_image")) or common["image_url"]
    page = _page_of(common["page_url"], text(variant.get("id")) if sized else "")
    return FeedItem(
        **{**common, "image_url": picture, "page_url": page, "declared": declared(pairs)},
        size=chosen[sized - 1] if sized else "",
        price=_price(variant, dialect),
        availability=_availability(product, variant, dialect),
    )


def _common(product: Object, number: int, context: Context) -> dict[str, Any]:
    handle = text(product.get("handle"))
    identity = text(product.get("id")) or handle
    address = text(product.get("url")) or (f"/products/{handle}" if handle else "")
    images = [_image(each) for each in product.get("images") or []] if isinstance(product.get("images"), list) else []
    first = next((image for image in (*images, _image(product.get("featured_image"))) if image), "")
    return {
        "line": number,
        "id": identity,
        "group": identity,
        "title": one_line(text(product.get("title"))),
        "brand": one_line(text(product.get("vendor"))),
        "description": description_text(text(product.get("body_html")) or text(product.get("description"))),
        "tags": texts(product.get("tags")),
        "kind": one_line(text(product.get("product_type")) or text(product.get("type"))),
        "image_url": first,
        "page_url": context.page(address),
    }


def _page_of(page: str, variant: str) -> str:
    """The product's page with this variant chosen on it, so that a size leads to its own price."""
    return f"{page}?variant={variant}" if page and variant and "?" not in page else page


def _price(variant: Object, dialect: Dialect) -> Price:
    now, before = variant.get("price"), variant.get("compare_at_price")
    if now in (None, ""):
        raise Faulty("has no price")
    if dialect == "js":
        listed = None if before in (None, "") else minor_units(before, _CENTS, "compare_at_price")
        return priced(minor_units(now, _CENTS), listed, _currency(variant))
    if not isinstance(now, str):
        # The .js dialect has whole cents under the same name: a hundredfold price must not pass for one.
        raise Faulty(f'the price {str(now)[:20]} is a number, not a text such as "1299.00": is this shopify-js?')
    listed = _compared(before)
    return priced(decimal(now), listed, _currency(variant))


def _compared(before: Any) -> Decimal | None:
    return None if before in (None, "") else decimal(before, "compare_at_price")


def _currency(variant: Object) -> str:
    """Most feeds do not say. Where prices are shown in several currencies, the shop's own is the one of this sum."""
    for shown in objects(variant.get("presentment_prices")):
        price = shown.get("price")
        if isinstance(price, dict) and text(price.get("amount")) == text(variant.get("price")):
            return text(price.get("currency_code")).upper()
    return text(variant.get("price_currency")).upper()


def _availability(product: Object, variant: Object, dialect: Dialect) -> str:
    if dialect != "admin":
        is_available = variant.get("available", product.get("available", True))
        return in_stock(is_available=is_available is not False)
    counted = variant.get("inventory_quantity")
    if not isinstance(counted, int) or counted > 0 or variant.get("inventory_management", "shopify") is None:
        return "in stock"
    return "backorder" if variant.get("inventory_policy") == "continue" else "out of stock"


def _option_names(product: Object) -> list[str]:
    options = product.get("options")
    if not isinstance(options, list):
        return []
    return [text(each.get("name")) if isinstance(each, dict) else text(each) for each in options]


def _size_option(names: list[str], variants: list[Object]) -> int:
    """Which of the three options is the size, from 1: the one called so, else one of nothing but sizes; 0: none."""
    for place, name in enumerate(names[:_OPTIONS], 1):
        if attribute_of(name) == "size" and not _is_without_choice(variants, place):
            return place
    for place in range(1, _OPTIONS + 1):
        values = [text(variant.get(f"option{place}")) for variant in variants]
        if all(values) and all(map(declared_size, values)):
            return place
    return 0


def _is_without_choice(variants: list[Object], place: int) -> bool:
    return all(text(variant.get(f"option{place}")).lower() in _WITHOUT_CHOICE for variant in variants)


def _image(value: Any) -> str:
    address = text(value.get("src")) if isinstance(value, dict) else text(value)
    return f"https:{address}" if address.startswith("//") else address
