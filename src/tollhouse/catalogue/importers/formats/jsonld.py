"""schema.org products in the JSON-LD of a page: Product, ProductGroup with hasVariant, ItemList, @graph."""

import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any

from tollhouse.catalogue.importers.documents import Document, ReadText
from tollhouse.catalogue.importers.items import (
    Context,
    FeedItem,
    FeedItemError,
    StreamedItems,
    UnreadableFeed,
    description_text,
    item_or_fault,
    reduced_price,
)
from tollhouse.catalogue.importers.json_text import Object, decode_lenient_json, json_parts, objects, text, texts
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.values import availability, feed_money
from tollhouse.html_text import one_line
from tollhouse.storage.spool import Spool

_PRODUCTS = frozenset({"Product", "IndividualProduct", "SomeProducts", "ProductModel"})
_GROUP = "ProductGroup"
_OFFERED = _PRODUCTS | {_GROUP}
_AGGREGATE = "AggregateOffer"
_FORMER_PRICES = frozenset({"StrikethroughPrice", "ListPrice", "MSRP", "SRP", "RegularPrice"})
_IDENTITIES = ("productID", "sku", "mpn", "gtin", "gtin13", "@id", "url")
_GROUP_IDENTITIES = ("productGroupID", *_IDENTITIES)
# Products under these members are related to another product, and not what the page offers.
_RELATED = frozenset({
    "isRelatedTo", "isSimilarTo", "isAccessoryOrSparePartFor", "isConsumableFor", "isVariantOf", "itemReviewed",
    "hasVariant", "offers", "itemOffered", "review", "reviews", "about", "mentions", "addOn", "model", "predecessorOf",
})  # fmt: skip
_MAX_DEPTH = 40
# A node with an `@id` and at most one other member refers to the node with the others.
_REFERENCE_SIZE = 2
_VOCABULARIES = ("http://schema.org/", "https://schema.org/", "schema:", "sdo:")
# Where a large document has its products.
_LISTS = frozenset(
    {"@graph"} | {prefix + name for prefix in ("", *_VOCABULARIES) for name in ("itemListElement", "dataFeedElement")}
)

_SCRIPT_START = re.compile(r"<!--|<script\b", re.IGNORECASE)
_SCRIPT_END = re.compile(r"</script", re.IGNORECASE)
_SCRIPT_TYPE = re.compile(r"""type\s*=\s*["']?\s*application/ld\+json""", re.IGNORECASE)
# What old pages wrap scripts in.
_PREFIXES = ("//", "<!--", "<![CDATA[")
_SUFFIXES = ("//", "-->", "]]>", ";")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


def read_jsonld(documents: list[Document], context: Context) -> Iterable[FeedItem]:
    """The items of every product on a page, numbered by product. Raises UnreadableFeed where there is no JSON-LD.

    Large JSON is read value by value, anew in each iteration.
    """
    graph = _streamed_graph(documents[0]) or _Graph(list(map(_plain_members, _blocks(documents[0].text()))))

    def read() -> Iterator[FeedItem]:
        number = 0
        for number, product in enumerate(graph.products(), start=1):
            variants = graph.nodes(product.get("hasVariant")) if _GROUP in _types(product) else []
            for variant in variants or [product]:
                yield from _product_items(graph, variant, product if variants else {}, number, context)
        if not number:
            raise UnreadableFeed("the JSON-LD has no product in it")

    return StreamedItems(read)


def _streamed_graph(document: Document) -> "_Graph | None":
    """The graph of a large document of JSON; None for one that has to be read as a whole. Raises UnreadableFeed."""
    if not document.is_streamed:
        return None
    pieces = document.pieces()
    if next(pieces(), "").lstrip()[:1] not in {"{", "["}:
        return None
    try:
        return _Graph(_StreamedValues(pieces))
    except UnreadableFeed:
        # What is wrong with it may be forgiven where it is read as a whole.
        if document.size > document.max_whole_size:
            raise
        return None


class _StreamedValues(Iterable[Any]):
    """The elements of the outermost list, or what the outermost object lists; then the object without its lists."""

    def __init__(self, pieces: ReadText) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[Any]:
        members: Object = {}
        for part in json_parts(self._pieces(), _LISTS):
            value = _decode_block(part.text, "the JSON-LD is malformed")
            if part.is_element:
                yield _plain_members(value)
            elif part.member is not None:
                members[part.member] = value
        yield _plain_members(members)


def _product_items(
    graph: "_Graph", product: Object, group: Object, number: int, context: Context
) -> Iterator[FeedItem]:
    """One item for each offer: shops that know no variants make an offer of each size."""
    common = _common(product, group, number, context)
    offers = _offers(graph, product) or _offers(graph, group)
    if not offers:
        yield FeedItem(**common, fault="has no offer, so no price")
    sizes = [_offered_size(graph, offer) for offer in offers]
    for offer, size in zip(offers, sizes, strict=True):
        item = {**common, "page_url": common["page_url"] or context.page(text(offer.get("url")))}
        if size and len(set(sizes)) > 1:
            item |= {"size": size, "group": common["group"] or common["id"]}
        elif len(offers) > 1:
            # Several offers of one thing, by seller or by condition.
            item["group"] = common["group"] or common["id"]
        yield item_or_fault(item, partial(_offer, graph, offer, product))


