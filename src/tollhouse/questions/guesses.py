"""Readings of questions with one word that is not known, where the rest says what is asked."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tollhouse.questions.linking import Item, Linked, Role
from tollhouse.questions.normalise import language_data
from tollhouse.questions.query import Figure, Groups, List, Reading, Refusal
from tollhouse.questions.synonyms import is_verb

# So much of the content words must be known; chosen on one half of the questions that were read (docs/quality-chat.md).
LEAST_KNOWN = 0.66
_CONTENT: tuple[Role, ...] = (
    "kind",
    "party",
    "value",
    "attribute",
    "verb",
    "extreme",
    "number",
    "ordinal",
    "time",
    "range",
)
_ENDINGS = ("ed", "ing", "s", "d")


def without_unknown(linked: Linked, read: Callable[[Linked], Reading | Refusal]) -> Reading | None:
    """The reading without the only unknown word; None where the answer may depend on it."""
    places = [place for place, item in enumerate(linked.items) if item.find("unknown")]
    rest = tuple(item for item in linked.items if not item.find("unknown"))
    known = sum(item.find(*_CONTENT) is not None or item.says("most", "least") for item in rest)
    if len(places) != 1 or known < LEAST_KNOWN * (known + 1) or not _only_joins(linked.items, places[0]):
        return None
    reading = read(replace(linked, items=rest))
    if not isinstance(reading, Reading) or not isinstance(reading.query, List | Figure | Groups):
        return None
    return replace(reading, ignored=(*reading.ignored, linked.items[places[0]].text), guessed=True)


def _only_joins(items: Sequence[Item], place: int) -> bool:
    """Whether a word only joins a subject and what is measured or asked of it: "which event drew the most sources"."""
    word, before, after = items[place].text, items[:place], items[place + 1 :]
    if (
        not word.islower()
        or not word.isalpha()
        or not before
        or before[-1].says("all", "not", "be", "of", "that", "with")
    ):
        return False
    following = next((item for item in after if not item.says("all", "in", "by") or item.find(*_CONTENT)), None)
    is_end = following is None or following.find("mark") is not None
    if not _may_be_verb(word):
        return False
    if is_end:
        return any(item.says("do") for item in before) and any(item.find("attribute") for item in before)
    return following is not None and (following.says("most", "least") or following.find("attribute") is not None)


def _may_be_verb(word: str) -> bool:
    stem = language_data()["irregular"].get(word, word)
    forms = {stem, *(stem.removesuffix(ending) for ending in _ENDINGS), stem.removesuffix("ing") + "e"}
    return any(is_verb(form) for form in forms)
