"""Clusters of wordings, their similarity, and the index that finds the clusters worth comparing.

A wording is a distinct title and text: copies of it are further articles, but no further evidence. Its terms are stems
of words, without the common ones, and serial numbers. Its vectors have unit length and are stored as integers, so that
the sums of a cluster are exact whatever the order of additions.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from math import log, log2
from sys import intern
from typing import Generic, TypeVar

from msgspec import Struct
from numpy import float32
from numpy.typing import NDArray

FEW = 32

Key = TypeVar("Key", bound=Hashable)
User = TypeVar("User", bound=Hashable)
Users = tuple[User, ...] | dict[User, None]


def users_of(listed: Sequence[User]) -> Users[User]:
    """Users in their order, each once."""
    return tuple(listed) if len(listed) <= FEW else dict.fromkeys(listed)


def with_user(users: Users[User], user: User) -> Users[User]:
    """The users with one added, or moved to the end. May change `users`."""
    if isinstance(users, tuple):
        return users_of([*(one for one in users if one is not user), user])
    users.pop(user, None)
    users[user] = None
    return users


def without_user(users: Users[User], user: User) -> Users[User]:
    """The users without one of them. May change `users`."""
    if isinstance(users, tuple):
        return tuple([one for one in users if one is not user])
    del users[user]
    return tuple(users) if len(users) < FEW else users


class UserIndex(Generic[Key, User]):
    """The users of each key that has any."""

    def __init__(self) -> None:
        self.users: dict[Key, Users[User]] = {}

    def add(self, user: User, keys: Iterable[Key]) -> None:
        # Most keys have one user: they share its tuple.
        known, alone = self.users, (user,)
        for key in keys:
            users = known.get(key)
            known[key] = with_user(users, user) if users else alone

    def remove(self, user: User, keys: Iterable[Key]) -> None:
        for key in keys:
            if others := without_user(self.users[key], user):
                self.users[key] = others
            else:
                del self.users[key]


TITLE_CHARS = 400
TEXT_CHARS = 2_000
MOST_TERMS = 96

STOP = frozenset(
    """
    a about above after again against ago all almost along already also although always am amid among an and another any
    are around as at away back be because been before behind being below between both but by came can come could did do
    does doing down during each either else even ever every few for from further get gets getting go goes going got had
    has have having he her here hers him his how however i if in inside instead into is it its itself just keep last
    least less let like made make makes making many may maybe me might more most much must my near never new next no nor
    not now of off on once one only onto or other our out outside over own per put puts quite rather really said same
    saw say saying says see seen set sets several shall she should since so some still such take takes than that the
    their them then there these they thing this those though through till to today together told tomorrow too took
    tonight toward towards two under until up upon us use used using very via vs want was way we well went were what
    when where whether which while who whom whose why will with within without would yes yesterday yet you your
    day days hour hours month months morning night week weeks year years monday tuesday wednesday thursday friday
    saturday sunday
    announce announced announces breaking exclusive headline headlines live news newsletter opinion photo photos read
    report reported reports review roundup source sources story update updated updates video videos watch
    """.split()  # noqa: SIM905 - a paragraph is easier to edit than a list of quotes
)

_SERIAL = re.compile(
    r"\b(day|week|round|part|episode|stage|chapter|phase|volume|vol|issue|lesson)\s+#?(\d{1,4})\b", re.IGNORECASE
)
_DIGIT = re.compile(r"\d")
_NO_SERIALS: Mapping[str, str] = {}
# Scripts without spaces (Thai, kana, Han): pairs of characters replace words.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
# Include vowel signs, which Python's \\w excludes.
_LETTER = r"[\w\u0300-\u036f\u064b-\u065f\u0900-\u0dff]"
# Not at the start of a sentence, where every word is capitalized.
_NAME = re.compile(rf"(?<=[\w,;:'\"(] )[A-Z]{_LETTER}+")
_WORD = re.compile(rf"\d+(?:[.,:]\d+)*\w*|{_LETTER}+(?:['\u2019]{_LETTER}+)*")
# The same for ASCII text, twice as fast.
_ASCII_WORD = re.compile(r"[0-9]+(?:[.,:][0-9]+)*[0-9A-Za-z_]*|[0-9A-Za-z_]+(?:'[0-9A-Za-z_]+)*")


# A story's headlines are compared with each other several times.
@lru_cache(maxsize=1024)
def term_counts(text: str) -> Mapping[str, int]:
    """How often each term is used: the first MOST_TERMS different ones."""
    return _counted(words(text))


def text_term_counts(text: str) -> dict[str, int]:
    """The same with names and numbers, which distinguish one fire from the next, counted twice.

    Names are known by their capitals, unless most words have them.
    """
    raw = words(text)
    if 2 * sum([word[0].isupper() for word in raw]) <= len(raw):
        raw += _NAME.findall(text) + [word for word in raw if word[0].isdecimal()]
    return _counted(raw)


def _counted(raw: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in raw:
        for term in _terms(word):
            counts[term] = counts.get(term, 0) + 1
    return counts if len(counts) <= MOST_TERMS else dict(islice(counts.items(), MOST_TERMS))


def words(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def serials(title: str) -> Mapping[str, str]:
    """Serial numbers by label, `{"day": "21"}`: "Day 2" and "Day 21" are different stories with the same words."""
    matches = _SERIAL.findall(title) if _DIGIT.search(title) else ()
    return {label.lower(): number for label, number in matches} if matches else _NO_SERIALS


# Interned, because many titles keep the same terms.
@lru_cache(maxsize=1 << 14)
def _terms(raw: str) -> tuple[str, ...]:
    word = _plain(raw)
    if word.isascii():
        return () if word in STOP or (len(word) < 2 and not word.isdecimal()) else (intern(_stem(word)),)
    return tuple(intern(term) for run in _RUN.findall(word) for term in _in_script(run))


def _in_script(run: str) -> list[str]:
    if re.match(f"[{_UNSPACED}]", run):
        return [run[i : i + 2] for i in range(max(1, len(run) - 1))]
    return [run] if len(run) > 1 else []


def _plain(raw: str) -> str:
    """Remove case, accents, possessives and apostrophes."""
    word = raw.casefold()
    if "'" in word or "\u2019" in word:
        word = word.replace("\u2019", "'").removesuffix("'s").replace("'", "")
    if word.isascii():
        return word
    letters = (char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", "".join(letters))


def _stem(word: str) -> str:
    """Strip English endings: plural, -ing, -ed, silent e, doubled consonant."""
    if len(word) > 3 and word[-1] == "s" and word[-2] not in "sui":
        word = word[:-3] + "y" if word.endswith("ies") and len(word) > 4 else word[:-1]
    for ending in ("ing", "ed", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 3:
            word = word.removesuffix(ending)
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] in "bdgklmnprt":
        return word[:-1]
    return word


Vector = NDArray[float32]
# Integers for the components 0..1 of term vectors and -1..1 of static vectors.
TERM_SCALE, STATIC_SCALE = 255, 127

# Titles: weight of the static vectors beside the terms, mean similarity at which two wordings are one story, and how
# much less is needed per doubling of the larger cluster and of the smaller one: two large clusters that agree a little
# are two stories of one topic. Texts of LONG words or more say enough: they are compared by
# their terms alone, and large clusters need a little more.
STATIC_SHARE = 0.3
TITLE_SIMILARITY, TITLE_SIZE, SMALLER_SIZE = 0.53, 0.4, 0.2
TEXT_SIMILARITY, TEXT_SIZE, TEXT_LEAST = 0.10, -0.08, 0.3
LONG = 16
# Terms beyond those that the stream has shown: they keep the first articles of a stream from weighing words by chance.
UNSEEN = 64

_TERMS = 1 / TERM_SCALE**2
_STATIC = 1 / STATIC_SCALE**2


class Frequencies:
    """In how many of the stream's wordings each term is used."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.wordings = 0

    def add(self, terms: Iterable[str], step: int = 1) -> None:
        self.wordings += step
        of = self.of
        for term in terms:
            if count := of.get(term, 0) + step:
                of[term] = count
            else:
                del of[term]

    def weights(self, terms: Sequence[str]) -> bytes:
        """The vector of a text's terms: logarithmic frequency times rarity, of unit length, in integers from 1."""
        of, total = self.of, self.wordings + UNSEEN
        raw = [
            (1 + log(count) if count > 1 else 1.0) * log(total / of.get(term, 1))
            for term, count in Counter(terms).items()
        ]
        length = sum([weight * weight for weight in raw]) ** 0.5
        return bytes([max(1, round(TERM_SCALE * weight / length)) for weight in raw]) if length else b"\1" * len(raw)


