"""The category of one page and its provider rows, and the decision over several pages."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from tollhouse.services.defense.events.event import Category
from tollhouse.services.defense.ingest.classification import classify, relevance, words_relevance
from tollhouse.services.defense.ingest.export_parser import Row

# Events of less relevance are served only on request.
RELEVANT = 0.0


class ClassifierInput(Struct, frozen=True):
    """One page as the classifier reads it."""

    title: str
    url: str
    rows: Sequence[Row]
    has_headline: bool


class Classified(Struct, frozen=True, gc=False):
    """The probability of each category, the relevance to defense, security or politics, and why."""

    probabilities: dict[Category, float]
    relevance: float
    is_retrospective: bool
    why: str

    @property
    def category(self) -> Category:
        """The most probable category."""
        return max(self.probabilities, key=lambda category: self.probabilities[category])

    @property
    def confidence(self) -> float:
        """The probability of `category`."""
        return max(self.probabilities.values())


def classify_reports(inputs: Sequence[ClassifierInput]) -> list[Classified]:
    """Classify pages, in their order."""
    return list(map(_classified, inputs))


def combine(classified: Sequence[Classified]) -> Classified:
    """The classification of an event of several reports (at least one): that of the surest for its category."""
    weights: Counter[Category] = Counter()
    for one in classified:
        weights[one.category] += round(1_000 * one.confidence)
    category = weights.most_common(1)[0][0]
    return max((one for one in classified if one.category == category), key=lambda one: one.confidence)


def _classified(page: ClassifierInput) -> Classified:
    if not page.rows:
        why = "no provider rows, and the title alone is not classified"
        return Classified({"Political": 0.0}, words_relevance(page.title), is_retrospective=False, why=why)
    decision = classify(page.url, page.rows)
    weight = relevance(decision.category, page.rows, page.title)
    return Classified({decision.category: decision.confidence}, weight, is_retrospective=False, why=decision.why)
