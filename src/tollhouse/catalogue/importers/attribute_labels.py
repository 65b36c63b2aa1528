"""Which attribute a heading in a feed speaks of: an option "Size", a property "Comfort level", a column."""

import re

_ATTRIBUTES = {
    "size": ("size", "bed size", "mattress size", "sizes", "choose size", "select size", "dimensions", "pa size"),
    "firmness": ("firmness", "feel", "comfort", "comfort level", "comfort rating", "comfort feel", "firmness level",
                 "firmness rating", "tension", "mattress feel", "mattress firmness"),
    "cooling": ("cooling", "cooling rating", "cooling level", "temperature rating"),
    "sleep_positions": ("sleep position", "sleep positions", "sleeping position", "sleeping positions", "sleeper type",
                        "best for", "sleeping style"),
    "material": ("material", "mattress type", "construction", "mattress material", "core", "core material",
                 "mattress construction"),
}  # fmt: skip
_OF = {heading: attribute for attribute, headings in _ATTRIBUTES.items() for heading in headings}
_NOISE = re.compile(r"[^a-z0-9]+")


def attribute_of(heading: str) -> str:
    """The attribute that a heading names, or ""."""
    return _OF.get(_NOISE.sub(" ", heading.lower()).strip(), "")


def declared(pairs: list[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """What stands under headings that name an attribute, by attribute."""
    found: dict[str, tuple[str, ...]] = {}
    for heading, said in pairs:
        attribute = attribute_of(heading)
        if attribute and said:
            found[attribute] = (*found.get(attribute, ()), said)
    return found