class Wording(Struct, eq=False, gc=False):
    """A distinct title and text and its articles' times of publication by id, in order of arrival.

    A term that is used twice is listed twice. `text` and `text_weights` are empty where the title is all there is or
    the whole is short; a long title alone is its own text. Its static vector is read from the title again when needed.
    """

    key: int
    title: str
    text: str
    title_terms: tuple[str, ...]
    text_terms: tuple[str, ...]
    serials: Mapping[str, str]
    weights: bytes = b""
    text_weights: bytes = b""
    articles: dict[str, datetime] = {}

    def terms(self) -> set[str]:
        return {*self.title_terms, *self.text_terms}

    def weigh(self, frequencies: Frequencies) -> None:
        self.weights = frequencies.weights(self.title_terms)
        self.text_weights = frequencies.weights(self.text_terms)


class Cluster(Struct, eq=False, gc=False):
    """A live story: its wordings by key, and the sums of their vectors; `long` wordings have a text.

    `order` counts stories in the order in which they began; `absorbed` are the ids of stories merged into it, directly
    or indirectly; `rank` turns its sums into what a search orders by; `searched` is its size when its neighbours were
    last looked for. There are no reference cycles, so that the garbage collector need not traverse tens of thousands of
    stories.
    """

    id: str
    order: int
    wordings: dict[int, Wording] = {}
    title: dict[str, int] = {}
    text: dict[str, int] = {}
    static: Vector | None = None
    size: int = 0
    long: int = 0
    rank: float = 1.0
    serials: dict[str, dict[str, int]] = {}
    absorbed: tuple[str, ...] = ()
    searched: int = 1

    def add(self, wordings: Iterable[Wording], static: Vector | None) -> None:
        """Add wordings and the sum of their static vectors."""
        for wording in wordings:
            self.wordings[wording.key] = wording
            self._count(wording, 1)
        if static is not None:
            self.static = static if self.static is None else self.static + static

    def remove(self, wording: Wording, static: Vector | None) -> None:
        del self.wordings[wording.key]
        self._count(wording, -1)
        if self.static is not None and static is not None:
            self.static = self.static - static

    def weigh(self, frequencies: Frequencies) -> None:
        """Weigh all its terms again."""
        self.title, self.text = {}, {}
        for wording in self.wordings.values():
            wording.weigh(frequencies)
            _add(self.title, wording.title_terms, wording.weights, 1)
            _add(self.text, wording.text_terms, wording.text_weights, 1)

    def conflicts_with(self, other: "Cluster") -> bool:
        """Whether both have serial numbers with one label and none in common."""
        return any(
            not self.serials[label].keys() & numbers.keys()
            for label, numbers in other.serials.items()
            if label in self.serials
        )

    def _count(self, wording: Wording, step: int) -> None:
        if size := len(self.wordings):
            self.size = size
            self.rank = (1 + TITLE_SIZE * log2(size)) / size
        _add(self.title, wording.title_terms, wording.weights, step)
        if wording.text_terms:
            _add(self.text, wording.text_terms, wording.text_weights, step)
            self.long += step
        for label, number in wording.serials.items():
            numbers = self.serials.setdefault(label, {})
            numbers[number] = numbers.get(number, 0) + step
            if not numbers[number]:
                del numbers[number]
                if not numbers:
                    del self.serials[label]


