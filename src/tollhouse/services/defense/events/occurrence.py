"""Groups of headlines that report one occurrence, how well two groups agree, and the index of the live groups.

Sums give the mean similarity over all pairs of headlines exactly (average link), in whatever order groups grow. Words
are weighed by TF-IDF of the stream itself.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from math import exp, log, log1p, log2, sqrt
from operator import itemgetter
from typing import TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tollhouse.services.defense.stories.cluster import UserIndex

Vector = NDArray[np.float32]
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

    A single headline may report an event of `leading` headlines in other words, and so may headlines that give the same
    number of deaths in one country: unless places or deaths conflict, what the mean similarity of their text vectors
    exceeds `unlike` by is added to that of their words, times `meaning`.

    Groups of several headlines each, with `several` pairs or more, are one event too if they are nearly as similar to
    each other as their own headlines are among themselves. Both are mean similarities, so that headlines which differ
    much in wording do not keep them apart. The ratio for words, plus `vectors` times that for text vectors, must exceed
    `close`, plus `close_crowd` and `close_apart` like `crowd` and `apart`. A similarity within a group counts as
    `loose` (words, text vectors) at least: headlines that differ more report no single occurrence.
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
    several: int = 9
    vectors: float = 2.0
    close: float = 1.06
    close_crowd: float = 0.1
    close_apart: float = 0.2
    loose: tuple[float, float] = (0.15, 0.4)


class Headline(Struct, eq=False, gc=False):
    """A distinct headline: what the reports that carry it say together. Headlines with one `key`, if any, are equal.

    `terms` are its distinct words; none if the title was composed.
    `countries` are the mean over the reports. Days are counted from 1970.
    """

    key: str
    reports: list[str]
    terms: tuple[str, ...]
    countries: Mapping[str, float] = {}
    places: tuple[str, ...] = ()
    killed: tuple[int, ...] = ()
    row_keys: tuple[int, ...] = ()
    first_day: float = 0.0
    last_day: float = 0.0


class Group(Struct, eq=False, gc=False):
    """The headlines of an event, and their sums. `composed` are those without words, which do not count.

    `weights` are the sums of the headlines' TF-IDF weights, each of unit length.
    `vector` is the sum of the text vectors, None until it is needed.
    `placed` headlines name places, `counted` ones deaths. `absorbed` are ids of events that became part of this one.
    `was_settled` tells whether its id has been served.
    """

    id: str
    headlines: list[Headline]
    composed: list[Headline]
    weights: Mapping[str, float] = {}
    countries: Mapping[str, float] = {}
    places: tuple[str, ...] = ()
    killed: tuple[int, ...] = ()
    row_keys: tuple[int, ...] = ()
    placed: int = 0
    counted: int = 0
    first_day: float = 0.0
    last_day: float = 0.0
    vector: Vector | None = None
    absorbed: tuple[str, ...] = ()
    was_settled: bool = False


# Gives the weights of a headline's words.
Weigh = Callable[[Headline], Mapping[str, float]]
# Gives the text vector of a headline in integers; zeros for a title in letters other than Latin, of which the vectors
# know few words.
ReadVector = Callable[[Headline], Vector]


def build_group(identity: str, headlines: Iterable[Headline], weigh: Weigh) -> Group:
    """A group of headlines (at least one)."""
    group = Group(identity, [], [])
    for headline in headlines:
        (group.headlines if headline.terms else group.composed).append(headline)
    sum_up(group, weigh)
    return group


def sum_up(group: Group, weigh: Weigh) -> None:
    """Compute the sums of a group again from its headlines. A group of one shares the headline's."""
    headlines = [*group.headlines, *group.composed]
    group.weights = total([weigh(headline) for headline in headlines])
    group.countries = total([headline.countries for headline in headlines])
    group.places = union([headline.places for headline in headlines])
    group.killed = union([headline.killed for headline in headlines])
    group.row_keys = union([headline.row_keys for headline in headlines])
    group.placed = sum([bool(headline.places) for headline in headlines])
    group.counted = sum([bool(headline.killed) for headline in headlines])
    group.first_day = min([headline.first_day for headline in headlines])
    group.last_day = max([headline.last_day for headline in headlines])


def absorb(group: Group, other: Group, read: ReadVector) -> None:
    """Add the headlines and sums of another group to a group."""
    if group.vector is not None:
        group.vector = group.vector + _vector(other, read)
    group.headlines += other.headlines
    group.composed += other.composed
    group.absorbed += other.absorbed
    group.weights = total([group.weights, other.weights])
    group.countries = total([group.countries, other.countries])
    group.places = union([group.places, other.places])
    group.killed = union([group.killed, other.killed])
    group.row_keys = union([group.row_keys, other.row_keys])
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


