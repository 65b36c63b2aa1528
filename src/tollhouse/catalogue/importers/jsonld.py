"""schema.org products in the JSON-LD of a page: Product, ProductGroup with hasVariant, ItemList, @graph."""

from collections.abc import Iterator
from typing import Any

from tollhouse.catalogue.importers.article import Faulty, FeedItem, Unreadable, description_text
from tollhouse.catalogue.importers.attribute_labels import declared
from tollhouse.catalogue.importers.context import Context
from tollhouse.catalogue.importers.json_text import Object, objects, text, texts
from tollhouse.catalogue.importers.jsonld_nodes import GROUP, Graph, types_of, words_of
from tollhouse.catalogue.importers.jsonld_offers import availability_of, offers_of, price_of
from tollhouse.catalogue.importers.jsonld_scripts import values_of
from tollhouse.html_text import one_line

_IDENTITIES = ("productID", "sku", "mpn", "gtin", "gtin13", "@id", "url")
_GROUP_IDENTITIES = ("productGroupID", *_IDENTITIES)


def read_jsonld(feed: str, context: Context) -> list[FeedItem]:
    """The articles of every product on the page, numbered by product. Raises Unreadable where there is no JSON-LD."""
    graph = Graph(values_of(feed))
    products = graph.products()
    if not products:
        raise Unreadable("the JSON-LD has no product in it")
    return [
        article
        for number, product in enumerate(products, context.before + 1)
        for article in _articles(graph, product, number, context)
    ]


def _articles(graph: Graph, product: Object, number: int, context: Context) -> Iterator[FeedItem]:
    variants = graph.several(product.get("hasVariant")) if GROUP in types_of(product) else []
    if not variants:
        yield from _of_product(graph, product, {}, number, context)
    for variant in variants:
        yield from _of_product(graph, variant, product, number, context)


def _of_product(graph: Graph, product: Object, group: Object, number: int, context: Context) -> Iterator[FeedItem]:
    """One article an offer: shops that know no variants make an offer of each size."""
    common = _common(product, group, number, context)
    offers = offers_of(graph, product) or offers_of(graph, group)
    if not offers:
        yield FeedItem(**common, fault="has no offer, so no price")
    sizes = [_offered_size(graph, offer) for offer in offers]
    for offer, size in zip(offers, sizes, strict=True):
        article = {**common, "page_url": common["page_url"] or context.page(text(offer.get("url")))}
        if size and len(set(sizes)) > 1:
            article |= {"size": size, "group": common["group"] or common["id"]}
        elif len(offers) > 1:
            # Several offers of one thing, by seller or by condition: the cheapest that can be had counts.
            article["group"] = common["group"] or common["id"]
        try:
            yield FeedItem(**article, price=price_of(graph, offer, product), availability=availability_of(offer))
        except Faulty as fault:
            yield FeedItem(**article, fault=str(fault))


def _common(product: Object, group: Object, number: int, context: Context) -> dict[str, Any]:
    def first(name: str) -> Any:
        return product.get(name) or group.get(name)

    properties = [*objects(group.get("additionalProperty")), *objects(product.get("additionalProperty"))]
    pairs = [(words_of(each.get("name")), _measured(each)) for each in properties]
    size = one_line(words_of(product.get("size"))) or next(iter(declared(pairs).get("size", ())), "")
    return {
        "line": number,
        "id": _identity(product, _IDENTITIES) or _identity(group, _GROUP_IDENTITIES),
        "group": _identity(group, _GROUP_IDENTITIES),
        "title": one_line(words_of(group.get("name")) or words_of(product.get("name"))),
        "brand": one_line(words_of(first("brand")) or words_of(first("manufacturer"))),
        "description": description_text(words_of(first("description"))),
        "tags": texts(first("keywords")),
        "kind": one_line(words_of(first("category"))),
        "size": size or _size_in_name(product, group),
        "declared": {
            name: said
            for name, said in declared([("material", one_line(words_of(first("material")))), *pairs]).items()
            if name != "size"
        },
        "image_url": context.page(_address(first("image"))),
        "page_url": context.page(_address(product.get("url")) or _address(group.get("url"))),
    }


def _size_in_name(product: Object, group: Object) -> str:
    """What a variant's name says beyond the group's: "Cloud - Queen" of the group "Cloud"."""
    name, whole = words_of(product.get("name")), words_of(group.get("name"))
    return one_line(name.removeprefix(whole)).strip(" -\u2013|,/()") if whole and name.startswith(whole) else ""


def _offered_size(graph: Graph, offer: Object) -> str:
    offered = next(iter(graph.several(offer.get("itemOffered"))), {})
    return one_line(words_of(offer.get("size")) or words_of(offered.get("size")) or words_of(offer.get("name")))


def _identity(node: Object, names: tuple[str, ...]) -> str:
    return next((found for name in names if (found := words_of(node.get(name)))), "")


def _measured(member: Object) -> str:
    """A property's value, on its scale where that has an end: 7 of at most 10 is "7/10"."""
    value, highest = words_of(member.get("value")), words_of(member.get("maxValue"))
    return f"{value}/{highest}" if value and highest else value


def _address(value: Any) -> str:
    if isinstance(value, list):
        return next((found for found in map(_address, value) if found), "")
    if isinstance(value, dict):
        return next((found for name in ("url", "contentUrl", "@id") if (found := _address(value.get(name)))), "")
    return text(value)
