"""WooCommerce's Store API, `/wp-json/wc/store/v1/products`: prices are strings of minor units."""

from collections.abc import Iterator
from typing import Any

from tollhouse.catalogue.importers.amounts import minor_units, priced
from tollhouse.catalogue.importers.article import Faulty, FeedItem, Price, Unreadable, description_text
from tollhouse.catalogue.importers.attribute_labels import attribute_of, declared
from tollhouse.catalogue.importers.availability import in_stock
from tollhouse.catalogue.importers.context import Context
from tollhouse.catalogue.importers.json_text import Object, decoded, objects, text
from tollhouse.html_text import one_line

_VARIATION = "variation"


def read_woocommerce(feed: str, context: Context) -> list[FeedItem]:
    """Products, and the variations among them (`?type=variation`), which alone say what each size costs."""
    value = decoded(feed)
    if isinstance(value, dict) and "code" in value and "message" in value:
        raise Unreadable(f"the shop answered with an error: {text(value['message'])[:200]}")
    entries = value if isinstance(value, list) else [value] if isinstance(value, dict) and "prices" in value else None
    if entries is None:
        raise Unreadable("this is no answer of the WooCommerce Store API: it is no list of products")
    told = {text(each.get("parent")) for each in objects(entries) if each.get("type") == _VARIATION}
    parents = {text(each.get("id")): each for each in objects(entries) if each.get("type") != _VARIATION}
    return [
        article
        for number, entry in enumerate(entries, context.before + 1)
        for article in _articles(entry, number, parents, told, context)
    ]


def _articles(
    entry: Any, number: int, parents: dict[str, Object], told: set[str], context: Context
) -> Iterator[FeedItem]:
    if not isinstance(entry, dict):
        yield FeedItem(line=number, fault="the entry is no object")
    elif entry.get("type") == _VARIATION:
        yield _variation(entry, parents.get(text(entry.get("parent")), {}), number, context)
    elif text(entry.get("id")) not in told:
        yield from _product(entry, number, context)


def _product(entry: Object, number: int, context: Context) -> Iterator[FeedItem]:
    """One article a size where all sizes cost the same; else one without a size, at the price the shop shows."""
    common = _common(entry, entry, number, context)
    try:
        offered: dict[str, Any] = {"price": _price(entry), "availability": _availability(entry)}
    except Faulty as fault:
        offered = {"fault": str(fault)}
    sizes = _terms(entry, "size")
    if len(sizes) > 1 and _costs_differ(entry):
        sizes = []
    for size in sizes or [""]:
        yield FeedItem(**common, **offered, size=size)


def _variation(entry: Object, parent: Object, number: int, context: Context) -> FeedItem:
    common = _common(entry, parent or entry, number, context) | {"group": text(entry.get("parent"))}
    pairs = _chosen(entry)
    size = next((said for name, said in pairs if attribute_of(name) == "size"), "")
    common["declared"] = {**common["declared"], **declared(pairs)}
    common["declared"].pop("size", None)
    try:
        return FeedItem(**common, size=size, price=_price(entry), availability=_availability(entry))
    except Faulty as fault:
        return FeedItem(**common, size=size, fault=str(fault))


def _common(entry: Object, described: Object, number: int, context: Context) -> dict[str, Any]:
    identity = text(entry.get("id"))
    pairs = [
        (text(each.get("name")), text(term.get("name")))
        for each in objects(described.get("attributes"))
        for term in objects(each.get("terms"))
    ]
    return {
        "line": number,
        "id": identity,
        "group": identity,
        "title": one_line(text(described.get("name")) or text(entry.get("name"))),
        "brand": _brand(described, pairs),
        "description": description_text(
            "\n".join(filter(None, (text(described.get(name)) for name in ("short_description", "description"))))
        ),
        "tags": tuple(one_line(text(each.get("name"))) for each in objects(described.get("tags"))),
        "kind": one_line(", ".join(text(each.get("name")) for each in objects(described.get("categories")))),
        "declared": {name: said for name, said in declared(pairs).items() if name != "size"},
        "image_url": next((text(each.get("src")) for each in objects(entry.get("images"))), "")
        or next((text(each.get("src")) for each in objects(described.get("images"))), ""),
        "page_url": context.page(text(entry.get("permalink"))),
    }


def _brand(entry: Object, pairs: list[tuple[str, str]]) -> str:
    named = next((text(each.get("name")) for each in objects(entry.get("brands"))), "")
    return one_line(named or next((said for name, said in pairs if name.strip().lower() == "brand"), ""))


def _price(entry: Object) -> Price:
    prices = entry.get("prices")
    if not isinstance(prices, dict) or prices.get("price") in (None, ""):
        raise Faulty("has no price")
    decimals = prices.get("currency_minor_unit", 2)
    if not isinstance(decimals, int) or isinstance(decimals, bool):
        raise Faulty("the currency_minor_unit is no number of decimals")
    regular = prices.get("regular_price")
    listed = None if regular in (None, "") else minor_units(regular, decimals, "regular_price")
    return priced(minor_units(prices["price"], decimals), listed, text(prices.get("currency_code")).upper())


def _costs_differ(entry: Object) -> bool:
    prices = entry.get("prices")
    costs = prices.get("price_range") if isinstance(prices, dict) else None
    return isinstance(costs, dict) and text(costs.get("min_amount")) != text(costs.get("max_amount"))


def _availability(entry: Object) -> str:
    if entry.get("is_on_backorder") is True:
        return "backorder"
    left = entry.get("low_stock_remaining")
    if entry.get("is_in_stock") is not False and isinstance(left, int) and left > 0:
        return "low stock"
    return in_stock(is_available=entry.get("is_in_stock") is not False)


def _terms(entry: Object, attribute: str) -> list[str]:
    return [
        one_line(text(term.get("name")))
        for each in objects(entry.get("attributes"))
        if attribute_of(text(each.get("name"))) == attribute and each.get("has_variations", True)
        for term in objects(each.get("terms"))
    ]


def _chosen(entry: Object) -> list[tuple[str, str]]:
    """What makes this variation: from its attributes, or from the text "Size: Queen, Feel: Firm"."""
    pairs = [(text(each.get("name")), text(each.get("value"))) for each in objects(entry.get("attributes"))]
    told = [part.partition(":") for part in one_line(text(entry.get("variation"))).split(",")]
    return [pair for pair in pairs if pair[1]] + [(name.strip(), said.strip()) for name, _, said in told if said]
