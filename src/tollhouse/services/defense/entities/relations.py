"""How closely entities are related: how often the same article or story names both."""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import combinations
from math import sqrt

from msgspec import Struct

# A round-up that names more relates nobody to anybody, and its pairs would grow with the square.
MOST_NAMES = 40


class Related(Struct, frozen=True):
    """Another entity, by id. `weight` lies in 0..1."""

    id: str
    weight: float


def related(documents: Iterable[Collection[str]], limit: int) -> dict[str, list[Related]]:
    """Per entity its `limit` closest, closest first; `documents` are the ids that each article or story names.

    The weight is the cosine of the two entities' documents (Ochiai 1957), times n / (n + 1) for n documents shared,
    so that one chance meeting of two rare names weighs half.
    """
    alone: Counter[str] = Counter()
    shared: Counter[tuple[str, str]] = Counter()
    for document in documents:
        ids = sorted(set(document))
        if len(ids) <= MOST_NAMES:
            alone.update(ids)
            shared.update(combinations(ids, 2))
    return _closest(alone, shared, limit)


def weight(together: int, first: int, second: int) -> float:
    """The weight of two entities named together in so many documents, of `first` and `second` that name each."""
    return together / sqrt(first * second) * together / (together + 1)


def _closest(alone: Counter[str], shared: Counter[tuple[str, str]], limit: int) -> dict[str, list[Related]]:
    found: dict[str, list[Related]] = {id_: [] for id_ in alone}
    for (first, second), together in shared.items():
        worth = round(weight(together, alone[first], alone[second]), 4)
        found[first].append(Related(second, worth))
        found[second].append(Related(first, worth))
    return {id_: sorted(others, key=lambda other: (-other.weight, other.id))[:limit] for id_, others in found.items()}
