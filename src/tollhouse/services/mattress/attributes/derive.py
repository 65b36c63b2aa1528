"""Every attribute that can be derived from a seller's texts, with the words that decided."""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from operator import itemgetter

from tollhouse.services.mattress.attributes.firmness import derive_firmness
from tollhouse.services.mattress.attributes.lexicon import (
    DECLARED,
    DESCRIPTION,
    TAGS,
    TITLE,
    DerivedAttribute,
    Level,
    Place,
    ProductTexts,
    find_phrases,
    is_negated,
    labels,
    normalize,
    pattern,
    unique_texts,
    words,
)

HYBRID = "hybrid"

WARMEST = 1

_RATED_COOLING = re.compile(
    r"\b(?:cooling|temperature|coolness)(?:\s+(?:rating|level|score|control))?\s*[:=-]?\s*([1-5])"
    r"(?:\s*(?:/|out of)\s*5)?(?![\d./%]|\s*\w)"
)

EVERY = ("side", "back", "stomach")

_JOINER = r"\s*(?:,|/|&|\+|\band\b|\bor\b)(?:\s*(?:&|\band\b|\bor\b))?\s*"

# Characters of a description that are read.
LONGEST_TEXT = 20_000

TOLERANCE_CM = 2

_NUMBER = r"(\d{1,4}(?:\.\d{1,2})?)"
_UNIT = r"\s*((?:cm|mm|m|centimet(?:re|er)s?|millimet(?:re|er)s?|inch(?:es)?)(?![a-z])|\"|'')?"
CM_PER_INCH = 2.54
_SIDE = r"(?:\s*\(?[wlhd]\)?|\s*(?:wide|long|width|length))?"
_MEASURES = re.compile(
    rf"(?<![\d.])(?:\b[wl]\s?)?{_NUMBER}{_UNIT}{_SIDE}\s*(?:x|\u00d7|by|\*)\s*[wl]?\s*{_NUMBER}{_UNIT}(?!\.?\d)",
    re.IGNORECASE,
)


def derive_size(texts: ProductTexts) -> DerivedAttribute | None:
    """The size of the product; None if no text names one, or if one names several.

    A description can mention other sizes ("fits king sheets"), so only its measures count.
    """
    for text in texts.declared.get("size", ()):
        if declared := declared_size(text):
            return declared
    title = normalize(texts.title)
    return (
        _agreed(_measured_sizes(title), TITLE)
        or _agreed(_named_sizes(title, is_title=True), TITLE)
        or _agreed(_measured_sizes(normalize(texts.description)), DESCRIPTION)
    )


def declared_size(text: str) -> DerivedAttribute | None:
    """The size that an option or a column names, in words, letters or measures."""
    plain = normalize(text).strip()
    return _agreed(_named_sizes(plain, is_title=False), DECLARED) or _agreed(_measured_sizes(plain), DECLARED)


def _agreed(named: list[tuple[str, str]], place: Place) -> DerivedAttribute | None:
    if len({label for label, _ in named}) != 1:
        return None
    return DerivedAttribute(named[0][0], unique_texts(text for _, text in named), place)


def _named_sizes(text: str, *, is_title: bool) -> list[tuple[str, str]]:
    known = words().size
    hits = find_phrases(text, labels("size"), known.not_sizes)
    if is_title:
        # "S" and "K" are sizes at the end of a title, and initials elsewhere.
        hits = [hit for hit in hits if len(hit.words) > known.abbreviation or not text[hit.end :].strip(" )]-")]
    whole = [hit for hit in hits if len(hit.words) > known.abbreviation]
    return [(hit.value, hit.words) for hit in whole or hits]


def _measured_sizes(text: str) -> list[tuple[str, str]]:
    return [(label, match[0].strip()) for match in _MEASURES.finditer(text) if (label := _measured_label(match))]


def name_measures(text: str) -> tuple[str, dict[str, str]]:
    """A text with the names of sizes in place of their measures, "153 x 203 cm"; the measures by the sizes' names."""
    written: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        label = _measured_label(match)
        if label is None:
            return match[0]
        written[label] = match[0].strip()
        return f" {label} "

    return _MEASURES.sub(name, text), written


def _centimetres(number: str, unit: str | None) -> float:
    """Centimetres. Without a unit, numbers below 3 are metres and numbers from 600 are millimetres."""
    value = float(number)
    if unit and unit.startswith(("inch", '"', "'")):
        return value * CM_PER_INCH
    if unit:
        return value / 10 if unit.startswith("mi") or unit == "mm" else value * 100 if unit == "m" else value
    return value * 100 if value < 3 else value / 10 if value >= 600 else value


def _measured_label(match: re.Match[str]) -> str | None:
    """The size that is nearest to measures, within the tolerance."""
    sides = _centimetres(match[1], match[2] or match[4]), _centimetres(match[3], match[4] or match[2])
    width, length = sorted(sides)
    near = [(max(abs(size.width - width), abs(size.length - length)), size.label) for size in words().size.labels]
    deviation, label = min(near, key=itemgetter(0))
    return label if deviation <= TOLERANCE_CM else None


def derive_material(texts: ProductTexts) -> DerivedAttribute | None:
    """The material, or None if no text names one. The first text with a material decides.

    A description names the material of each layer: there, springs with latex or memory foam are a hybrid, and two
    fillings without springs are a contradiction.
    """
    for place, said in texts.places("material"):
        named = [
            (hit.value, hit.words)
            for text in map(normalize, filter(None, said))
            for hit in find_phrases(text, labels("material"), words().material.not_materials)
            if not is_negated(text, hit.start)
        ]
        if named:
            value = _decide_material({label for label, _ in named}, place)
            supporting = (
                text for label, text in named if value in {None, label} or (value == HYBRID and label != "foam")
            )
            return DerivedAttribute(value, unique_texts(supporting), place)
    return None


