"""Mattress sizes in texts: one of the six Australian sizes."""

import re
from functools import cache

from tollhouse.services.mattress.attributes.lexicon import (
    DECLARED,
    DESCRIPTION,
    TITLE,
    DerivedAttribute,
    ProductTexts,
    SizeLabel,
    find_phrases,
    normalize,
    unique_texts,
    words,
)

TOLERANCE_CM = 2

_NUMBER = r"(\d{1,4}(?:\.\d{1,2})?)"
_UNIT = r"\s*(cm|mm|m|centimet(?:re|er)s?|millimet(?:re|er)s?)?"
_SIDE = r"(?:\s*\(?[wlhd]\)?|\s*(?:wide|long|width|length))?"
_MEASURES = re.compile(
    rf"(?<![\d.])(?:\b[wl]\s?)?{_NUMBER}{_UNIT}{_SIDE}\s*(?:x|by|\*)\s*[wl]?\s*{_NUMBER}{_UNIT}(?![\d.])", re.IGNORECASE
)


def derive_size(texts: ProductTexts) -> DerivedAttribute | None:
    """The size of the product; None if no text names one, or if one names several.

    A description can mention other sizes ("fits king sheets"), so only its measures count.
    """
    for text in texts.declared.get("size", ()):
        if declared := declared_size(text):
            return declared
    title = _agreed(_measured(normalize(texts.title))) or _agreed(_named(normalize(texts.title), is_title=True))
    if title:
        return DerivedAttribute(title[0], title[1], TITLE)
    measured = _agreed(_measured(normalize(texts.description)))
    return DerivedAttribute(measured[0], measured[1], DESCRIPTION) if measured else None


def declared_size(text: str) -> DerivedAttribute | None:
    """The size that an option or a column names, in words, letters or measures."""
    plain = normalize(text).strip()
    named = _agreed(_named(plain, is_title=False)) or _agreed(_measured(plain))
    return DerivedAttribute(named[0], named[1], DECLARED) if named else None


def _agreed(named: list[tuple[str, str]]) -> tuple[str, tuple[str, ...]] | None:
    if len({label for label, _ in named}) != 1:
        return None
    return named[0][0], unique_texts(text for _, text in named)


def _named(text: str, *, is_title: bool) -> list[tuple[str, str]]:
    known = words().size
    hits = find_phrases(text, _meanings(), known.not_sizes)
    if is_title:
        # "S" and "K" are sizes at the end of a title, and initials elsewhere.
        hits = [hit for hit in hits if len(hit.words) > known.abbreviation or not text[hit.end :].strip(" )]-")]
    whole = [hit for hit in hits if len(hit.words) > known.abbreviation]
    return [(hit.value, hit.words) for hit in whole or hits]


def _measured(text: str) -> list[tuple[str, str]]:
    measured = []
    for match in _MEASURES.finditer(text):
        label = _label_for(_centimetres(match[1], match[2] or match[4]), _centimetres(match[3], match[4] or match[2]))
        if label:
            measured.append((label, match[0].strip()))
    return measured


def _centimetres(number: str, unit: str | None) -> float:
    """Centimetres. Without a unit, numbers below 3 are metres and numbers from 600 are millimetres."""
    value = float(number)
    if unit:
        return value / 10 if unit.startswith("mi") or unit == "mm" else value * 100 if unit == "m" else value
    return value * 100 if value < 3 else value / 10 if value >= 600 else value


def _label_for(one: float, other: float) -> str | None:
    width, length = sorted((one, other))
    near = [size for size in words().size.labels if _deviation(size, width, length) <= TOLERANCE_CM]
    return min(near, key=lambda size: _deviation(size, width, length)).label if near else None


def _deviation(size: SizeLabel, width: float, length: float) -> float:
    return max(abs(size.width - width), abs(size.length - length))


@cache
def _meanings() -> dict[str, str]:
    return {word: size.label for size in words().size.labels for word in size.words}
