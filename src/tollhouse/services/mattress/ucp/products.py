"""Products in UCP's form: one variant each, the size as an option, prices in cents."""

from collections.abc import Sequence
from typing import Any

from tollhouse.services.mattress.exports import GOOGLE_CATEGORY, MERCHANT_AVAILABILITY
from tollhouse.services.mattress.product import CURRENCY, IN_STOCK

Json = dict[str, Any]

SIZE_OPTION = "Size"
_STATUS = {**MERCHANT_AVAILABILITY, "discontinued": "discontinued"}
_OBTAINABLE = (*IN_STOCK, "preorder", "backorder")
# Product ids contain no colon, so a variant's id cannot be a product's.
_VARIANT = ":variant"
MATTRESS_CATEGORIES = frozenset({"mattresses", str(GOOGLE_CATEGORY), "furniture > beds & accessories > mattresses"})


def product_id_of(identity: str) -> str:
    """The product's id, from its own id or its variant's."""
    return identity.removesuffix(_VARIANT)


def as_ucp(product: Json, retailer_name: str, inputs: Sequence[str] = ()) -> Json:
    """A UCP product; `inputs` are the ids of a lookup that matched it."""
    merchant = [{"value": each, "taxonomy": "merchant"} for each in ("Mattresses", product["material"]) if each]
    ucp: Json = {
        "id": product["id"],
        "handle": product["id"].replace(".", "-"),
        "title": product["title"],
        "description": {"plain": product["description"] or product["title"]},
        "url": product["affiliate_url"],
        "categories": [{"value": str(GOOGLE_CATEGORY), "taxonomy": "google_product_category"}, *merchant],
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
    if product["sale_price"] < product["price"]:
        ucp["list_price_range"] = _range(product["price"])
    if product["size"]:
        ucp["options"] = [{"name": SIZE_OPTION, "values": [{"label": product["size"]}]}]
    return ucp


def product_detail(ucp: Json, product: Json) -> Json:
    """A UCP product with the selected options and the availability of each option."""
    if not product["size"]:
        return ucp
    is_available = product["availability"] in _OBTAINABLE
    values = [{"label": product["size"], "available": is_available, "exists": True}]
    return {
        **ucp,
        "selected": [{"name": SIZE_OPTION, "label": product["size"]}],
        "options": [{"name": SIZE_OPTION, "values": values}],
    }


def _variant(product: Json, retailer_name: str, inputs: Sequence[str]) -> Json:
    variant: Json = {
        "id": f"{product['id']}{_VARIANT}",
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


def _range(amount: float) -> Json:
    return {"min": _price(amount), "max": _price(amount)}


def _price(amount: float) -> Json:
    return {"amount": round(amount * 100), "currency": CURRENCY}
