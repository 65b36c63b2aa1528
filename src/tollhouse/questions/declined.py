"""Texts that ask for an opinion, a forecast or advice, which no data answers: one rule for questions and searches."""

from collections.abc import Collection, Mapping, Sequence

from tollhouse.questions.linking import Item
from tollhouse.questions.query import Reason, Refusal

REASONS: Mapping[str, Reason] = {
    "advice": "advice",
    "expert_advice": "advice",
    "opinion": "opinion",
    "judgement": "opinion",
    "prediction": "prediction",
}
# A shopper may call a thing good and want one recommended.
_IN_SEARCHES = ("expert_advice", "opinion")
_BEGINNINGS = ("which", "where", "when", "who", "why", "how", "how_many", "prediction", "be")
_SUBJECTS = ("i", "that", "it", "those")
# Questions that no list of products answers, unless all their words are known.
_NOT_FOR_ROWS = ("when", "why", "how_many", "how")


def declined(items: Sequence[Item], concepts: Collection[str]) -> Refusal | None:
    """Why a text is refused that says one of these concepts; None if it says none."""
    for concept in concepts:
        item = next((item for item in items if item.says(concept)), None)
        if item is not None:
            return Refusal(REASONS[concept], (item.text,))
    return None


def declined_search(items: Sequence[Item]) -> Refusal | None:
    """Why a search is refused: it asks for what no description of a thing says.

    "I will need a queen" and "one that will last" say what is wanted; "which will be on sale" is a forecast.
    """
    refusal = declined(items, _IN_SEARCHES)
    first = next((item for item in items if not item.says("filler", "greeting", "and", ",")), None)
    if refusal is not None or first is None or not first.says(*_BEGINNINGS):
        return refusal
    for place, item in enumerate(items):
        if item.says(*_SUBJECTS) and not item.says("which"):
            break
        if item.says("prediction"):
            return declined(items[place:], ("prediction",))
    unknown = [item.text for item in items if item.find("unknown", "unavailable")]
    return Refusal("not_in_data", tuple(unknown)) if unknown and first.says(*_NOT_FOR_ROWS) else None
