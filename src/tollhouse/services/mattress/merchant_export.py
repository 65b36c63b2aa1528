"""The whole catalogue as a Google Merchant Center feed: RSS 2.0 with attributes in the `g` namespace."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from tollhouse.services.mattress.product import CURRENCY
from tollhouse.services.mattress.xml_text import xml_text

XML = "application/xml"

# "Furniture > Beds & Accessories > Mattresses" in Google's product taxonomy.
CATEGORY = 2696
_LONGEST_ID, _LONGEST_TITLE, _LONGEST_DESCRIPTION = 50, 150, 5_000
_AVAILABILITY = {
    "in stock": "in_stock",
    "low stock": "in_stock",
    "preorder": "preorder",
    "backorder": "backorder",
    "out of stock": "out_of_stock",
    "discontinued": "out_of_stock",
}


def merchant_feed(products: Iterable[dict[str, Any]], title: str, link: str, about: str) -> bytes:
    """The feed of all products; ids, titles and descriptions are cut to the bounds of Google's specification."""
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0" xmlns:g="http://base.google.com/ns/1.0">\n<channel>\n'
        f"<title>{xml_text(title)}</title>\n<link>{xml_text(link)}</link>\n<description>{xml_text(about)}</description>\n"
    )
    return "".join((head, *map(_entry, products), "</channel>\n</rss>\n")).encode()


def _entry(product: dict[str, Any]) -> str:
    attributes = "".join(f"<g:{name}>{xml_text(str(value))}</g:{name}>" for name, value in _attributes(product))
    return f"<item>{attributes}{''.join(_details(product))}</item>\n"


def _attributes(product: dict[str, Any]) -> Iterator[tuple[str, object]]:
    yield "id", merchant_id(product["id"])
    yield "title", product["title"][:_LONGEST_TITLE]
    yield "description", (product["description"] or product["title"])[:_LONGEST_DESCRIPTION]
    yield "link", product["affiliate_url"]
    yield "image_link", product["image_url"]
    yield "availability", _AVAILABILITY[product["availability"]]
    yield "price", _money(product["price"])
    if product["sale_price"] < product["price"]:
        yield "sale_price", _money(product["sale_price"])
    yield "condition", "new"
    yield "google_product_category", CATEGORY
    yield "product_type", "Mattresses"
    yield "custom_label_0", product["retailer_name"]
    yield from ((name, product[name]) for name in ("brand", "size", "material") if product[name])
    if not product["brand"]:
        yield "identifier_exists", "no"


def _details(product: dict[str, Any]) -> Iterator[str]:
    told = {"Firmness": product["firmness"], "Cooling": product["cooling"]}
    told["Sleep positions"] = ", ".join(product["sleep_positions"]) or None
    for name, value in told.items():
        if value is not None:
            yield (
                f"<g:product_detail><g:section_name>Comfort</g:section_name><g:attribute_name>{name}</g:attribute_name>"
                f"<g:attribute_value>{xml_text(str(value))}</g:attribute_value></g:product_detail>"
            )


def merchant_id(identity: str) -> str:
    """The product's id where it is short enough for Google, else its beginning and a digest of it all."""
    if len(identity) <= _LONGEST_ID:
        return identity
    digest = blake2b(identity.encode(), digest_size=8).hexdigest()
    return f"{identity[: _LONGEST_ID - len(digest) - 1]}-{digest}"


def _money(amount: float) -> str:
    return f"{amount:.2f} {CURRENCY}"