def _decide_material(named: set[str], place: Place) -> str | None:
    known = words().material
    springs, fillings = named & set(known.springs), named & set(known.fillings)
    if place == DESCRIPTION and springs and fillings:
        return HYBRID
    if place == DESCRIPTION and HYBRID not in named and len(fillings) > 1:
        return None
    return next(label.label for label in known.labels if label.label in named)


def derive_cooling(texts: ProductTexts) -> DerivedAttribute | None:
    """The level from 1 (warm) to 5, or None if no text has one.

    A declared value decides, else the strongest word in any text. Praise together with complaints about heat is a
    contradiction.
    """
    (declared, under), *elsewhere = texts.places("cooling")
    # A declared number is a level.
    plain = [normalize(text) for text in under if text]
    claims = [
        (*each, declared) for each in _cooling_claims([f"cooling {t}" if t[:1].isdecimal() else t for t in plain])
    ]
    if not claims:
        claims = [
            (*each, place)
            for place, said in elsewhere
            for each in _cooling_claims([normalize(text) for text in said if text])
        ]
    if not claims:
        return None
    values = {value for value, _, _ in claims}
    decided = None if max(values) > WARMEST in values else max(values)
    counted = [(text, place) for value, text, place in claims if decided in {None, value}]
    return DerivedAttribute(decided, unique_texts(text for text, _ in counted), counted[0][1])


def _cooling_claims(texts: list[str]) -> list[tuple[int, str]]:
    rated = [(int(rating[1]), rating[0]) for text in texts for rating in _RATED_COOLING.finditer(text)]
    return rated or [hit for text in texts for hit in _worded_cooling(text)]


def _worded_cooling(text: str) -> Iterator[tuple[int, str]]:
    for hit in find_phrases(text, _cooling_levels()):
        level = hit.value
        if not is_negated(text, hit.start):
            yield level.value, hit.words
        elif level.negated is not None:
            # "Does not trap heat" is a claim; "not cooling" is not.
            yield level.negated, f"not {hit.words}"


@cache
def _cooling_levels() -> dict[str, Level]:
    return {word: level for level in words().cooling.levels for word in level.words}


def derive_positions(texts: ProductTexts) -> DerivedAttribute | None:
    """The positions in the order of the words file, or None if no text names one.

    A declared value decides, else all texts together. The word "side" alone counts in a field or a tag; in running
    text it must be followed by "sleeper", or follow "sleep on".
    """
    declared, *elsewhere = texts.places("sleep_positions")
    named = _positions_in([declared]) or _positions_in(elsewhere)
    if not named:
        return None
    positions = {label for label, _, _ in named}
    ordered = tuple(label.label for label in words().sleep_positions.labels if label.label in positions)
    return DerivedAttribute(ordered, unique_texts(text for _, text, _ in named), named[0][2])


def _positions_in(places: list[tuple[Place, tuple[str, ...]]]) -> list[tuple[str, str, Place]]:
    return [
        (*each, place)
        for place, said in places
        for text in said
        if text
        for each in _named_positions(normalize(text), place)
    ]


def _named_positions(text: str, place: Place) -> list[tuple[str, str]]:
    known, positions = words().sleep_positions, labels("sleep_positions")
    named: list[tuple[str, str]] = []
    for hit in find_phrases(text, dict.fromkeys(known.all_of, EVERY)):
        if not is_negated(text, hit.start):
            named += [(label, hit.words) for label in hit.value]
    for listing in (*_listed_sleepers().finditer(text), *_slept_on().finditer(text)):
        if not is_negated(text, listing.start()):
            named += [(hit.value, listing[0]) for hit in find_phrases(listing[0], positions)]
    if place == DECLARED or (place == TAGS and text.strip() in positions):
        hits = find_phrases(text, positions)
        named += [(hit.value, hit.words) for hit in hits if not is_negated(text, hit.start)]
    return named


@cache
def _listed_sleepers() -> re.Pattern[str]:
    """Matches "side, back & stomach sleepers"."""
    one, behind = pattern(tuple(labels("sleep_positions"))), rf"[\s-]+{pattern(words().sleep_positions.behind)}"
    return re.compile(rf"(?:{one}(?:{behind})?{_JOINER}){{0,8}}{one}{behind}")


@cache
def _slept_on() -> re.Pattern[str]:
    """Matches "sleep on your side or back"."""
    one = pattern(tuple(labels("sleep_positions")))
    return re.compile(rf"{pattern(words().sleep_positions.before)}[\s:-]+{one}(?:{_JOINER}{one}){{0,8}}")


_PARSERS = {
    "material": derive_material,
    "firmness": derive_firmness,
    "cooling": derive_cooling,
    "sleep_positions": derive_positions,
}


def derive(texts: ProductTexts) -> dict[str, DerivedAttribute]:
    """The derived attributes by name, without attributes that no text mentions."""
    declared = tuple(sorted((name, said) for name, said in texts.declared.items() if name != "size"))
    shared = _derive_shared(texts.title, texts.tags, texts.description, declared)
    size = derive_size(texts)
    return ({"size": size} if size else {}) | shared


@lru_cache(maxsize=32)
def _derive_shared(
    title: str, tags: tuple[str, ...], description: str, declared: tuple[tuple[str, tuple[str, ...]], ...]
) -> dict[str, DerivedAttribute]:
    """The attributes that all sizes of a product share, cached for them."""
    texts = ProductTexts(title, tags, description, dict(declared))
    findings = {name: read(texts) for name, read in _PARSERS.items()}
    return {name: finding for name, finding in findings.items() if finding}
