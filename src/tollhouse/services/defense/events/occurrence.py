"""Groups of headlines that report one occurrence, and how well two groups agree.

Sums give the mean similarity over all pairs of headlines exactly (average link), in whatever order groups grow.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import exp, log1p, log2
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Vector = NDArray[np.int8] | NDArray[np.float32]
# Text vectors of headlines have unit length and are stored as integers.
VECTOR_SCALE = 127

Member = TypeVar("Member", bound=Hashable)

# Below this share of the agreement needed, nothing else makes two groups one event.
FEEBLE = 0.6


class Tuning(Struct, frozen=True):
    """How much each kind of agreement counts; chosen on three days of news and on incidents over years.

    Two groups are one event if the similarity of their words exceeds `least`, plus `crowd` for each e-fold of the
    number of headlines about that time (the more reports, the likelier is a chance resemblance), plus `apart` times
    log(1 + days between them). Each doubling of the pairs adds the share `size` to the similarity. The others act on
    its logarithm: `other_country` times the probability that the countries differ; if no place below country level is
    shared, `other_places` times the share of pairs in which both name one; `other_killed` likewise for numbers of
    deaths; `rows` if they share a provider row.

    A single headline may report an event of `leading` headlines in other words: unless places or deaths conflict, what
    the mean similarity of their text vectors exceeds `unlike` by is added to that of their words, times `meaning`.
    """

    least: float = 0.08
    crowd: float = 0.03
    apart: float = 0.06
    size: float = 0.1
    most_pairs: int = 64
    other_country: float = 0.85
    other_places: float = 0.8
    other_killed: float = 0.3
    rows: float = 0.4
    leading: int = 3
    meaning: float = 1.0
    unlike: float = 0.35


class Headline(Struct, eq=False, gc=False):
    """A distinct headline: what the reports that carry it say together. Headlines with one `key`, if any, are equal.

    `terms` are its distinct words; none if the title was composed. `weights` are their TF-IDF weights, of unit length.
    `vector` is its text vector; None for a title in letters other than Latin, of which the vectors know few words.
    `countries` are the mean over the reports. Days are counted from 1970.
    """

    key: str
    reports: list[str]
    terms: tuple[str, ...]
    countries: Mapping[str, float] = {}
    places: frozenset[str] = frozenset()
    killed: frozenset[int] = frozenset()
    row_keys: frozenset[str] = frozenset()
    first_day: float = 0.0
    last_day: float = 0.0
    weights: Mapping[str, float] = {}
    vector: Vector | None = None


class Group(Struct, eq=False, gc=False):
    """The headlines of an event, and their sums. `composed` are those without words, which do not count.

    `placed` headlines name places, `counted` ones deaths. `absorbed` are ids of events that became part of this one.
    `was_settled` tells whether its id has been served.
    """

    id: str
    headlines: list[Headline]
    composed: list[Headline]
    weights: Mapping[str, float] = {}
    countries: Mapping[str, float] = {}
    places: frozenset[str] = frozenset()
    killed: frozenset[int] = frozenset()
    row_keys: frozenset[str] = frozenset()
    placed: int = 0
    counted: int = 0
    first_day: float = 0.0
    last_day: float = 0.0
    vector: Vector | None = None
    absorbed: tuple[str, ...] = ()
    was_settled: bool = False


def build_group(identity: str, headlines: Iterable[Headline]) -> Group:
    """A group of headlines (at least one)."""
    group = Group(identity, [], [])
    for headline in headlines:
        (group.headlines if headline.terms else group.composed).append(headline)
    sum_up(group)
    return group


def sum_up(group: Group) -> None:
    """Compute the sums of a group again from its headlines. A group of one shares the headline's."""
    headlines = [*group.headlines, *group.composed]
    group.weights = total([headline.weights for headline in headlines])
    group.vector = _vector_total([headline.vector for headline in headlines])
    group.countries = total([headline.countries for headline in headlines])
    group.places = _union([headline.places for headline in headlines])
    group.killed = _union([headline.killed for headline in headlines])
    group.row_keys = _union([headline.row_keys for headline in headlines])
    group.placed = sum([bool(headline.places) for headline in headlines])
    group.counted = sum([bool(headline.killed) for headline in headlines])
    group.first_day = min([headline.first_day for headline in headlines])
    group.last_day = max([headline.last_day for headline in headlines])


