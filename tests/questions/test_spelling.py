"""Typos of short words: a refused question is tried with its unknown words corrected by one letter."""

import pytest

from tests.questions.invented import LIBRARY
from tollhouse.questions.spelling import MOST_UNKNOWN, spellings
from tollhouse.services.infra.assistant.assistant import ask


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("hw many books are there", "how many books are there"),
        ("books wit the most pages", "books with the most pages"),
        ("which books dose Mori have", "which books does Mori have"),
        ("what is said of dragens", "what is said of dragons"),
    ],
)
def test_unknown_word_is_tried_as_one_at_one_letter(text, corrected):
    assert corrected in [spelling for spelling, _ in spellings(text, LIBRARY)]


@pytest.mark.parametrize("text", ["how many books are there", "books about zebras", f"hw {'qqq wit ' * MOST_UNKNOWN}"])
def test_nothing_is_tried_without_a_near_word_or_with_many_unknown_ones(text):
    assert not list(spellings(text, LIBRARY))


async def test_refused_question_is_answered_as_the_corrected_one_and_says_so():
    typed = await ask(["wo is supplying CoreWeave wit servers"])
    plain = await ask(["who is supplying CoreWeave with servers"])
    assert typed.ids == plain.ids != ()
    assert typed.query == plain.query
    assert "“wit” was read as “with”" in typed.text
    assert ("wit", "with") in typed.reading.corrected


async def test_question_that_no_spelling_explains_stays_refused():
    answer = await ask(["who supplies CoreWeave wit zeppelins"])
    assert answer.refusal is not None
    assert "“wit”" in answer.text
