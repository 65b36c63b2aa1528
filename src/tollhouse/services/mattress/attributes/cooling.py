"""How cool a mattress sleeps by its seller's words: 1, warm, to 5."""

import re
from collections.abc import Iterator
from functools import cache

from tollhouse.services.mattress.attributes.lexicon import Level, find, is_negated, normal, once, words
from tollhouse.services.mattress.attributes.result import Finding, Texts

WARMEST = 1

_RATED = re.compile(
    r"\b(?:cooling|temperature|coolness)(?:\s+(?:rating|level|score|control))?\s*[:=-]?\s*([1-5])"
    r"(?:\s*(?:/|out of)\s*5)?(?![\d./%]|\s*\w)"
)


def cooling_of(texts: Texts) -> Finding | None:
    """The level, or None where nothing is said of it.

    What stands under a heading of its own decides; else the strongest word anywhere, and praise beside a complaint of
    heat contradicts itself.
    """
    (declared, under), *elsewhere = texts.places("cooling")
    # A bare number under the heading "cooling" is a level.
    plain = [normal(text) for text in under if text]
    found = [(*each, declared) for each in _said([f"cooling {t}" if t[:1].isdecimal() else t for t in plain])]
    if not found:
        found = [(*each, place) for place, said in elsewhere for each in _said([normal(text) for text in said if text])]
    if not found:
        return None
    values = {value for value, _, _ in found}
    decided = None if max(values) > WARMEST in values else max(values)
    counted = [(text, place) for value, text, place in found if decided in {None, value}]
    return Finding(decided, once(text for text, _ in counted), counted[0][1])


def _said(texts: list[str]) -> list[tuple[int, str]]:
    return [rating for text in texts for rating in _rated(text)] or [hit for text in texts for hit in _told(text)]


def _rated(text: str) -> Iterator[tuple[int, str]]:
    yield from ((int(rating[1]), rating[0]) for rating in _RATED.finditer(text))


def _told(text: str) -> Iterator[tuple[int, str]]:
    for hit in find(text, _meanings()):
        level = hit.value
        if not is_negated(text, hit.start):
            yield level.value, hit.words
        elif level.negated is not None:
            # "Does not trap heat" is worth something; "not cooling" is no claim at all.
            yield level.negated, f"not {hit.words}"


@cache
def _meanings() -> dict[str, Level]:
    return {word: level for level in words().cooling.levels for word in level.words}
