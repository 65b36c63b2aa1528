"""Typos: which known words an unknown one may stand for, and which of the spellings of a text is understood best.

A noisy channel: a spelling costs more the less usual its errors are and the rarer its words. The word list of the
text vectors, which is ordered by frequency, says how frequent English words are.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from heapq import heappop, heappush
from math import log2
from typing import Any

from msgspec import Struct, to_builtins
from rapidfuzz import process
from rapidfuzz.distance import OSA

from tollhouse import vectors
from tollhouse.questions.query import Reading

# What every correction costs.
TYPO_COST = 0.6
# From how many letters on a word may lack any letter, and have two errors.
ONE_ERROR_FROM = 4
TWO_ERRORS_FROM = 8
MOST_CANDIDATES = 4
# A text with more misspelt words than these is none that typos explain.
MOST_MISSPELT = 8
MOST_SPELLINGS = 24
# Two spellings whose costs differ by less are equally near.
MARGIN = 0.1
# So much more costs no word that is considered.
WORSE = 0.25
# What a known word is worth against the cost of a spelling.
LINKED = 0.2
# Places in the order of frequency of declared words, and of words of texts. So much rarer is a word that is a typo.
RARER = 10
DECLARED, RARE = 300, 8_000
_VOWELS = frozenset("aeiouy")
# The row and column of each key.
_KEYS = {
    letter: (row, column)
    for row, letters in enumerate(("qwertyuiop", "asdfghjkl", "zxcvbnm"))
    for column, letter in enumerate(letters)
}

Corrections = tuple[tuple[str, str], ...]


class Form(Struct, frozen=True):
    """A known word. `languages` are those whose function word it is, with "" for words of the data."""

    languages: frozenset[str]
    rank: int
    is_inflected: bool = False


class Spellings:
    """The known words that a misspelt one may stand for. `stems` are those of inflected words, by language and row."""

    def __init__(self, forms: Mapping[str, Form], stems: Mapping[tuple[str, int], Collection[str]]) -> None:
        self._forms = {word: form for word, form in forms.items() if len(word) > 1 and word.isalpha()}
        self._stems = {row: sorted(of_row) for row, of_row in stems.items()}
        self._by_length: dict[int, list[str]] = defaultdict(list)
        self._by_consonants: dict[str, list[str]] = defaultdict(list)
        for word in self._forms:
            self._by_length[len(word)].append(word)
            self._by_consonants[_consonants(word)].append(word)
        self._known: dict[tuple[str, str], tuple[tuple[str, float], ...]] = {}

    def near(
        self, word: str, language: str, stems: Iterable[tuple[str, str, int]] = ()
    ) -> tuple[tuple[str, float], ...]:
        """The likeliest words of a language, with costs. `stems` are those that the word may have, with their rows."""
        at = word, language
        if at not in self._known:
            if len(self._known) > 20_000:
                self._known.clear()
            costs = {other: self._cost(word, other) for other in self._reachable(word, language)}
            for stem, of, row in stems:
                for other in self._near_stems(stem, of, row) if of == language else ():
                    costs.setdefault(other + word[len(stem) :], TYPO_COST + errors(stem, other) + 0.2)
            self._known[at] = likeliest(costs.items())
        return self._known[at]

    def _near_stems(self, stem: str, language: str, row: int) -> list[str]:
        others = self._stems.get((language, row), ()) if language != "en" else ()
        return [other for other in _within(stem, others, 1) if other[0] == stem[0]]

    def _reachable(self, word: str, language: str) -> Iterator[str]:
        length = len(word)
        most = 2 if length >= TWO_ERRORS_FROM else 1
        others = [other for n in range(length - most, length + most + 1) for other in self._by_length.get(n, ())]
        near = _within(word, others, 1)
        near += [other for other in _within(word, others, most) if other[0] == word[0]] if most > 1 else []
        if length < ONE_ERROR_FROM:
            # In so short a word letters are left out or swapped.
            near = [other for other in near if other[0] == word[0] and (len(other) > length or _is_swap(word, other))]
        if length > 2:
            near += [other for other in self._by_consonants.get(_consonants(word), ()) if len(other) > length]
        for other in dict.fromkeys(near):
            languages = self._forms[other].languages
            # Another letter in so short a name makes another name.
            is_replaced = len(other) == length == ONE_ERROR_FROM and not _is_swap(word, other)
            if language in languages or ("" in languages and not is_replaced):
                yield other

    def _cost(self, word: str, other: str) -> float:
        form = self._forms[other]
        return TYPO_COST + errors(word, other) + 0.04 * log2(1 + form.rank / 30) + 0.06 * form.is_inflected


def likeliest(costs: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """The cheapest words, without those that cost much more than the first."""
    best = sorted(costs, key=lambda pair: (pair[1], pair[0]))[:MOST_CANDIDATES]
    return tuple(pair for pair in best if pair[1] < best[0][1] + WORSE)


def _within(word: str, others: Sequence[str], most: int) -> list[str]:
    matched = process.extract(word, others, scorer=OSA.distance, score_cutoff=most, limit=None)
    return [other for other, distance, _ in matched if distance]


def _is_swap(word: str, other: str) -> bool:
    return len(word) == len(other) and sorted(word) == sorted(other)


def _consonants(word: str) -> str:
    """The first letter and the consonants behind it: vowels are left out in a hurry."""
    return word[0] + "".join(letter for letter in word[1:] if letter not in _VOWELS)


def errors(word: str, other: str) -> float:
    """How unusual the errors are that make `word` of `other`: 0 for none."""
    rows = [[0.0] * (len(other) + 1) for _ in range(len(word) + 1)]
    for i in range(len(word) + 1):
        for j in range(len(other) + 1):
            options = []
            if i and j:
                options.append(rows[i - 1][j - 1] + _replaced(word[i - 1], other[j - 1]) * (1.5 if j == 1 else 1))
            if i:
                is_double = i > 1 and word[i - 1] == word[i - 2]
                options.append(rows[i - 1][j] + (0.2 if is_double else 0.35 if i > 1 else 0.5))
            if j:
                is_usual = j > 1 and (other[j - 1] in _VOWELS or other[j - 1] == other[j - 2])
                options.append(rows[i][j - 1] + (0.2 if is_usual else 0.3 if j > 1 else 0.5))
            if i > 1 and j > 1 and word[i - 1] == other[j - 2] != other[j - 1] == word[i - 2]:
                options.append(rows[i - 2][j - 2] + (0.2 if j > 2 else 0.4))
            rows[i][j] = min(options, default=0.0)
    return rows[-1][-1]


@cache
def _replaced(letter: str, other: str) -> float:
    """What a letter in the place of another costs: less for a neighbour on the keyboard, and for vowels."""
    if letter == other:
        return 0.0
    row, column = _KEYS.get(letter, (9, 9))
    other_row, other_column = _KEYS.get(other, (-9, -9))
    is_near = abs(row - other_row) <= 1 and abs(column - other_column) <= 1
    return 0.3 if is_near or (letter in _VOWELS and other in _VOWELS) else 0.4


@cache
def ranks() -> Mapping[str, int]:
    """English words with their places in the order of frequency."""
    return {word: place for place, word in enumerate(vectors.text_vectors().whole_words)}


def spellings(options: Sequence[tuple[str, Sequence[tuple[str, float]]]]) -> Iterator[tuple[float, Corrections]]:
    """The combinations of words for misspelt ones, cheapest first. `options` are the words for each, with costs."""
    first = (0,) * len(options)
    waiting = [(sum(words[0][1] for _, words in options), first)]
    seen = {first}
    for _ in range(MOST_SPELLINGS):
        if not waiting:
            return
        cost, chosen = heappop(waiting)
        yield cost, tuple((typed, words[at][0]) for (typed, words), at in zip(options, chosen, strict=True))
        for place, (_, words) in enumerate(options):
            following = (*chosen[:place], chosen[place] + 1, *chosen[place + 1 :])
            if following[place] < len(words) and following not in seen:
                seen.add(following)
                heappush(waiting, (cost + words[following[place]][1] - words[chosen[place]][1], following))


def as_typed(words: str, corrections: Corrections) -> str:
    """Words of a corrected text as they were typed."""
    typed = {word: said for said, word in corrections}
    return " ".join(typed.get(word.lower(), word) for word in words.split()) if corrections else words


def _is_same(reading: Reading, other: Reading) -> bool:
    """Whether two readings ask the same, whatever the words were."""
    return bool(_without_words(to_builtins(reading.query)) == _without_words(to_builtins(other.query)))


def _without_words(node: Any) -> Any:
    if isinstance(node, dict):
        is_condition = "comparison" in node or "relation" in node
        return {key: _without_words(value) for key, value in node.items() if key != "words" or not is_condition}
    if isinstance(node, list | tuple):
        return [_without_words(each) for each in node]
    return node.lower().removesuffix("s") if isinstance(node, str) else node


def understood_best(
    spelled: Iterable[tuple[float, Corrections]], read: Callable[[Corrections], tuple[int, float, Reading] | None]
) -> tuple[Reading, Reading | None] | None:
    """The reading of the spelling that loses the fewest words, the cheapest of these; None if none is understood.

    With it the reading of a spelling that is as near, if it is another one. `read` gives how many words are lost, and
    what is to be added to the cost.
    """
    best: tuple[int, float, Reading] | None = None
    most: float | None = None
    rival: Reading | None = None
    for typing, corrections in spelled:
        if most is not None and typing > most:
            break
        outcome = read(corrections)
        if outcome is None:
            continue
        lost, more, reading = outcome
        cost = typing + more
        if best is None or (lost, cost) < best[:2]:
            is_near = best is not None and best[0] == lost and best[1] <= cost + MARGIN
            rival = best[2] if best is not None and is_near and not _is_same(best[2], reading) else None
            best = lost, cost, reading
            most = None if lost else typing + WORSE
        elif lost == best[0] and cost <= best[1] + MARGIN and not _is_same(best[2], reading):
            rival = rival or reading
    return None if best is None else (best[2], rival)
