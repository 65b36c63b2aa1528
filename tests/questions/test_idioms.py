"""Idioms say the same as their plain forms."""

import pytest

from tests.questions.invented import LIBRARY, NOW
from tests.questions.test_grammar import bare
from tollhouse.questions.grammar import read_question
from tollhouse.questions.linking import Linker
from tollhouse.questions.query import Reading, Refusal


@pytest.mark.parametrize(
    ("linker", "said", "plain"),
    [
        (LIBRARY, "students that Mori shares with Paz", "students that Mori and Paz share"),
        (LIBRARY, "the overlap between the students of Mori and those of Paz", "students that Mori and Paz share"),
        (LIBRARY, "authors whose student count is above 3", "authors with more than 3 students"),
        (LIBRARY, "Which authors beat Mori on number of students?", "Which authors have more students than Mori?"),
        (LIBRARY, "Which author has more students than anyone else?", "Which author has the most students?"),
    ],
)
def test_an_idiom_says_the_same_as_its_plain_form(linker: Linker, said: str, plain: str):
    readings = [read_question(text, linker, now=NOW) for text in (said, plain)]
    assert all(isinstance(reading, Reading) for reading in readings), readings
    first, second = (reading.query for reading in readings)
    assert type(first) is type(second)
    assert bare(first.rows.where) == bare(second.rows.where)
    assert (first.rows.order, first.rows.limit) == (second.rows.order, second.rows.limit)


def test_an_unknown_verb_that_only_joins_is_left_out_and_named():
    guess = read_question("Which author attracted the most students?", LIBRARY, now=NOW)
    plain = read_question("Which author has the most students?", LIBRARY, now=NOW)
    assert isinstance(guess, Reading)
    assert isinstance(plain, Reading)
    assert guess.guessed
    assert "attracted" in guess.ignored
    assert guess.query == plain.query


@pytest.mark.parametrize("text", ["Which authors sued Mori?", "Which peaceful authors are there?"])
def test_an_unknown_word_that_says_something_is_not_left_out(text: str):
    assert isinstance(read_question(text, LIBRARY, now=NOW), Refusal)
