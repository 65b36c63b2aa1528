"""Changes of a shopper's text that must not change its products, and exclusion, which must give the complement.

The texts are a sample of `tools.generate_questions` and phrases over the vocabulary and the demonstration's names.
"""

import json
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

GENERATED = Path(__file__).parents[2] / "data" / "questions" / "generated_mattress.jsonl"
SAMPLE = 40

EVERYTHING = ("queen mattress", "king mattress under 2000", "firm mattress for side sleepers")
# A property, what has it, and what does not.
EXCLUSIONS = {
    "Tidewater": (
        "{0} by {1}",
        (
            "{0} not by {1}",
            "{0}, no {1}",
            "{0} except {1}",
            "{0} other than {1}",
            "{0} but not {1}",
            "{0} excluding {1}",
        ),
    ),
    "latex": (
        "{0} made of {1}",
        ("{0} without {1}", "{0}, no {1}", "{0} anything but {1}", "{0} that isn't {1}", "non-{1} {0}"),
    ),
}
CHANGES: dict[str, Callable[[str], str]] = {
    "a greeting": lambda text: f"Hello, {text}",
    "thanks": lambda text: f"{text.rstrip('?.')}, thanks",
    "lower case": str.lower,
    "double spaces": lambda text: text.replace(" ", "  "),
}


@pytest.fixture(scope="module")
def found(mattress):
    """The ids of the products for a text; none where conditions were dropped."""

    def ask(text: str) -> frozenset[str]:
        answer = mattress.get("/api/search", q=text, limit=250).json()
        dropped = answer["applied_filters"].get("understood", {}).get("relaxed")
        return frozenset() if dropped else frozenset(each["id"] for each in answer["products"])

    return ask


def sampled() -> list[str]:
    """English texts without typos."""
    lines = [json.loads(line) for line in GENERATED.read_text("utf-8").splitlines()]
    return random.Random(7).sample(
        [line["turns"][0] for line in lines if "plain" not in line and line["language"] == "en"], SAMPLE
    )


@pytest.mark.parametrize("change", CHANGES)
def test_change_without_meaning_keeps_the_products(found, change: str):
    changed = [(text, CHANGES[change](text)) for text in sampled()]
    assert [pair for pair in changed if found(pair[0]) != found(pair[1])] == []


def test_order_of_keywords_does_not_matter(found):
    words = ("queen", "latex", "in stock", "under 2000")
    expected = found(" ".join(words))
    assert expected
    orders = [random.Random(seed).sample(words, len(words)) for seed in range(8)]
    assert [order for order in orders if found(", ".join(order)) != expected] == []


@pytest.mark.parametrize("excluded", EXCLUSIONS)
def test_exclusion_gives_the_complement(found, excluded: str):
    having, lacking = EXCLUSIONS[excluded]
    for everything, phrase in product(EVERYTHING, lacking):
        with_it, without_it = found(having.format(everything, excluded)), found(phrase.format(everything, excluded))
        assert with_it | without_it == found(everything), phrase.format(everything, excluded)
        assert not with_it & without_it, phrase.format(everything, excluded)


@pytest.mark.parametrize("excluded", EXCLUSIONS)
def test_nothing_but_means_only(found, excluded: str):
    having, _ = EXCLUSIONS[excluded]
    for everything in EVERYTHING:
        assert found(f"{everything}, nothing but {excluded}") == found(having.format(everything, excluded))
