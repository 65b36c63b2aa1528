"""Finding stories by their words: a small index with the rarest words first, and a bound on the work."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import log

MOST_WORDS = 16
MOST_POSTINGS = 20_000

_WORD = re.compile(r"[a-z0-9]+")
_POINTS = re.compile(r"['’‘`.]")  # noqa: RUF001
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("s", ""))


def plain(text: str) -> str:
    """The text as it is compared: no accents, no case, no points, single spaces, and no 's."""
    letters = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(_WORD.findall(_POINTS.sub("", re.sub(r"['’]s\b", "", bare))))  # noqa: RUF001


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The word without its plural."""
    if len(word) > 3 and not word.endswith(("ss", "us", "is")):
        for ending, instead in _ENDINGS:
            if word.endswith(ending):
                return word[: -len(ending)] + instead
    return word


def stems(text: str) -> list[str]:
    """The text's words, each without its plural."""
    return [stem(word) for word in plain(text).split()]


class Texts:
    """Texts by id. Earlier ones win among equals."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._postings: dict[str, list[int]] = {}
        self._ids: list[str] = []
        for place, (identity, text) in enumerate(texts):
            self._ids.append(identity)
            for word in dict.fromkeys(stems(text)):
                self._postings.setdefault(word, []).append(place)

    def knows(self, word: str) -> bool:
        """Whether any text holds the word."""
        return stem(plain(word)) in self._postings

    def holding_all(self, words: Sequence[str]) -> list[str]:
        """The texts that hold every word, in their own order."""
        found = [set(self._postings.get(word, ())) for text in words for word in stems(text)]
        return [self._ids[place] for place in sorted(set.intersection(*found))] if found else []

    def best(self, words: Sequence[str], most: int) -> list[str]:
        """The texts that hold most of the rare words; a text with less than half of their weight is left out."""
        wanted = {word for text in words for word in stems(text) if word in self._postings}
        rarest = sorted(wanted, key=lambda word: (len(self._postings[word]), word))[:MOST_WORDS]
        scores: Counter[int] = Counter()
        weights, work = 0.0, 0
        for word in rarest:
            postings = self._postings[word]
            weight = log(1 + len(self._ids) / len(postings))
            weights += weight
            work += len(postings)
            if work > MOST_POSTINGS:
                break
            for place in postings:
                scores[place] += weight  # type: ignore[assignment]  # a Counter adds floats as well
        close = [(score, -place) for place, score in scores.items() if score * 2 >= weights]
        return [self._ids[-place] for _, place in sorted(close, reverse=True)[:most]]
