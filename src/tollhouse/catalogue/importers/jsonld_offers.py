"""What schema.org offers cost: Offer, AggregateOffer, and the price specifications that tell a sale."""

from decimal import Decimal
from typing import Any

from tollhouse.catalogue.importers.amounts import money, priced
from tollhouse.catalogue.importers.article import Faulty, Price
from tollhouse.catalogue.importers.availability import availability
from tollhouse.catalogue.importers.json_text import Object, text
from tollhouse.catalogue.importers.jsonld_nodes import Graph, types_of, words_of

_BEFORE = frozenset({"StrikethroughPrice", "ListPrice", "MSRP", "SRP", "RegularPrice"})
_AGGREGATE = "AggregateOffer"


def offers_of(graph: Graph, product: Object) -> list[Object]:
    """The single offers: those inside an aggregate where it holds any, else the aggregate itself."""
    found: list[Object] = []
    for offer in graph.several(product.get("offers")):
        inner = graph.several(offer.get("offers")) if _AGGREGATE in types_of(offer) else []
        found += [{**_inherited(offer), **each} for each in inner] or [offer]
    return found


def price_of(graph: Graph, offer: Object, product: Object) -> Price:
    """The price to pay now, and the struck-through one. Raises Faulty."""
    listed: Decimal | None = None
    now: tuple[Decimal, str] | None = None
    for price in graph.several(offer.get("priceSpecification")):
        amount = _amount(price)
        if amount is None:
            continue
        if _kind(price) in _BEFORE:
            listed = amount[0]
        elif now is None or amount[0] < now[0]:
            now = amount
    stated = _amount(offer) or _amount({"price": offer.get("lowPrice"), "priceCurrency": offer.get("priceCurrency")})
    now = stated or now
    if now is None:
        raise Faulty("has no price")
    currency = now[1] or _currency(offer) or _currency(product)
    return priced(now[0], listed, currency)


def availability_of(offer: Object) -> str:
    """The label. Raises Faulty for a word that is not known."""
    return availability(words_of(offer.get("availability")))


def _inherited(aggregate: Object) -> Object:
    return {name: aggregate[name] for name in ("priceCurrency", "availability") if name in aggregate}


def _amount(node: Object) -> tuple[Decimal, str] | None:
    value: Any = node.get("price")
    if isinstance(value, list):
        value = value[0] if value else None
    if value in (None, "") or isinstance(value, dict):
        return None
    amount, currency = money(value)
    return amount, _currency(node) or currency


def _currency(node: Object) -> str:
    return text(node.get("priceCurrency")).upper()


def _kind(price: Object) -> str:
    return words_of(price.get("priceType")).rsplit("/", 1)[-1]
