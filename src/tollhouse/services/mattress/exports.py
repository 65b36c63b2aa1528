"""Endpoints that export the whole catalogue: JSON-LD, CSV, NDJSON and a Google Merchant feed (RSS 2.0)."""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from tollhouse.catalogue.api_types import ResponseCache
from tollhouse.catalogue.exports import CSV, NDJSON, csv_rows, ndjson_rows
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.http.endpoint import JSON, Request, Response, endpoint
from tollhouse.http.response import compute_etag
from tollhouse.services.mattress.catalogue_view import CatalogueView
from tollhouse.services.mattress.product import COOLING, CURRENCY, FIRMNESS, MATTRESSES

TITLE = "Mattresses of several retailers"

# Characters that XML 1.0 does not allow, escaped or not (section 2.2).
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

LD_JSON = "application/ld+json"

_SCHEMA = "https://schema.org/"
_AVAILABILITY = {
    "in stock": "InStock", "low stock": "LimitedAvailability", "preorder": "PreOrder", "backorder": "BackOrder",
    "out of stock": "OutOfStock", "discontinued": "Discontinued",
}  # fmt: skip
_RATINGS = {"firmness": ("Firmness", FIRMNESS), "cooling": ("Cooling", COOLING)}

Json = dict[str, Any]

XML = "application/xml"

# "Furniture > Beds & Accessories > Mattresses" in Google's product taxonomy.
GOOGLE_CATEGORY = 2696
_LONGEST_ID, _LONGEST_TITLE, _LONGEST_DESCRIPTION = 50, 150, 5_000
MERCHANT_AVAILABILITY = {
    "in stock": "in_stock", "low stock": "in_stock", "preorder": "preorder", "backorder": "backorder",
    "out of stock": "out_of_stock", "discontinued": "out_of_stock",
}  # fmt: skip

_ITEM_LIST_SCHEMA = {"type": "object", "description": "A schema.org ItemList of every product"}
_TEXT_SCHEMA = {"type": "string"}

_endpoint = partial(endpoint, "GET", tag="exports")


class ExportEndpoints:
    """Handlers for the exports: every product, ordered by id. Each file is cached until the catalogue changes."""

    def __init__(self, view: CatalogueView) -> None:
        self._view = view
        self._cache = ResponseCache(view.catalogue)
        self._is_demo = False

    async def count(self, _request: Request[None, None]) -> int:
        return len(self._view.catalogue)

    @_endpoint(
        "/api/products.jsonld", id="exportJsonLd", responses={LD_JSON: _ITEM_LIST_SCHEMA, JSON: _ITEM_LIST_SCHEMA}
    )
    async def json_ld(self, request: Request[None, None]) -> Response:
        """Export every product as a schema.org ItemList."""
        return await self._export(
            request.media_type,
            lambda: msgspec.json.encode(item_list(list(self._products_with_retailers()), TITLE, self._about())),
        )

    @_endpoint("/api/products.csv", id="exportCsv", responses={CSV: _TEXT_SCHEMA})
    async def csv(self, _request: Request[None, None]) -> Response:
        """Export every product as CSV, one row each."""
        return await self._export(CSV, lambda: b"".join(csv_rows(MATTRESSES, self._products())))

    @_endpoint("/api/products.ndjson", id="exportNdjson", responses={NDJSON: _TEXT_SCHEMA})
    async def ndjson(self, _request: Request[None, None]) -> Response:
        """Export every product as JSON, one line each."""
        return await self._export(NDJSON, lambda: b"".join(ndjson_rows(self._products())))

    @_endpoint("/api/products.merchant.xml", id="exportMerchant", responses={XML: _TEXT_SCHEMA})
    async def merchant(self, _request: Request[None, None]) -> Response:
        """Export a Google Merchant feed."""
        link = self._view.storefront.base_url or "/"
        return await self._export(
            XML, lambda: merchant_feed(self._products_with_retailers(), TITLE, link, self._about())
        )

    async def _export(self, media_type: str, write: Callable[[], bytes]) -> Response:
        async def make() -> Response:
            self._is_demo = (await self._view.counts()).demo_count > 0
            # Writing out a large catalogue would block the event loop.
            body = await asyncio.to_thread(write)
            charset = "; charset=utf-8" if media_type in (CSV, XML) else ""
            return Response(body, media_type + charset, compute_etag(body))

        return await self._cache.get(media_type, make)

    def _products(self) -> Iterator[Json]:
        return (self._view.storefront.product(item) for item in self._view.catalogue.items(CatalogueQuery()))

    def _products_with_retailers(self) -> Iterator[Json]:
        for product in self._products():
            yield {**product, "retailer_name": self._view.retailer_name(product["retailer"])}

    def _about(self) -> str:
        demo = " Demonstration data: its retailers, brands and products are made up." if self._is_demo else ""
        return f"Prices in Australian dollars, links with affiliate references.{demo}"


def xml_text(text: str) -> str:
    """Escape text for element content or a double-quoted attribute; drops characters that XML does not allow."""
    return escape(_FORBIDDEN.sub("", text), {'"': "&quot;"})


