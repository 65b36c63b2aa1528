"""Which sleep positions a mattress is meant for by its seller's words."""

import re
from functools import cache

from tollhouse.services.mattress.attributes.lexicon import find, is_negated, normal, once, pattern, words
from tollhouse.services.mattress.attributes.result import DECLARED, TAGS, Finding, Place, Texts

EVERY = ("side", "back", "stomach")

_JOINED = r"\s*(?:,|/|&|\+|\band\b|\bor\b)(?:\s*(?:&|\band\b|\bor\b))?\s*"


def positions_of(texts: Texts) -> Finding | None:
    """The positions in the order of the words file, or None where none is named.

    What stands under a heading of its own decides; else all that is named anywhere. A bare "side" counts in a field
    or a tag; in running text it must be a side sleeper's, or slept on.
    """
    declared, *elsewhere = texts.places("sleep_positions")
    found = _found([declared]) or _found(elsewhere)
    if not found:
        return None
    labels = {label for label, _, _ in found}
    ordered = tuple(label.label for label in words().sleep_positions.labels if label.label in labels)
    return Finding(ordered, once(text for _, text, _ in found), found[0][2])


def _found(places: list[tuple[Place, tuple[str, ...]]]) -> list[tuple[str, str, Place]]:
    return [(*each, place) for place, said in places for text in said if text for each in _named(normal(text), place)]


def _named(text: str, place: Place) -> list[tuple[str, str]]:
    known = words().sleep_positions
    found: list[tuple[str, str]] = []
    for hit in find(text, dict.fromkeys(known.all_of, EVERY)):
        if not is_negated(text, hit.start):
            found += [(label, hit.words) for label in hit.value]
    for listing in (*_listed().finditer(text), *_slept_on().finditer(text)):
        if not is_negated(text, listing.start()):
            found += [(hit.value, listing[0]) for hit in find(listing[0], _meanings())]
    if place == DECLARED or (place == TAGS and text.strip() in _meanings()):
        found += [(hit.value, hit.words) for hit in find(text, _meanings()) if not is_negated(text, hit.start)]
    return found


@cache
def _listed() -> re.Pattern[str]:
    """Side, back & stomach sleepers."""
    one, behind = pattern(tuple(_meanings())), rf"[\s-]+{pattern(words().sleep_positions.behind)}"
    return re.compile(rf"(?:{one}(?:{behind})?{_JOINED}){{0,8}}{one}{behind}")


@cache
def _slept_on() -> re.Pattern[str]:
    """Sleep on your side or back."""
    known = words().sleep_positions
    one = pattern(tuple(_meanings()))
    return re.compile(rf"{pattern(known.before)}[\s:-]+{one}(?:{_JOINED}{one}){{0,8}}")


@cache
def _meanings() -> dict[str, str]:
    return {word: label.label for label in words().sleep_positions.labels for word in label.words}
