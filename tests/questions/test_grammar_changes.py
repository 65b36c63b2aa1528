"""Changes of words that must not change a query, and negation, over the vocabularies of two invented services."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.questions.invented import LIBRARY, NOW, SHIPS
from tests.questions.test_grammar import bare
from tollhouse.questions.grammar import read_question
from tollhouse.questions.linking import Linker
from tollhouse.questions.query import AllOf, Condition, Figure, List, Not, Reading, Refusal

# A set of rows, and a property after "that are" which "not" can stand before.
SETS = {
    "library": (("authors", "students of Mori", "teachers of Paz"), ("from Japan", "from Chile", "women")),
    "fleet": (("ships", "vessels towed by Aurora", "tugs"), ("tankers", "from Malta", "Norwegian")),
}
LINKERS = {"library": LIBRARY, "fleet": SHIPS}
NAMES = {"library": ("Japan", "Chile", "Kenya"), "fleet": ("Malta", "Norway", "Panama")}
SERVICES = st.sampled_from(sorted(SETS))


def query(linker: Linker, text: str) -> Any:
    reading = read_question(text, linker, now=NOW)
    assert isinstance(reading, Reading), f"{text}: {reading}"
    return reading.query


def where(linker: Linker, text: str) -> Condition:
    result = query(linker, text)
    assert isinstance(result, List | Figure)
    return bare(result.rows.where)


def conditions(condition: Condition) -> list[Condition]:
    return list(condition.of) if isinstance(condition, AllOf) else [condition]


def plain(linker: Linker, text: str) -> Any:
    """The query without the words that it came from, and with values in alphabetical order."""
    return _plain(msgspec.to_builtins(query(linker, text)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: sorted(inner, key=str) if key == "values" else _plain(inner)
            for key, inner in value.items()
            if key != "words"
        }
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


@st.composite
def rows_with_property(draw) -> tuple[Linker, str, str]:
    service = draw(SERVICES)
    rows, properties = SETS[service]
    return LINKERS[service], draw(st.sampled_from(rows)), draw(st.sampled_from(properties))


@settings(max_examples=40, deadline=None)
@given(rows_with_property())
def test_negating_once_gives_the_complement_and_twice_the_same(case):
    linker, rows, having = case
    every, having_it = conditions(where(linker, rows)), conditions(where(linker, f"{rows} that are {having}"))
    (stated,) = [condition for condition in having_it if condition not in every]
    lacking_it = conditions(where(linker, f"{rows} that are not {having}"))
    assert lacking_it == [Not(condition) if condition == stated else condition for condition in having_it]
    assert conditions(where(linker, f"{rows} that are not not {having}")) == having_it


@settings(max_examples=40, deadline=None)
@given(
    rows_with_property(),
    st.sampled_from(["please {0}", "Hello, {0}", "{0} Thanks!", "could you tell me {0}?", "  {0}  ."]),
)
def test_politeness_changes_nothing(case, frame):
    linker, rows, having = case
    text = f"how many {rows} are {having}"
    assert plain(linker, frame.format(text)) == plain(linker, text)


@settings(max_examples=30, deadline=None)
@given(rows_with_property())
def test_case_changes_nothing(case):
    linker, rows, having = case
    text = f"how many {rows} are {having}"
    assert plain(linker, text.lower()) == plain(linker, text.upper()) == plain(linker, text)


@settings(max_examples=30, deadline=None)
@given(SERVICES, st.permutations([0, 1, 2]), st.sampled_from(["or", "and"]))
def test_order_of_a_list_changes_nothing(service, order, word):
    names = NAMES[service]
    noun = SETS[service][0][0]
    first = f"{noun} from {names[0]}, {names[1]} {word} {names[2]}"
    other = f"{noun} from {names[order[0]]}, {names[order[1]]} {word} {names[order[2]]}"
    assert plain(LINKERS[service], first) == plain(LINKERS[service], other)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("books under 20 dollars", "books for less than $20"),
        ("books with at least 300 pages", "books with 300 pages or more"),
        ("authors without students", "authors who have no students"),
        ("who taught Mori?", "Mori's teachers"),
        ("who was taught by Mori?", "whom did Mori teach?"),
        ("how many novels are there?", "number of novels"),
        ("Which country has the most authors?", "country with the most authors"),
        ("Paz has which students?", "students of Paz"),
        ("Paz is a student of whom?", "teachers of Paz"),
        ("Who counts Paz among their students?", "Who taught Paz?"),
        ("Mori taught Paz, true or false?", "Did Mori teach Paz?"),
        ("authors who taught Paz but not Mori's", "authors who taught Paz but not Mori"),
        ("students of Mori that Paz doesn't have", "students of Mori but not of Paz"),
        ("authors with more students than Paz", "Which authors have more students than Paz?"),
    ],
)
def test_two_ways_to_say_the_same_are_one_query(first, second):
    assert plain(LIBRARY, first) == plain(LIBRARY, second)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("How many of the novels by Paz rhyme with Mori?", {"rhyme"}),
        ("Which authors from Japan taught nothing purple?", {"purple"}),
        ("authors from Japan whose teachers were sveen women", {"sveen"}),
    ],
)
def test_word_that_left_no_trace_is_named_in_the_refusal(text, words):
    refusal = read_question(text, LIBRARY, now=NOW)
    assert isinstance(refusal, Refusal)
    assert words & set(refusal.words)


@pytest.mark.parametrize("text", ["who taught " * 200, "who taught Paz but not Mori " * 40])
def test_text_that_no_person_asks_is_refused(text):
    assert isinstance(read_question(text, LIBRARY, now=NOW), Refusal)
