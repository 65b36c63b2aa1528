"""A mattress as the Universal Commerce Protocol's product: one variant, its size an option, prices in cents."""

from collections.abc import Sequence
from typing import Any

from tollhouse.services.mattress.merchant_export import CATEGORY
from tollhouse.services.mattress.product import CURRENCY, IN_STOCK

Json = dict[str, Any]

SIZE_OPTION = "Size"
_STATUS = {
    "in stock": "in_stock",
    "low stock": "in_stock",
    "preorder": "preorder",
    "backorder": "backorder",
    "out of stock": "out_of_stock",
    "discontinued": "discontinued",
}
_OBTAINABLE = (*IN_STOCK, "preorder", "backorder")
# A product's id never holds a colon, so a variant's id tells the two apart.
_VARIANT = ":variant"
MATTRESS_CATEGORIES = frozenset({"mattresses", str(CATEGORY), "furniture > beds & accessories > mattresses"})


def variant_id(product_id: str) -> str:
    """The id of a product's one variant."""
    return f"{product_id}{_VARIANT}"


def product_id_of(identity: str) -> str:
    """The product's id, given its own or its variant's."""
    return identity.removesuffix(_VARIANT)


def as_ucp(product: Json, retailer_name: str, inputs: Sequence[str] = ()) -> Json:
    """The product; `inputs` are the ids of a lookup that led to it."""
    is_reduced = product["sale_price"] < product["price"]
    told: Json = {
        "id": product["id"],
        "handle": product["id"].replace(".", "-"),
        "title": product["title"],
        "description": {"plain": product["description"] or product["title"]},
        "url": product["affiliate_url"],
        "categories": _categories(product),
        "price_range": _range(product["sale_price"]),
        "media": [{"type": "image", "url": product["image_url"], "alt_text": product["title"]}],
        "variants": [_variant(product, retailer_name, inputs)],
        "tags": product["tags"],
        "metadata": {
            name: product[name]
            for name in ("brand", "material", "firmness", "cooling", "sleep_positions", "retailer", "availability")
            if product[name] is not None
        },
    }
    if is_reduced:
        told["list_price_range"] = _range(product["price"])
    if product["size"]:
        told["options"] = [{"name": SIZE_OPTION, "values": [{"label": product["size"]}]}]
    return told


def detailed(told: Json, product: Json) -> Json:
    """The product of a question for one: what is selected, and what each option would lead to."""
    if not product["size"]:
        return told
    is_available = product["availability"] in _OBTAINABLE
    values = [{"label": product["size"], "available": is_available, "exists": True}]
    return {
        **told,
        "selected": [{"name": SIZE_OPTION, "label": product["size"]}],
        "options": [{"name": SIZE_OPTION, "values": values}],
    }


def _variant(product: Json, retailer_name: str, inputs: Sequence[str]) -> Json:
    variant: Json = {
        "id": variant_id(product["id"]),
        "sku": product["id"],
        "title": product["size"] or product["title"],
        "description": {"plain": product["title"]},
        "url": product["affiliate_url"],
        "price": _price(product["sale_price"]),
        "availability": {
            "available": product["availability"] in _OBTAINABLE,
            "status": _STATUS[product["availability"]],
        },
        "seller": {"name": retailer_name},
    }
    if product["sale_price"] < product["price"]:
        variant["list_price"] = _price(product["price"])
    if product["size"]:
        variant["options"] = [{"name": SIZE_OPTION, "label": product["size"]}]
    if inputs:
        own = variant["id"]
        variant["inputs"] = [{"id": each, "match": "exact" if each == own else "featured"} for each in inputs]
    return variant


def _categories(product: Json) -> list[Json]:
    told = [
        {"value": str(CATEGORY), "taxonomy": "google_product_category"},
        {"value": "Mattresses", "taxonomy": "merchant"},
    ]
    return [*told, {"value": product["material"], "taxonomy": "merchant"}] if product["material"] else told


def _range(amount: float) -> Json:
    return {"min": _price(amount), "max": _price(amount)}


def _price(amount: float) -> Json:
    return {"amount": round(amount * 100), "currency": CURRENCY}
