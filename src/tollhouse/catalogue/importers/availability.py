"""What feeds call it that a product can be had, and the label this service shows."""

import re

from tollhouse.catalogue.importers.article import Faulty

_LABELS = {
    "in stock": (
        "instock",
        "available",
        "yes",
        "true",
        "1",
        "availablefororder",
        "onlineonly",
        "instoreonly",
        "inshop",
    ),
    "low stock": ("limitedavailability", "lowstock", "limitedstock"),
    "preorder": ("preorder", "presale"),
    "backorder": ("backorder", "onbackorder", "madetoorder"),
    "out of stock": ("outofstock", "soldout", "unavailable", "no", "false", "0", "reserved", "notavailable"),
    "discontinued": ("discontinued",),
}
_LABEL_OF = {word: label for label, words in _LABELS.items() for word in words}
_NOISE = re.compile(r"[\s_-]+")


def availability(word: str, missing: str = "in stock") -> str:
    """The label for a feed's word, a schema.org address among them; `missing` for none. Raises Faulty for another."""
    bare = _NOISE.sub("", word.strip().rstrip("/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]).lower()
    if not bare:
        return missing
    if bare not in _LABEL_OF:
        raise Faulty(f"the availability {word[:40]!r} is not known")
    return _LABEL_OF[bare]


def in_stock(*, is_available: bool) -> str:
    """The label where a feed says yes or no."""
    return "in stock" if is_available else "out of stock"
