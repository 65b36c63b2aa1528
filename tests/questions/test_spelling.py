"""Typos: the spelling of a text that is understood best is read, and stated; two that are as near are refused."""

import pytest

from tests.questions.invented import LIBRARY
from tollhouse.questions.spelling import MOST_MISSPELT, errors
from tollhouse.services.infra.assistant.assistant import ask


@pytest.mark.parametrize(
    ("typed", "other", "more_usual"),
    [("wiht", "with", "white"), ("mny", "many", "menu"), ("suppliets", "suppliers", "supplied"), ("lst", "list", "ms")],
)
def test_usual_errors_cost_less(typed, other, more_usual):
    assert errors(typed, typed) == 0 < errors(typed, other) < errors(typed, more_usual)


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("hw many books are there", "how"),
        ("how mny books are there", "many"),
        ("lst the books by Mori", "list"),
        ("books wtih the most pages", "with"),
        ("what is said of drgons", "dragons"),
    ],
)
def test_short_and_long_words_are_corrected(text, corrected):
    assert corrected in [word for _, words in LIBRARY.spellings(text, widely=True) for _, word in words]


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("Bücher vor dem 13. Novemer", ["november"]),
        ("Wie viel Proznt der Bücher sind alt", ["prozent"]),
        ("books by Mari", []),
    ],
)
def test_prepositions_of_times_and_short_names_are_no_typos_and_german_nouns_can_be(text, corrected):
    assert [word for _, word in next(LIBRARY.spellings(text, widely=True), (0, ()))[1]] == corrected


@pytest.mark.parametrize("text", ["how many books are there", "books about zebras", "wtih hw " + "lst wtih mny " * 4])
def test_nothing_is_corrected_without_a_near_word(text):
    spelled = list(LIBRARY.spellings(text))
    assert all(len(words) <= MOST_MISSPELT for _, words in spelled)
    assert "zebras" not in text or not spelled


async def test_question_is_answered_as_the_corrected_one_and_says_so():
    typed = await ask(["wo is supplying CoreWeave wit servers"])
    plain = await ask(["who is supplying CoreWeave with servers"])
    assert typed.ids == plain.ids != ()
    assert "“wit” was read as “with”" in typed.text
    assert ("wit", "with") in typed.reading.corrected


async def test_typo_that_has_the_stem_of_a_phrase_is_corrected_where_it_stays_unknown():
    typed, plain = (
        await ask(["Which 3 countris have the most companies?"]),
        await ask(["Which 3 countries have the most companies?"]),
    )
    assert typed.names == plain.names != ()


async def test_two_spellings_that_are_as_near_are_refused():
    answer = await ask(["List companies that are not in Austraia"])
    assert answer.refusal is not None
    assert answer.refusal.reason == "ambiguous"
    assert "“Austraia”" in answer.text


async def test_question_that_no_spelling_explains_stays_refused():
    answer = await ask(["who supplies CoreWeave wit zeppelins"])
    assert answer.refusal is not None
    assert "“wit”" in answer.text
