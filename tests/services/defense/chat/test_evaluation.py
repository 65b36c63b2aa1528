"""The questions of both halves, and what must hold of every answer, right or wrong."""

import re

import pytest

from tests.services.defense.chat.evaluating import Gold, numbers_in, questions, replied
from tollhouse.services.defense.chat.query_types import QueryResult

FLOORS = {"dev": 0.97, "held": 0.90}
ALL = [*questions("dev"), *questions("held")]


@pytest.mark.parametrize("half", ["dev", "held"])
def test_answers_are_right(recorded, half):
    gold, asked = Gold(recorded.feeds), questions(half)
    wrong = [q["turns"] for q in asked if not gold.is_right(q["expect"], replied(recorded, q))]
    assert len(asked) >= 40
    assert 1 - len(wrong) / len(asked) >= FLOORS[half], wrong


@pytest.mark.parametrize("question", ALL, ids=lambda question: question["turns"][-1])
def test_every_citation_exists(recorded, question):
    known = {item["id"]: item for kind in ("events", "stories") for item in recorded.feeds[kind]}
    for reference in replied(recorded, question).citations:
        if reference.id.startswith("brief:"):
            assert recorded.feeds["brief"][reference.id.removeprefix("brief:")]
            continue
        item = known[reference.id]
        urls = item.get("source_urls") or [article["url"] for article in item["articles"]]
        assert (reference.title, reference.url in urls) == (item["title"], True)


@pytest.mark.parametrize("question", ALL, ids=lambda question: question["turns"][-1])
def test_every_figure_was_returned_by_the_query(recorded, question):
    reply = replied(recorded, question)
    if reply.result is None:
        # Words of the question are quoted back; the window is of 24 hours.
        assert set(numbers_in(re.sub("“[^”]*”", "", reply.text))) <= {"24"}
        return
    unknown = [number for number in numbers_in(reply.text) if not is_returned(number, reply.result)]
    assert not unknown, reply.text


def is_returned(number: str, result: QueryResult) -> bool:
    """A figure as it is, rounded or as a percentage; or a number of a quoted text, a name or a filter; or no figure."""
    if not result.figures and number == "0":
        return True
    for figure in result.figures:
        if figure.value is not None and any(
            f"{value:.{digits}f}".lstrip("-") == number
            for value in (figure.value, figure.value * 100)
            for digits in (0, 1, 2, 3, 4)
        ):
            return True
    quoted = [result.note, *(row.text for row in result.rows), *(figure.of for figure in result.figures)]
    filters = result.query.filters
    quoted += [*filters.words, str(filters.day), str(filters.since), str(filters.until)]
    quoted += [part for side in result.query.sides for part in (str(side.day), str(side.since))]
    return number in "\n".join(quoted).replace(",", "")
