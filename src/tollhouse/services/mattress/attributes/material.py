"""What a mattress is made of by its seller's words: hybrid, latex, memory foam, pocket spring, innerspring or foam."""

from collections.abc import Iterator
from functools import cache

from tollhouse.services.mattress.attributes.lexicon import find, is_negated, normal, once, words
from tollhouse.services.mattress.attributes.result import DESCRIPTION, Finding, Place, Texts

HYBRID = "hybrid"


def material_of(texts: Texts) -> Finding | None:
    """The material, or None where none is named. The first place that names any decides.

    A description tells what lies in which layer: springs under latex or memory foam are a hybrid there, and two
    fillings without springs contradict each other.
    """
    for place, said in texts.places("material"):
        found = [each for text in said if text for each in _named(normal(text))]
        if found:
            value = _decided({label for label, _ in found}, place)
            return Finding(value, once(text for label, text in found if _counts(label, value)), place)
    return None


def _named(text: str) -> Iterator[tuple[str, str]]:
    for hit in find(text, _meanings(), words().material.not_materials):
        if not is_negated(text, hit.start):
            yield hit.value, hit.words


def _decided(labels: set[str], place: Place) -> str | None:
    known = words().material
    springs, fillings = labels & set(known.springs), labels & set(known.fillings)
    if place == DESCRIPTION and springs and fillings:
        return HYBRID
    if place == DESCRIPTION and HYBRID not in labels and len(fillings) > 1:
        return None
    return next(label.label for label in known.labels if label.label in labels)


def _counts(label: str, decided: str | None) -> bool:
    return decided in {None, label} or (decided == HYBRID and label != "foam")


@cache
def _meanings() -> dict[str, str]:
    return {word: label.label for label in words().material.labels for word in label.words}
