"""Clauses around a question that ask nothing: they are left out, and never a name that the question needs."""

import pytest

from tests.questions.invented import LIBRARY, SHIPS, mostly, read
from tests.questions.test_reading import JAPAN, bare, is_
from tollhouse.questions.plans import key
from tollhouse.questions.query import Reading, Refusal, Related

SAID = (
    (LIBRARY, "I'm drafting an obituary for Paz - which authors are from Japan?", "Which authors are from Japan?"),
    (LIBRARY, "For a lecture on Chile I need the authors from Japan", "Which authors are from Japan?"),
    (LIBRARY, "As a tutor I need the authors from Japan", "Which authors are from Japan?"),
    (LIBRARY, "hastily: how many authors are women?", "How many authors are women?"),
    (LIBRARY, "I'm drafting an obituary, how many authors are women?", "How many authors are women?"),
    (SHIPS, "We are quarrelling over lunch; which ships are tankers?", "Which ships are tankers?"),
)


def test_a_clause_before_the_question_seldom_changes_it():
    readings = [(read(said, linker), read(plain, linker)) for linker, said, plain in SAID]
    known = [(first.query, second.query) for first, second in readings if isinstance(first, Reading)]
    assert len(known) >= len(SAID) / 3
    mostly(known, lambda pair: key(pair[0]) == key(pair[1]), 0.65)


def test_a_name_before_the_question_counts_where_the_question_has_none():
    reading = read("I'm drafting an obituary for Paz - how many books were written?")
    assert "paz" in str(reading)
    named = read("I'm drafting a note on Japan - which authors are there?")
    assert isinstance(named, Reading)
    assert bare(named.query.rows.where) == JAPAN


def test_a_name_in_a_heading_stands_for_the_pronoun():
    reading = read("Mori: who taught her?")
    assert isinstance(reading, Reading)
    assert bare(reading.query.rows.where) == Related("taught", outgoing=True, to=is_("id", "mori"))


@pytest.mark.parametrize(
    "text",
    [
        "authors from Wakanda, women",
        "I need glorps of Paz, in Chile",
        "I'm drafting a note on Wakanda - which authors are there?",
        "except glorps, list the authors",
    ],
)
def test_an_unknown_word_that_the_question_may_need_is_not_left_out(text: str):
    assert isinstance(read(text), Refusal)


def test_an_exclusion_without_a_question_before_is_refused():
    assert isinstance(read("and without Japan?"), Refusal)


@pytest.mark.parametrize(
    "said",
    [
        "my barber asks which authors are from Japan",
        "settle a wager, which authors are from Japan",
        "my barber and I wonder which authors are from Japan, honestly",
    ],
)
def test_words_around_a_question_are_left_out_and_named(said):
    first, second = (read(text) for text in (said, "which authors are from Japan"))
    assert isinstance(first, Reading), first
    assert isinstance(second, Reading)
    assert bare(first.query.rows.where) == bare(second.query.rows.where)


@pytest.mark.parametrize("said", ["which zorbly authors are women", "which authors are women, zorbly without prizes"])
def test_words_that_may_matter_are_not_left_out(said):
    assert isinstance(read(said), Refusal)