def union(parts: Sequence[tuple[Member, ...]]) -> tuple[Member, ...]:
    """The members of all parts, each once; a single part itself. A set takes five times a tuple's memory."""
    return parts[0] if len(parts) == 1 else tuple(dict.fromkeys([member for part in parts for member in part]))


def _are_disjoint(one: tuple[Member, ...], other: tuple[Member, ...]) -> bool:
    return not (one and other) or set(one).isdisjoint(other)


def agreement(one: Group, other: Group, crowd: float, tuning: Tuning, read: ReadVector) -> float:
    """How much two groups agree, 1 if just enough to be one event. `crowd` is the headlines about that time."""
    pairs = len(one.headlines) * len(other.headlines)
    if not pairs:
        return 0.0
    shared = _dot(one.weights, other.weights)
    sizes = sorted((len(one.headlines), len(other.headlines)))
    may_differ = (sizes[0] == 1 and sizes[1] >= tuning.leading) or _share_toll(one, other)
    if may_differ and not _conflict(one, other):
        shared += tuning.meaning * max(0.0, _likeness(one, other, read) - tuning.unlike * pairs)
    words = shared / pairs * (1 + tuning.size * log2(min(pairs, tuning.most_pairs)))
    apart = max(0.0, one.first_day - other.last_day, other.first_day - one.last_day)
    many, far = log1p(crowd), log1p(apart)
    likeness = words / (tuning.least + tuning.crowd * many + tuning.apart * far)
    closeness = 0.0
    if sizes[0] > 1 and pairs >= tuning.several:
        needed = tuning.close + tuning.close_crowd * many + tuning.close_apart * far
        closeness = _closeness(one, other, shared / pairs, tuning, read) / needed
    if likeness < FEEBLE and closeness < FEEBLE:
        return 0.0
    reports = (len(one.headlines) + len(one.composed)) * (len(other.headlines) + len(other.composed))
    evidence = 0.0
    if _are_disjoint(one.places, other.places):
        evidence -= tuning.other_places * one.placed * other.placed / reports
    if _are_disjoint(one.killed, other.killed):
        evidence -= tuning.other_killed * one.counted * other.counted / reports
    if not _are_disjoint(one.row_keys, other.row_keys):
        evidence += tuning.rows
    known = sum(one.countries.values()) * sum(other.countries.values())
    abroad = tuning.other_country * (known - _dot(one.countries, other.countries)) / reports
    return max(closeness, likeness * exp(-abroad)) * exp(evidence)


def _closeness(one: Group, other: Group, between: float, tuning: Tuning, read: ReadVector) -> float:
    """How similar two groups of several headlines are, relative to the similarity within each.

    `between` is the mean similarity of words over all pairs. Countries do not matter to it: many headlines about one
    occurrence name several.
    """
    least_words, least_vectors = tuning.loose
    within_words = within_vectors = 1.0
    for group in (one, other):
        within_words *= max(least_words, _within(_dot(group.weights, group.weights), group))
        within_vectors *= max(least_vectors, _within(_likeness(group, group, read), group))
    pairs = len(one.headlines) * len(other.headlines)
    return between / sqrt(within_words) + tuning.vectors * _likeness(one, other, read) / pairs / sqrt(within_vectors)


def _within(similarities: float, group: Group) -> float:
    """The mean similarity of two headlines of a group of several, from the sum over all pairs, each with itself too."""
    number = len(group.headlines)
    return (similarities - number) / (number * (number - 1))


def _conflict(one: Group, other: Group) -> bool:
    """Whether both name places, or numbers of deaths, and none in common."""
    return (bool(one.placed and other.placed) and _are_disjoint(one.places, other.places)) or (
        bool(one.counted and other.counted) and _are_disjoint(one.killed, other.killed)
    )


def _share_toll(one: Group, other: Group) -> bool:
    """Whether both give the same number of deaths, not one, and probably in the same country."""
    known = sum(one.countries.values()) * sum(other.countries.values())
    is_same_country = _dot(one.countries, other.countries) > known / 2
    return is_same_country and any(number > 1 and number in other.killed for number in one.killed)


def _likeness(one: Group, other: Group, read: ReadVector) -> float:
    """The sum of the cosines of their headlines' vectors over all pairs."""
    return float(_vector(one, read) @ _vector(other, read)) / VECTOR_SCALE**2


def _vector(group: Group, read: ReadVector) -> Vector:
    """The sum of the headlines' vectors, remembered for groups of several: most groups never need it."""
    if len(group.headlines) == 1:
        return read(group.headlines[0])
    if group.vector is None:
        group.vector = np.sum([read(headline) for headline in group.headlines], axis=0)
    return group.vector