def item_list(products: Sequence[Json], name: str, about: str) -> Json:
    """An ItemList of all products, each a ListItem with its position from 1."""
    return {
        "@context": "https://schema.org",
        "@type": "ItemList",
        "name": name,
        "description": about,
        "itemListOrder": f"{_SCHEMA}ItemListUnordered",
        "numberOfItems": len(products),
        "itemListElement": [
            {"@type": "ListItem", "position": position, "item": as_linked_product(product)}
            for position, product in enumerate(products, start=1)
        ],
    }


def as_linked_product(product: Json) -> Json:
    """A product as a schema.org Product with its offer, without unknown members."""
    exported = {
        "@type": "Product",
        "productID": product["id"],
        "sku": product["id"],
        "name": product["title"],
        "description": product["description"],
        "category": "Mattresses",
        "brand": _named("Brand", product["brand"]),
        "material": product["material"],
        "size": _named("SizeSpecification", product["size"]),
        "image": product["image_url"],
        "url": product["affiliate_url"],
        "keywords": ", ".join(product["tags"]) or None,
        "additionalProperty": list(_properties(product)) or None,
        "offers": _offer(product),
    }
    return {name: value for name, value in exported.items() if value is not None}


def _offer(product: Json) -> Json:
    """The current offer. A discounted one also has the list price as StrikethroughPrice."""
    offer: Json = {
        "@type": "Offer",
        "url": product["affiliate_url"],
        "price": product["sale_price"],
        "priceCurrency": CURRENCY,
        "availability": f"{_SCHEMA}{_AVAILABILITY[product['availability']]}",
        "itemCondition": f"{_SCHEMA}NewCondition",
        "seller": {"@type": "Organization", "name": product["retailer_name"]},
    }
    if product["sale_price"] < product["price"]:
        kind = {"@type": "UnitPriceSpecification", "priceCurrency": CURRENCY}
        offer["priceSpecification"] = [
            {**kind, "price": product["sale_price"]},
            {**kind, "price": product["price"], "priceType": f"{_SCHEMA}StrikethroughPrice"},
        ]
    return offer


def _properties(product: Json) -> Iterable[Json]:
    for member, (name, (low, high)) in _RATINGS.items():
        if product[member] is not None:
            yield {"@type": "PropertyValue", "propertyID": member, "name": name, "value": product[member],
                   "minValue": low, "maxValue": high}  # fmt: skip
    for position in product["sleep_positions"]:
        yield {"@type": "PropertyValue", "propertyID": "sleep_position", "name": "Sleep position", "value": position}


def _named(kind: str, name: str | None) -> Json | None:
    return {"@type": kind, "name": name} if name else None


def merchant_feed(products: Iterable[Json], title: str, link: str, about: str) -> bytes:
    """The feed of all products. Ids, titles and descriptions are cut to the limits of Google's specification."""
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0" xmlns:g="http://base.google.com/ns/1.0">\n<channel>\n'
        f"<title>{xml_text(title)}</title>\n<link>{xml_text(link)}</link>\n<description>{xml_text(about)}</description>\n"
    )
    return "".join((head, *map(_entry, products), "</channel>\n</rss>\n")).encode()


def _entry(product: Json) -> str:
    attributes = (f"<g:{name}>{xml_text(str(value))}</g:{name}>" for name, value in _attributes(product))
    return f"<item>{''.join((*attributes, *_details(product)))}</item>\n"


def _attributes(product: Json) -> Iterator[tuple[str, object]]:
    yield "id", merchant_id(product["id"])
    yield "title", product["title"][:_LONGEST_TITLE]
    yield "description", (product["description"] or product["title"])[:_LONGEST_DESCRIPTION]
    yield "link", product["affiliate_url"]
    yield "image_link", product["image_url"]
    yield "availability", MERCHANT_AVAILABILITY[product["availability"]]
    yield "price", _money(product["price"])
    if product["sale_price"] < product["price"]:
        yield "sale_price", _money(product["sale_price"])
    yield "condition", "new"
    yield "google_product_category", GOOGLE_CATEGORY
    yield "product_type", "Mattresses"
    yield "custom_label_0", product["retailer_name"]
    yield from ((name, product[name]) for name in ("brand", "size", "material") if product[name])
    if not product["brand"]:
        yield "identifier_exists", "no"


def _details(product: Json) -> Iterator[str]:
    exported = {"Firmness": product["firmness"], "Cooling": product["cooling"]}
    exported["Sleep positions"] = ", ".join(product["sleep_positions"]) or None
    for name, value in exported.items():
        if value is not None:
            yield (
                f"<g:product_detail><g:section_name>Comfort</g:section_name><g:attribute_name>{name}</g:attribute_name>"
                f"<g:attribute_value>{xml_text(str(value))}</g:attribute_value></g:product_detail>"
            )


def merchant_id(identity: str) -> str:
    """The product's id; if it is too long for Google, its beginning and a digest."""
    if len(identity) <= _LONGEST_ID:
        return identity
    digest = blake2b(identity.encode(), digest_size=8).hexdigest()
    return f"{identity[: _LONGEST_ID - len(digest) - 1]}-{digest}"


def _money(amount: float) -> str:
    return f"{amount:.2f} {CURRENCY}"
