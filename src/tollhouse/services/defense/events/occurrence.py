"""Groups of headlines that report one occurrence, and how well two groups agree.

Sums give the mean similarity over all pairs of headlines exactly (average link), in whatever order groups grow.
"""

from collections.abc import Iterable, Mapping
from math import exp, log1p, log2
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

# Below this share of the agreement needed, nothing else makes two groups one event.
FEEBLE = 0.4


class Tuning(Struct, frozen=True):
    """How much each kind of agreement counts.

    Two groups are one event if the similarity of their words exceeds `least`, plus `crowd` for each e-fold of the
    number of headlines about that time (the more reports, the likelier is a chance resemblance), plus `apart` times
    log(1 + days between them). `vectors` is the share of static vectors in that similarity. The others act on its
    logarithm: `same_country` and `other_country` times the probability that the countries are equal or differ,
    `same_places` and `other_places` if both name places below country level, `other_killed` if both count deaths and
    differ, `rows` if they share a provider row. `size` is added to it for each doubling of the pairs.
    """

    least: float = 0.09
    crowd: float = 0.03
    apart: float = 0.06
    vectors: float = 0.5
    same_country: float = 0.26
    other_country: float = 1.2
    same_places: float = 0.2
    other_places: float = 0.9
    other_killed: float = 0.4
    rows: float = 0.4
    size: float = 0.1
    most_pairs: int = 64


class Headline(Struct, eq=False, gc=False):
    """A distinct headline: what the reports that carry it say together. Headlines with one `key`, if any, are equal.

    `terms` are its distinct words; none if the title was composed. `weights` are their TF-IDF weights and `vector` the
    static vector, both of unit length. `countries` are the mean over the reports. Days are counted from 1970.
    """

    key: str
    reports: list[str]
    terms: tuple[str, ...]
    countries: dict[str, float]
    places: set[str]
    killed: set[int]
    row_keys: set[str]
    first_day: float
    last_day: float
    weights: dict[str, float] = {}
    vector: NDArray[Any] | None = None


class Group(Struct, eq=False, gc=False):
    """The headlines of an event, and their sums. `composed` are those without words, which do not count.

    `absorbed` are ids of events that became part of this one. `was_settled` tells whether its id has been served.
    """

    id: str
    headlines: list[Headline]
    composed: list[Headline]
    weights: dict[str, float]
    vector: NDArray[np.float32] | None
    countries: dict[str, float]
    places: set[str]
    killed: set[int]
    row_keys: set[str]
    first_day: float
    last_day: float
    absorbed: list[str]
    was_settled: bool = False


def build_group(identity: str, headlines: Iterable[Headline]) -> Group:
    """A group of headlines (at least one)."""
    ordered = list(headlines)
    group = Group(identity, [], [], {}, None, {}, set(), set(), set(), 0.0, 0.0, [])
    for headline in ordered:
        (group.headlines if headline.terms else group.composed).append(headline)
    sum_up(group)
    return group


def sum_up(group: Group) -> None:
    """Compute the sums of a group again from its headlines."""
    everything = (*group.headlines, *group.composed)
    group.weights, group.countries = {}, {}
    for headline in everything:
        _add(group.weights, headline.weights)
        _add(group.countries, headline.countries)
    vectors = [headline.vector for headline in group.headlines if headline.vector is not None]
    group.vector = np.sum(vectors, axis=0, dtype=np.float32) if vectors else None
    group.places = set().union(*[headline.places for headline in everything])
    group.killed = set().union(*[headline.killed for headline in everything])
    group.row_keys = set().union(*[headline.row_keys for headline in everything])
    group.first_day = min([headline.first_day for headline in everything])
    group.last_day = max([headline.last_day for headline in everything])


def absorb(group: Group, other: Group) -> None:
    """Add the headlines and sums of another group to a group."""
    group.headlines += other.headlines
    group.composed += other.composed
    group.absorbed += other.absorbed
    _add(group.weights, other.weights)
    _add(group.countries, other.countries)
    if other.vector is not None:
        group.vector = other.vector if group.vector is None else group.vector + other.vector
    group.places |= other.places
    group.killed |= other.killed
    group.row_keys |= other.row_keys
    group.first_day = min(group.first_day, other.first_day)
    group.last_day = max(group.last_day, other.last_day)


def agreement(one: Group, other: Group, crowd: float, centre: NDArray[np.float32] | None, tuning: Tuning) -> float:
    """How much two groups agree, 1 if just enough to be one event.

    `crowd` is the number of headlines about that time, `centre` the mean vector of all: what they have in common says
    nothing about an event.
    """
    pairs = len(one.headlines) * len(other.headlines)
    if not pairs:
        return 0.0
    words = _dot(one.weights, other.weights) / pairs
    if centre is not None and one.vector is not None and other.vector is not None and tuning.vectors:
        ours, theirs = one.vector / len(one.headlines) - centre, other.vector / len(other.headlines) - centre
        meaning = float(ours @ theirs) / (1 - float(centre @ centre))
        words += tuning.vectors * (max(0.0, meaning) - words)
    apart = max(0.0, one.first_day - other.last_day, other.first_day - one.last_day)
    needed = tuning.least + tuning.crowd * log1p(crowd) + tuning.apart * log1p(apart)
    likeness = words * (1 + tuning.size * log2(min(pairs, tuning.most_pairs))) / needed
    if likeness < FEEBLE:
        return 0.0
    evidence = _countries(one, other, tuning)
    if one.places and other.places:
        evidence += -tuning.other_places if one.places.isdisjoint(other.places) else tuning.same_places
    if one.killed and other.killed and one.killed.isdisjoint(other.killed):
        evidence -= tuning.other_killed
    if not one.row_keys.isdisjoint(other.row_keys):
        evidence += tuning.rows
    return likeness * exp(evidence)


def _countries(one: Group, other: Group, tuning: Tuning) -> float:
    everything = (len(one.headlines) + len(one.composed)) * (len(other.headlines) + len(other.composed))
    same = _dot(one.countries, other.countries) / everything
    known = sum(one.countries.values()) * sum(other.countries.values()) / everything
    return tuning.same_country * same - tuning.other_country * (known - same)


def _dot(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    if len(one) > len(other):
        one, other = other, one
    return sum([weight * other[key] for key, weight in one.items() if key in other])


def _add(sums: dict[str, float], added: Mapping[str, float]) -> None:
    for key, value in added.items():
        sums[key] = sums.get(key, 0.0) + value
