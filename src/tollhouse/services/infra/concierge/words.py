"""What single words mean to the concierge."""

import tomllib
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from tollhouse.services.infra.names import nearest
from tollhouse.services.infra.searching import stem

# Only words of some length are corrected, and only to words that steer the answer.
_CORRECTED_FROM = 5
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