def absorb(group: Group, other: Group) -> None:
    """Add the headlines and sums of another group to a group."""
    group.headlines += other.headlines
    group.composed += other.composed
    group.absorbed += other.absorbed
    group.weights = total([group.weights, other.weights])
    group.vector = _vector_total([group.vector, other.vector])
    group.countries = total([group.countries, other.countries])
    group.places = _union([group.places, other.places])
    group.killed = _union([group.killed, other.killed])
    group.row_keys = _union([group.row_keys, other.row_keys])
    group.placed += other.placed
    group.counted += other.counted
    group.first_day = min(group.first_day, other.first_day)
    group.last_day = max(group.last_day, other.last_day)


def total(parts: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """The sums by key; a single part itself."""
    if len(parts) == 1:
        return parts[0]
    sums = dict(parts[0])
    for part in parts[1:]:
        for key, value in part.items():
            sums[key] = sums.get(key, 0.0) + value
    return sums


_EMPTY: frozenset[Any] = frozenset()


def distinct(members: Sequence[Member]) -> frozenset[Member]:
    """The members as a set; most are empty, and all empty ones are one object."""
    return frozenset(members) if members else _EMPTY


def _union(parts: Sequence[frozenset[Member]]) -> frozenset[Member]:
    """The members of all parts; a single part itself."""
    return parts[0] if len(parts) == 1 else distinct([member for part in parts for member in part])


def agreement(one: Group, other: Group, crowd: float, tuning: Tuning) -> float:
    """How much two groups agree, 1 if just enough to be one event. `crowd` is the headlines about that time."""
    pairs = len(one.headlines) * len(other.headlines)
    if not pairs:
        return 0.0
    shared = _dot(one.weights, other.weights)
    sizes = sorted((len(one.headlines), len(other.headlines)))
    if sizes[0] == 1 and sizes[1] >= tuning.leading and not _conflict(one, other):
        shared += tuning.meaning * max(0.0, _likeness(one, other) - tuning.unlike * pairs)
    words = shared / pairs * (1 + tuning.size * log2(min(pairs, tuning.most_pairs)))
    apart = max(0.0, one.first_day - other.last_day, other.first_day - one.last_day)
    likeness = words / (tuning.least + tuning.crowd * log1p(crowd) + tuning.apart * log1p(apart))
    if likeness < FEEBLE:
        return 0.0
    reports = (len(one.headlines) + len(one.composed)) * (len(other.headlines) + len(other.composed))
    known = sum(one.countries.values()) * sum(other.countries.values())
    evidence = -tuning.other_country * (known - _dot(one.countries, other.countries)) / reports
    if one.places.isdisjoint(other.places):
        evidence -= tuning.other_places * one.placed * other.placed / reports
    if one.killed.isdisjoint(other.killed):
        evidence -= tuning.other_killed * one.counted * other.counted / reports
    if not one.row_keys.isdisjoint(other.row_keys):
        evidence += tuning.rows
    return likeness * exp(evidence)


def _vector_total(vectors: Sequence[Vector | None]) -> Vector | None:
    known = [vector for vector in vectors if vector is not None]
    if len(known) < 2:
        return known[0] if known else None
    sums: NDArray[np.float32] = np.array(known, np.float32).sum(axis=0)
    return sums


def _conflict(one: Group, other: Group) -> bool:
    """Whether both name places, or numbers of deaths, and none in common."""
    return (bool(one.placed and other.placed) and one.places.isdisjoint(other.places)) or (
        bool(one.counted and other.counted) and one.killed.isdisjoint(other.killed)
    )


def _likeness(one: Group, other: Group) -> float:
    """The sum of the cosines of their headlines' vectors over all pairs."""
    if one.vector is None or other.vector is None:
        return 0.0
    return float(one.vector.astype(np.float32) @ other.vector.astype(np.float32)) / VECTOR_SCALE**2


def _dot(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    if len(one) > len(other):
        one, other = other, one
    return sum([weight * other[key] for key, weight in one.items() if key in other])
