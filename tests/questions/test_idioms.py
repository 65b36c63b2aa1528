"""Idioms say the same as their plain forms."""

import pytest

from tests.questions.invented import LIBRARY, NOW
from tests.questions.test_grammar import bare
from tollhouse.questions.grammar import read_question
from tollhouse.questions.linking import Linker
from tollhouse.questions.query import Reading


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