def _add(sums: dict[str, int], terms: Sequence[str], weights: bytes, step: int) -> None:
    for term, weight in zip(dict.fromkeys(terms), weights, strict=True):
        if total := sums.get(term, 0) + weight * step:
            sums[term] = total
        else:
            sums.pop(term, None)


def similarity(one: Cluster, other: Cluster, least: float = 1.0) -> float:
    """How well two clusters fit, as a multiple of what makes them one story; 0 where it is surely below `least`."""
    if one.serials and other.serials and one.conflicts_with(other):
        return 0.0
    if 2 * one.long >= one.size and 2 * other.long >= other.size:
        pairs = one.long * other.long
        size = max(TEXT_LEAST, 1 + TEXT_SIZE * log2(pairs))
        return _TERMS * _dot(one.text, other.text) / pairs * size / TEXT_SIMILARITY
    pairs = one.size * other.size
    smaller, larger = sorted((one.size, other.size))
    size = (1 + TITLE_SIZE * log2(larger) + SMALLER_SIZE * log2(smaller)) / TITLE_SIMILARITY
    alike = _TERMS * _dot(one.title, other.title) / pairs
    if one.static is None or other.static is None:
        return alike * size
    # The static similarity, which takes longer to compute, is at most 1.
    if (alike + STATIC_SHARE * (1 - alike)) * size < least:
        return 0.0
    return (alike + STATIC_SHARE * (_STATIC * float(one.static @ other.static) / pairs - alike)) * size


def _dot(one: Mapping[str, int], other: Mapping[str, int]) -> int:
    if len(one) > len(other):
        one, other = other, one
    get = other.get
    return sum([weight * get(term, 0) for term, weight in one.items()])


# Limits of a search: terms, clusters visited for all of them, and the best of these that are compared exactly.
TERMS, STEPS, BEST = 8, 64, 6
# Clusters from this size are also found by their static vectors, the best of them likewise.
LARGE, BEST_LARGE = 4, 3


class Index(UserIndex[str, Cluster]):
    """Clusters by term, the last that grew last."""

    def candidates(self, cluster: Cluster) -> list[Cluster]:
        """The other clusters that share most with it in its weightiest terms."""
        own = cluster.text or cluster.title
        weightiest = sorted([(-weight, term) for term, weight in own.items() if len(self.users[term]) > 1])
        shared: dict[Cluster, float] = {}
        steps, is_text = STEPS, bool(cluster.text)
        for weight, term in weightiest[:TERMS]:
            for other in reversed(self.users[term]):
                if not steps:
                    break
                steps -= 1
                theirs = (other.text.get(term) if is_text else None) or other.title.get(term, 0)
                shared[other] = shared.get(other, 0.0) - weight * theirs * other.rank
        shared.pop(cluster, None)
        least = sorted(shared.values())[-BEST:][:1]
        best = [(-score, other.order, other) for other, score in shared.items() if score >= least[0]]
        return [other for _, _, other in sorted(best)[:BEST]]
