"""The whole catalogue as a schema.org ItemList in JSON-LD."""

from collections.abc import Iterable, Sequence
from typing import Any

from tollhouse.services.mattress.product import COOLING, CURRENCY, FIRMNESS

LD_JSON = "application/ld+json"

_SCHEMA = "https://schema.org/"
_AVAILABILITY = {
    "in stock": "InStock",
    "low stock": "LimitedAvailability",
    "preorder": "PreOrder",
    "backorder": "BackOrder",
    "out of stock": "OutOfStock",
    "discontinued": "Discontinued",
}
_RATINGS = {"firmness": ("Firmness", FIRMNESS), "cooling": ("Cooling", COOLING)}

Json = dict[str, Any]


def item_list(products: Sequence[Json], name: str, about: str) -> Json:
    """One ItemList of all products, each a ListItem with its position from 1."""
    return {
        "@context": "https://schema.org",
        "@type": "ItemList",
        "name": name,
        "description": about,
        "itemListOrder": f"{_SCHEMA}ItemListUnordered",
        "numberOfItems": len(products),
        "itemListElement": [
            {"@type": "ListItem", "position": position, "item": linked(product)}
            for position, product in enumerate(products, start=1)
        ],
    }


def linked(product: Json) -> Json:
    """A product as schema.org's Product, with its offer; what is not known is left out."""
    told = {
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
    return {name: value for name, value in told.items() if value is not None}


def _offer(product: Json) -> Json:
    """What is asked for it now; a sale shows the list price struck through beside the price to pay."""
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
        offer["priceSpecification"] = [
            {"@type": "UnitPriceSpecification", "price": product["sale_price"], "priceCurrency": CURRENCY},
            {
                "@type": "UnitPriceSpecification",
                "price": product["price"],
                "priceCurrency": CURRENCY,
                "priceType": f"{_SCHEMA}StrikethroughPrice",
            },
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
