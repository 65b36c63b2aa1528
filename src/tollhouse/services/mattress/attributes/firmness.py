"""Firmness from a seller's texts: 1 (softest) to 10."""

import re
from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import cache

from tollhouse.services.mattress.attributes.lexicon import (
    DECLARED,
    DESCRIPTION,
    DerivedAttribute,
    PhraseMatch,
    ProductTexts,
    find_phrases,
    is_negated,
    normalize,
    pattern,
    unique_texts,
    words,
)

SOFTEST, FIRMEST = 1, 10
MEDIUM = 5

_NUMBER = r"(\d{1,2}(?:\.\d)?)"
_RATED = re.compile(
    rf"\bfirmness(?:\s+(?:rating|level|scale|score))?\s*(?:is|of|at|:|=|-)?\s*(?:a\s+|an\s+)?{_NUMBER}"
    rf"(?:\s*-\s*{_NUMBER})?(?:\s*(?:/|out of)\s*(\d{{1,3}}))?(?![\d.]*\d|\s*%)"
)
_RATES = re.compile(
    rf"(?<![\d.]){_NUMBER}(?:\s*-\s*{_NUMBER})?\s*(?:/|out of)\s*(\d{{1,3}})"
    r"\s+(?:(?:on|for|in)\s+(?:the|our)?\s*)?firmness"
)
_NEITHER = re.compile(
    r"(?:\bnot|\bneither|\bnever|\b\w{1,10}n't)\s+(?:be\s+|feel\s+)?(?:too\s+|overly\s+)?(soft|plush|firm|hard)\b"
    r"[^.;!?]{0,20}?\b(?:not|nor|or)\s+(?:too\s+|overly\s+)?(soft|plush|firm|hard)\b"
)


def derive_firmness(texts: ProductTexts) -> DerivedAttribute | None:
    """The firmness, or None if no text has one. The first text with a firmness decides."""
    for place, said in texts.places("firmness"):
        plain = [normalize(text) for text in said if text]
        if place == DECLARED:
            # A declared number is a firmness.
            plain = [f"firmness {text}" if text[:1].isdecimal() else text for text in plain]
        claims = list(_rated(plain)) or list(_worded(plain, is_prose=place == DESCRIPTION))
        if place == DESCRIPTION:
            claims = claims or [claim for text in plain for claim in _of_filling(text)]
        if claims:
            values = {value for value, _ in claims}
            value = values.pop() if len(values) == 1 else None
            return DerivedAttribute(value, unique_texts(text for _, text in claims), place)
    return None


def _rated(texts: list[str]) -> Iterator[tuple[int, str]]:
    for text in texts:
        for rating in (*_RATED.finditer(text), *_RATES.finditer(text)):
            scale = Decimal(rating[3] or FIRMEST)
            stated = [Decimal(number) for number in (rating[1], rating[2]) if number]
            if scale > 0 and all(0 < number <= scale for number in stated):
                yield _on_scale(sum(stated, Decimal(0)) / len(stated) * FIRMEST / scale), rating[0]


def _worded(texts: Iterable[str], *, is_prose: bool) -> Iterator[tuple[int, str]]:
    for text in texts:
        # "Neither soft nor hard" means medium.
        if (neither := _NEITHER.search(text)) and (neither[1] in {"soft", "plush"}) != (
            neither[2] in {"soft", "plush"}
        ):
            yield MEDIUM, neither[0]
        yield from _phrases(text, is_prose=is_prose)


def _phrases(text: str, *, is_prose: bool) -> Iterator[tuple[int, str]]:
    hits = find_phrases(text, _meanings(), words().firmness.not_firmness)
    for first, last in _ranges(text, hits):
        is_about_the_feel = _before().search(text[max(0, first.start - 60) : first.start]) or _after().match(
            text, last.end
        )
        # The words may continue as in "soft mattress cover".
        is_about_something_else = _else().match(text, last.end)
        if is_negated(text, first.start) or (is_prose and not is_about_the_feel) or is_about_something_else:
            continue
        if abs(first.value - last.value) > words().firmness.widest_range:
            yield from ((hit.value, hit.words) for hit in (first, last))
        else:
            yield _on_scale(Decimal(first.value + last.value) / 2), text[first.start : last.end]


def _of_filling(text: str) -> Iterator[tuple[int, str]]:
    """Firmness words before the name of a filling: "plush, cloud-soft memory foam"."""
    for hit in find_phrases(text, _meanings(), words().firmness.not_firmness):
        is_of_filling = _filling().match(text, hit.end) and not _part().search(text[max(0, hit.start - 30) : hit.start])
        if is_of_filling and not is_negated(text, hit.start):
            yield hit.value, hit.words


def _ranges(text: str, hits: list[PhraseMatch[int]]) -> Iterator[tuple[PhraseMatch[int], PhraseMatch[int]]]:
    """Ranges of two levels joined by "to", and single levels as a range of one."""
    position = 0
    while position < len(hits):
        first = last = hits[position]
        if position + 1 < len(hits) and text[first.end : hits[position + 1].start].strip() in {"to", "/", "-"}:
            position += 1
            last = hits[position]
        yield first, last
        position += 1


@cache
def _before() -> re.Pattern[str]:
    return re.compile(rf"{pattern(words().firmness.before)}[\s:=-]*(?:(?:is|of|a|an|rated|rating|level|with)[\s:-]+)*$")


@cache
def _after() -> re.Pattern[str]:
    known = words().firmness
    return re.compile(rf"(?:[\s-]+{pattern(known.between)}){{0,4}}[\s-]+{pattern(known.after)}")


@cache
def _filling() -> re.Pattern[str]:
    """Matches up to three words and the name of a filling that is no part of the bed."""
    materials = pattern(tuple(word for label in words().material.labels for word in label.words))
    return re.compile(rf"(?:[\s,-]+[a-z]+){{0,3}}?[\s,-]+{materials}(?![\s-]+{pattern(words().firmness.parts)})")


@cache
def _part() -> re.Pattern[str]:
    return re.compile(rf"{pattern(words().firmness.parts)}(?:\s+(?:of|in|with|from))?\s+(?:\w+\s+)?$")


@cache
def _else() -> re.Pattern[str]:
    known = words().firmness
    between = tuple(dict.fromkeys((*known.between, *known.after, "knitted", "quilted", "removable", "breathable")))
    return re.compile(rf"(?:[\s-]+{pattern(between)}){{0,4}}[\s-]+{pattern(known.not_followed_by)}")


@cache
def _meanings() -> dict[str, int]:
    return {word: level.value for level in words().firmness.levels for word in level.words}


def _on_scale(number: Decimal | int) -> int:
    level = int(Decimal(number).quantize(Decimal(1), ROUND_HALF_UP))
    return max(SOFTEST, min(FIRMEST, level))
