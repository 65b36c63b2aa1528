from collections.abc import Sequence

import pytest

from tests.questions.invented import LIBRARY, SHIPS, mostly, read
from tests.questions.test_reading import JAPAN, bare, is_
from tollhouse.questions.linking import Linker
from tollhouse.questions.plans import key
from tollhouse.questions.query import (
    AllOf,
    Compare,
    Condition,
    Figure,
    Groups,
    List,
    Measure,
    Not,
    Order,
    Query,
    Reading,
    Related,
)

PAZ = is_("id", "paz")
CHILE = is_("country", "Chile")


def after(linker: Linker, *turns: str) -> Query:
    """The query of the last question."""
    before: Query | None = None
    for text in turns:
        reading = read(text, linker, before)
        assert isinstance(reading, Reading), reading
        before = reading.query
    assert before is not None
    return before


FOLLOW_UPS: Sequence[tuple[tuple[str, ...], Condition]] = (
    (("Which authors are from Japan?", "and from Chile?"), CHILE),
    (("Which authors are from Japan?", "only the women"), AllOf((JAPAN, is_("gender", "woman")))),
    (("Who taught Mori?", "and Paz?"), Related("taught", outgoing=True, to=PAZ)),
    (
        ("Who taught Paz?", "which of them are Japanese?"),
        AllOf((Related("taught", outgoing=True, to=PAZ), JAPAN)),
    ),
    (
        ("Who taught Paz?", "Leave out the women"),
        AllOf((Related("taught", outgoing=True, to=PAZ), Not(is_("gender", "woman")))),
    ),
    (("Which authors are from Japan?", "Who taught them?"), Related("taught", outgoing=True, to=JAPAN)),
    (("Which authors are from Japan?", "their students"), Related("taught", outgoing=False, to=JAPAN)),
    (("Who taught Paz?", "and students?"), Related("taught", outgoing=False, to=PAZ)),
)


def test_most_follow_ups_change_the_rows_of_the_question_before():
    def is_right(case: tuple[tuple[str, ...], Condition]) -> bool:
        query = after(LIBRARY, *case[0])
        return isinstance(query, List) and key(query.rows.where) == key(case[1])

    mostly(FOLLOW_UPS, is_right)


def test_number_of_the_rows_before_is_requested():
    query = after(LIBRARY, "Which authors are from Japan?", "How many are there?")
    assert isinstance(query, Figure)
    assert bare(query.rows.where) == JAPAN


def test_rows_before_are_put_in_an_order():
    query = after(LIBRARY, "Which novels are in English?", "the three cheapest")
    assert isinstance(query, List)
    assert (query.rows.order, query.rows.limit) == (Order("price", descending=False), 3)


def test_comparison_becomes_a_difference():
    query = after(SHIPS, "Is Aurora heavier than Borealis?", "by how much?")
    assert isinstance(query, Compare)
    assert query.difference


def test_measure_changes():
    query = after(LIBRARY, "average price of novels", "and the median?")
    assert isinstance(query, Figure)
    assert query.measure == Measure("median", "price")


def test_groups_are_turned_around():
    query = after(LIBRARY, "Which country has the most authors?", "and the fewest?")
    assert isinstance(query, Groups)
    assert not query.descending


def test_question_that_stands_by_itself_is_its_own():
    query = after(LIBRARY, "Who taught Paz?", "How many novels are there?")
    assert isinstance(query, Figure)
    assert query.rows.kind == "book"


@pytest.mark.parametrize(
    ("last", "is_total"), [("How many is that together?", True), ("What is the difference?", False)]
)
def test_figures_before_are_added_or_subtracted(last, is_total):
    query = after(LIBRARY, "How many authors are from Japan?", "and from Chile?", last)
    assert isinstance(query, Compare)
    assert [bare(side.where) for side in query.sides] == [JAPAN, CHILE]
    assert (query.total, query.difference) == (is_total, not is_total)