def _common(product: Object, group: Object, number: int, context: Context) -> dict[str, Any]:
    def first(name: str) -> Any:
        return product.get(name) or group.get(name)

    properties = [*objects(group.get("additionalProperty")), *objects(product.get("additionalProperty"))]
    pairs = [
        ("material", one_line(_words(first("material")))),
        *((_words(e.get("name")), _value(e)) for e in properties),
    ]
    name, group_name = _words(product.get("name")), _words(group.get("name"))
    # A variant's name beyond the group's: "Cloud - Queen" of the group "Cloud".
    suffix = name.removeprefix(group_name) if group_name and name.startswith(group_name) else ""
    variant = one_line(suffix).strip(" -\u2013|,/()")
    identity = _identity(product, _IDENTITIES) or _identity(group, _GROUP_IDENTITIES)
    return {
        "line": number,
        "id": identity,
        "group": _identity(group, _GROUP_IDENTITIES),
        "variant": identity,
        "title": one_line(group_name or name),
        "brand": one_line(_words(first("brand")) or _words(first("manufacturer"))),
        "description": description_text(_words(first("description"))),
        "tags": texts(first("keywords")),
        "category": one_line(_words(first("category"))),
        "size": one_line(_words(product.get("size"))),
        "options": (("", variant),) if variant else (),
        "attributes": tuple((heading, value) for heading, value in pairs if value),
        "image_url": context.page(_address(first("image"))),
        "page_url": context.page(_address(product.get("url")) or _address(group.get("url"))),
    }


def _offered_size(graph: "_Graph", offer: Object) -> str:
    offered = next(iter(graph.nodes(offer.get("itemOffered"))), {})
    return one_line(_words(offer.get("size")) or _words(offered.get("size")) or _words(offer.get("name")))


def _identity(node: Object, names: tuple[str, ...]) -> str:
    return next((words for name in names if (words := _words(node.get(name)))), "")


def _value(member: Object) -> str:
    """A property's value, on its scale where that has an end: 7 of at most 10 is "7/10"."""
    value, highest = _words(member.get("value")), _words(member.get("maxValue"))
    return f"{value}/{highest}" if value and highest else value


def _address(value: Any) -> str:
    if isinstance(value, list):
        return next((address for address in map(_address, value) if address), "")
    if isinstance(value, dict):
        return next((address for name in ("url", "contentUrl", "@id") if (address := _address(value.get(name)))), "")
    return text(value)


def _offers(graph: "_Graph", product: Object) -> list[Object]:
    """The single offers: those inside an aggregate where it holds any, else the aggregate itself."""
    offers: list[Object] = []
    for offer in graph.nodes(product.get("offers")):
        inner = graph.nodes(offer.get("offers")) if _AGGREGATE in _types(offer) else []
        inherited: Object = {name: offer[name] for name in ("priceCurrency", "availability") if name in offer}
        offers += [{**inherited, **each} for each in inner] or [offer]
    return offers


def _offer(graph: "_Graph", offer: Object, product: Object) -> dict[str, Any]:
    """The availability; the price to pay now, and the struck-through one. Raises FeedItemError."""
    stock = availability(_words(offer.get("availability")))
    listed: Decimal | None = None
    now: tuple[Decimal, str] | None = None
    for price in graph.nodes(offer.get("priceSpecification")):
        amount = _amount(price)
        if amount is None:
            continue
        if _words(price.get("priceType")).rsplit("/", 1)[-1] in _FORMER_PRICES:
            listed = amount[0]
        elif now is None or amount[0] < now[0]:
            now = amount
    stated = _amount(offer) or _amount({"price": offer.get("lowPrice"), "priceCurrency": offer.get("priceCurrency")})
    now = stated or now
    if now is None:
        raise FeedItemError("has no price")
    currency = now[1] or _currency(offer) or _currency(product)
    return {"price": reduced_price(now[0], listed, currency), "availability": stock}


def _amount(node: Object) -> tuple[Decimal, str] | None:
    value: Any = node.get("price")
    if isinstance(value, list):
        value = value[0] if value else None
    if value in (None, "") or isinstance(value, dict):
        return None
    amount, currency = feed_money(value)
    return amount, _currency(node) or currency


def _currency(node: Object) -> str:
    return text(node.get("priceCurrency")).upper()


