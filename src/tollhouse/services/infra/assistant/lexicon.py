"""What single words mean to the concierge."""

import tomllib
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from string import ascii_lowercase
from typing import Any

from tollhouse.services.infra.name_lookup import nearest
from tollhouse.services.infra.search import stem

# Only words of some length are corrected, and only to words that steer the answer.
_CORRECTED_FROM = 5
# A word that changes nothing would be left out of the question, and with it a name that is nearly so spelt.
_IGNORED_FROM = 8
_STEERING = ("supplier", "customer", "supply", "depend", "compare", "chokepoint", "compete", "invest", "company")


@lru_cache(maxsize=8192)
def meaning_of(word: str) -> str | None:
    """The idea a word stands for, an empty text for one that changes nothing, None for one that is not understood."""
    return next((_meanings()[form] for form in _forms(word) if form in _meanings()), None)


@lru_cache(maxsize=8192)
def corrected(word: str) -> str | None:
    """The idea a misspelt word must stand for."""
    if len(word) < _CORRECTED_FROM or is_ordinary(word):
        return None
    slip = nearest(word, _steering())
    return None if slip is None else _meanings()[slip]


@lru_cache(maxsize=8192)
def respelt(word: str) -> str | None:
    """The word of the language that a misspelt one must be: two neighbours swapped, or a letter too many or too few.

    None where several of different meaning are as near, and for what may be a word or a name that is not known here.
    """
    if is_ordinary(word) or number_of(word) is not None:
        return None
    for slips in (_unswapped(word), _without_one(word), _with_one_more(word)):
        found = [slip for slip in slips if slip in _meanings()]
        if found:
            is_plain = len({_meanings()[slip] for slip in found}) == 1
            return found[0] if is_plain else None
    return None


def is_ordinary(word: str) -> bool:
    """Whether it is a word of the language, which no company's name may swallow."""
    return meaning_of(word) is not None or is_foreign(word) or word in _word_set("ordinary")


def number_of(word: str) -> int | None:
    """The number a word counts."""
    number: int | None = _read()["numbers"].get(word)
    return number


def is_foreign(word: str) -> bool:
    """Whether it asks for something that the catalogue does not hold."""
    return word in _word_set("foreign")


def _unswapped(word: str) -> Iterator[str]:
    for place in range(len(word) - 1):
        yield word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def _without_one(word: str) -> Iterator[str]:
    """The first letter is hardly ever wrong; and a short word, or one that changes nothing, may as well be a name."""
    for place in range(1, len(word)):
        slip = word[:place] + word[place + 1 :]
        is_doubled = word[place] == word[place - 1]
        if len(slip) >= _shortest(slip) - is_doubled:
            yield slip


def _with_one_more(word: str) -> Iterator[str]:
    for place in range(1, len(word) + 1):
        for letter in ascii_lowercase:
            slip = word[:place] + letter + word[place:]
            if len(slip) >= _shortest(slip):
                yield slip


def _shortest(slip: str) -> int:
    return _CORRECTED_FROM if _meanings().get(slip) else _IGNORED_FROM


def _forms(word: str) -> Iterator[str]:
    """The word, and the words it may be a form of."""
    yield from (word, stem(word))
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            base = word[: -len(ending)]
            yield from (base, f"{base}e", f"{base}s", f"{base}es")


@cache
def _meanings() -> dict[str, str]:
    table = _read()
    found = dict.fromkeys(table["ignored"]["words"], "")
    # The other way round: a form that stands in two lists means the first.
    for meaning, forms in reversed(table["meaning"].items()):
        found |= dict.fromkeys(forms, meaning)
    return found


@cache
def _steering() -> tuple[str, ...]:
    return tuple(word for word, meaning in _meanings().items() if meaning in _STEERING and len(word) >= _CORRECTED_FROM)


@cache
def _word_set(name: str) -> frozenset[str]:
    return frozenset(_read()[name]["words"])


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(files("tollhouse.services.infra").joinpath("data", "concierge_words.toml").read_text("utf-8"))
