"""Every attribute that a seller's words give, with the words that decided."""

from functools import lru_cache

from msgspec import Struct

from tollhouse.services.mattress.attributes.cooling import cooling_of
from tollhouse.services.mattress.attributes.firmness import firmness_of
from tollhouse.services.mattress.attributes.material import material_of
from tollhouse.services.mattress.attributes.positions import positions_of
from tollhouse.services.mattress.attributes.result import Finding, Texts
from tollhouse.services.mattress.attributes.size import size_of

LONGEST_TEXT = 20_000
"""Characters of a description that are looked at."""

_OF_EVERY_SIZE = {
    "material": material_of,
    "firmness": firmness_of,
    "cooling": cooling_of,
    "sleep_positions": positions_of,
}

_Declared = tuple[tuple[str, tuple[str, ...]], ...]


class Derived(Struct, frozen=True):
    """What was found by attribute; an attribute that nothing speaks of is left out."""

    findings: dict[str, Finding]

    def value(self, attribute: str) -> int | str | tuple[str, ...] | None:
        """None where it is unknown or contradictory."""
        finding = self.findings.get(attribute)
        return finding.value if finding else None


def derive(texts: Texts) -> Derived:
    """Read every attribute off the texts."""
    declared = tuple(sorted((name, said) for name, said in texts.declared.items() if name != "size"))
    shared = _of_every_size(texts.title, texts.tags, texts.description, declared)
    size = size_of(texts)
    return Derived(({"size": size} if size else {}) | shared)


@lru_cache(maxsize=32)
def _of_every_size(title: str, tags: tuple[str, ...], description: str, declared: _Declared) -> dict[str, Finding]:
    """What the sizes of one product have in common, read once for all of them."""
    texts = Texts(title, tags, description, dict(declared))
    found = {name: read(texts) for name, read in _OF_EVERY_SIZE.items()}
    return {name: finding for name, finding in found.items() if finding}
