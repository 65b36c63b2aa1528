"""The products among the nodes of JSON-LD: found in lists and graphs, their references followed, their types told."""

from collections.abc import Iterator
from typing import Any

from tollhouse.catalogue.importers.article import MAX_ARTICLES, Unreadable
from tollhouse.catalogue.importers.json_text import Object, objects, text

PRODUCTS = frozenset({"Product", "IndividualProduct", "SomeProducts", "ProductModel"})
GROUP = "ProductGroup"

# Products that hang on these are another product's company, not the page's offer.
_OF_ANOTHER = frozenset(
    {
        *("isRelatedTo", "isSimilarTo", "isAccessoryOrSparePartFor", "isConsumableFor", "isVariantOf", "itemReviewed"),
        *(
            "hasVariant",
            "offers",
            "itemOffered",
            "review",
            "reviews",
            "about",
            "mentions",
            "addOn",
            "model",
            "predecessorOf",
        ),
    }
)
_DEEPEST = 40


class Graph:
    """All values of a page. Members may be named `schema:name` or by their whole address."""

    def __init__(self, values: list[Any]) -> None:
        self._values = [_plain(value, 0) for value in values]
        self._by_id: dict[str, Object] = {}
        for node in _walk(self._values, frozenset()):
            identity = text(node.get("@id"))
            # The node that says most is the node; the others only point at it.
            if identity and len(node) > len(self._by_id.get(identity, {})):
                self._by_id[identity] = node

    def products(self) -> list[Object]:
        """Every product and group of products that is offered for itself, each once, in the page's order."""
        found: list[Object] = []
        grouped = set()
        for node in _walk(self._values, _OF_ANOTHER):
            whole = self.whole(node)
            if not types_of(whole) & (PRODUCTS | {GROUP}) or any(whole is other for other in found):
                continue
            found.append(whole)
            if len(found) > MAX_ARTICLES:
                raise Unreadable(f"the page has more than {MAX_ARTICLES} products")
            variants = self.several(whole.get("hasVariant"))
            grouped |= {id(variant) for variant in variants if GROUP not in types_of(variant)}
        return [node for node in found if id(node) not in grouped]

    def whole(self, node: Object) -> Object:
        """The node itself, or the one that it points at."""
        return self._by_id.get(text(node.get("@id")), node) if len(node) <= 2 else node

    def several(self, value: Any) -> list[Object]:
        """The nodes that a member holds, its references followed."""
        return [self.whole(node) for node in objects(value)]


def types_of(node: Object) -> set[str]:
    """Without the address of the vocabulary."""
    value = node.get("@type")
    return {
        text(each).rsplit("/", 1)[-1].rsplit("#", 1)[-1] for each in (value if isinstance(value, list) else [value])
    }


def words_of(value: Any) -> str:
    """A text, the name of a node, or what a language-tagged text holds; the first of a list."""
    if isinstance(value, list):
        return next((found for found in map(words_of, value) if found), "")
    if isinstance(value, dict):
        return next((found for name in ("name", "@value", "value", "@id") if (found := text(value.get(name)))), "")
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


def _plain(value: Any, depth: int) -> Any:
    """The value with members named as in the vocabulary, cut off where it nests absurdly."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {_name(name): _plain(member, depth + 1) for name, member in value.items()}
    return value


def _name(name: str) -> str:
    bare = name.removeprefix("http://schema.org/").removeprefix("https://schema.org/")
    return bare.removeprefix("schema:").removeprefix("sdo:")