def _dot(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    if len(one) > len(other):
        one, other = other, one
    return sum([weight * other[key] for key, weight in one.items() if key in other])


# Bounds of the groups that are compared with a new one, and of those looked at for each word: the latest.
CANDIDATES = 16
USERS_PER_TERM = 64
# Document frequencies are applied again after this share of new headlines.
NEW_SHARE = 0.25
# Headlines this many days ago count 1/e in the crowd.
CROWD_DAYS = 2.0
# Counts of words are halved at this number of headlines, so that they follow the stream.
MOST_COUNTED = 200_000


class Stream(Struct):
    """What is known of the stream; stored with the groups, so that a restart changes no score.

    `counts` is the number of headlines with each word, of `total`, including expired ones. `idf` are the inverse
    document frequencies in use, `rare` that of other words, computed when `weighed` headlines were known. `crowd` is
    the number of headlines about `day`, older ones counting less.
    """

    counts: dict[str, int] = {}
    total: int = 0
    idf: dict[str, float] = {}
    rare: float = 1.0
    weighed: int = 0
    crowd: float = 0.0
    day: float = 0.0


class GroupIndex:
    """Groups by id, the most recently changed last; by headline; and by each of their words and provider rows."""

    def __init__(self, stream: Stream | None = None) -> None:
        self.groups: dict[str, Group] = {}
        self.group_of: dict[Headline, Group] = {}
        self.stream = stream or Stream()
        self._users: UserIndex[str | int, Group] = UserIndex()

    def count(self, headlines: Sequence[Headline]) -> None:
        """Count new headlines and their words, and weigh all live ones again if many came since the last time."""
        stream = self.stream
        for headline in headlines:
            for term in headline.terms:
                stream.counts[term] = stream.counts.get(term, 0) + 1
            stream.total += 1
            later = max(0.0, headline.first_day - stream.day)
            stream.crowd = stream.crowd * exp(-later / CROWD_DAYS) + 1
            stream.day += later
        if stream.total <= (1 + NEW_SHARE) * stream.weighed:
            return
        if stream.total > MOST_COUNTED:
            stream.counts = {term: number // 2 for term, number in stream.counts.items() if number > 1}
            stream.total //= 2
        stream.idf = {term: log((1 + stream.total) / (0.5 + n)) for term, n in stream.counts.items() if n > 1}
        stream.rare, stream.weighed = log((1 + stream.total) / 1.5), stream.total
        for group in self.groups.values():
            group.weights = total([self.weigh(headline) for headline in group.headlines] or [{}])

    def uncount(self, headline: Headline) -> None:
        """Take back a headline that no report carries any more."""
        for term in headline.terms:
            self.stream.counts[term] = self.stream.counts.get(term, 1) - 1
        self.stream.total -= 1

    def weigh(self, headline: Headline) -> Mapping[str, float]:
        """The TF-IDF weights of a headline's words, of unit length."""
        idf, rare = self.stream.idf, self.stream.rare
        weights = {term: weight if (weight := idf.get(term, rare)) > 0.05 else 0.05 for term in headline.terms}
        length = sqrt(sum([weight * weight for weight in weights.values()])) or 1.0
        return {term: weight / length for term, weight in weights.items()}

    def enter(self, group: Group) -> None:
        """Add a group, or a group that changed after `drop`."""
        self.groups[group.id] = group
        self._users.add(group, (*group.weights, *group.row_keys))
        for headline in (*group.headlines, *group.composed):
            self.group_of[headline] = group

    def drop(self, group: Group) -> None:
        """Remove a group; call it before the group changes."""
        del self.groups[group.id]
        self._users.remove(group, (*group.weights, *group.row_keys))
        for headline in (*group.headlines, *group.composed):
            del self.group_of[headline]

    def sharing_rows(self, group: Group) -> dict[Group, int]:
        """The other groups by the number of provider rows in common."""
        shared: dict[Group, int] = {}
        for key in sorted(group.row_keys):
            for other in self._users.users[key]:
                if other is not group:
                    shared[other] = shared.get(other, 0) + 1
        return shared

    def candidates(self, group: Group) -> list[Group]:
        """The other groups worth comparing, by rare words in common: bounded, however many groups live."""
        overlap: dict[Group, float] = {}
        shared = [(term, weight) for term, weight in group.weights.items() if len(self._users.users[term]) > 1]
        for term, weight in sorted(shared):
            for other in islice(reversed(self._users.users[term]), USERS_PER_TERM):
                overlap[other] = overlap.get(other, 0.0) + weight * weight
        for key in sorted(group.row_keys):
            for other in islice(reversed(self._users.users[key]), USERS_PER_TERM):
                overlap[other] = overlap.get(other, 0.0) + 1.0
        overlap.pop(group, None)
        return [other for other, _ in sorted(overlap.items(), key=itemgetter(1), reverse=True)[:CANDIDATES]]