class _Graph:
    """All values of a page, which can be iterated again, with plain members.

    Only nodes that others refer to are in a temporary file, as JSON by `@id`. Of those with one `@id`, the node that
    says most is the node; the others only point at it.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values
        self._by_id = Spool(str)
        self._grouped = Spool(str)
        references = Spool(str)
        for node in self._walk(frozenset()):
            if len(node) <= _REFERENCE_SIZE and (identity := text(node.get("@id"))) and not references.has(identity):
                references.add(identity, "")
        if not references:
            return
        for node in self._walk(frozenset()):
            identity = text(node.get("@id"))
            if references.has(identity) and len(node) > len(json.loads(self._by_id.get(identity) or "{}")):
                self._by_id.add(identity, json.dumps(node))
        for node in self._walk(_RELATED):
            whole = self.whole(node)
            for variant in self.nodes(whole.get("hasVariant")) if _types(whole) & _OFFERED else ():
                if _GROUP not in _types(variant) and (identity := self._referred(variant)):
                    self._grouped.add(identity, "")

    def products(self) -> Iterator[Object]:
        """Every product and group of products that is offered for itself, each once, in the page's order."""
        seen = Spool(str)
        for node in self._walk(_RELATED):
            whole = self.whole(node)
            if not _types(whole) & _OFFERED:
                continue
            identity = self._referred(whole)
            if not identity:
                yield whole
            elif not seen.has(identity) and not self._grouped.has(identity):
                seen.add(identity, "")
                yield whole

    def _walk(self, closed: frozenset[str]) -> Iterator[Object]:
        return chain.from_iterable(_walk(value, closed) for value in self._values)

    def _referred(self, node: Object) -> str:
        """The `@id` of a node that others refer to, "" for another."""
        identity = text(node.get("@id"))
        return identity if identity and self._by_id.get(identity) == json.dumps(node) else ""

    def whole(self, node: Object) -> Object:
        """The node itself, or the one that it points at."""
        stored = self._by_id.get(text(node.get("@id"))) if len(node) <= _REFERENCE_SIZE else None
        whole: Object = json.loads(stored) if stored else node
        return whole

    def nodes(self, value: Any) -> list[Object]:
        """The nodes that a member holds, its references followed."""
        return [self.whole(node) for node in objects(value)]


def _types(node: Object) -> set[str]:
    """Without the address of the vocabulary."""
    value = node.get("@type")
    return {
        text(each).rsplit("/", 1)[-1].rsplit("#", 1)[-1] for each in (value if isinstance(value, list) else [value])
    }


def _words(value: Any) -> str:
    """A text, the name of a node, or what a language-tagged text holds; the first of a list."""
    if isinstance(value, list):
        return next((words for words in map(_words, value) if words), "")
    if isinstance(value, dict):
        return next((words for name in ("name", "@value", "value", "@id") if (words := text(value.get(name)))), "")
    return text(value) or (str(value) if isinstance(value, float) else "")


def _walk(value: Any, closed: frozenset[str]) -> Iterator[Object]:
    """Every object, the outer ones first, except under members that are closed."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list):
            waiting += reversed(here)
        elif isinstance(here, dict):
            yield here
            waiting += [member for name, member in reversed(here.items()) if name not in closed]


def _plain_members(value: Any, depth: int = 0) -> Any:
    """The value with members named as in the vocabulary, cut off where it nests absurdly."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [_plain_members(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {_plain_member_name(name): _plain_members(member, depth + 1) for name, member in value.items()}
    # Half of a surrogate pair cannot be stored.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _plain_member_name(name: str) -> str:
    for prefix in _VOCABULARIES:
        name = name.removeprefix(prefix)
    return name


def _blocks(page: str) -> list[Any]:
    """Every JSON-LD block of a page, or the JSON itself. Raises UnreadableFeed when a block is malformed."""
    stripped = page.strip()
    if stripped[:1] in {"{", "["}:
        return [_decode_block(stripped, "the JSON-LD is malformed")]
    blocks, position = [], 0
    while start := _SCRIPT_START.search(page, position):
        if start[0] == "<!--":
            position = _after(page, "-->", start.end())
            continue
        position = _after(page, ">", start.end())
        end = match.start() if (match := _SCRIPT_END.search(page, position)) else len(page)
        if _SCRIPT_TYPE.search(page, start.end(), position) and page[position:end].strip():
            blocks.append(page[position:end])
        position = end
    if not blocks:
        raise UnreadableFeed("the page has no JSON-LD in it")
    # A malformed block makes the page unreadable: a full import without its products would remove them.
    return [_decode_block(block, "a JSON-LD block is malformed") for block in blocks]


def _after(page: str, mark: str, position: int) -> int:
    """The position behind the next mark; the end of the page without one."""
    at = page.find(mark, position)
    return len(page) if at < 0 else at + len(mark)


def _decode_block(block: str, fault: str) -> Any:
    bare = block.strip()
    for mark in _PREFIXES:
        bare = bare.removeprefix(mark).lstrip()
    for mark in (*_SUFFIXES, *_SUFFIXES):
        bare = bare.removesuffix(mark).rstrip()
    try:
        return decode_lenient_json(bare)
    except ValueError:
        pass
    try:
        return decode_lenient_json(_TRAILING_COMMA.sub(r"\1", bare))
    except ValueError as error:
        raise UnreadableFeed(f"{fault}: {str(error)[:120]}") from None


register(
    Format(
        name="jsonld",
        help="schema.org Product, ProductGroup, ItemList and @graph in a page, or JSON-LD itself",
        prices="numbers or text; price specifications",
        read_items=read_jsonld,
        repeats=True,
    )
)
