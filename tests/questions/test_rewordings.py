"""Changes of words that must not change a query, and negation, over the vocabularies of two invented services."""

from itertools import permutations, product

import pytest

from tests.questions.invented import LIBRARY, SHIPS, mostly, read
from tollhouse.questions.linking import Linker
from tollhouse.questions.plans import key
from tollhouse.questions.query import EVERYTHING, AllOf, Condition, List, Reading, Refusal

# A set of rows, and a property after "that are" which "not" can stand before.
SETS = {
    "library": (("authors", "students of Mori", "teachers of Paz"), ("from Japan", "from Chile", "women")),
    "fleet": (("ships", "vessels towed by Aurora", "tugs"), ("tankers", "from Malta", "Norwegian")),
}
LINKERS = {"library": LIBRARY, "fleet": SHIPS}
NAMES = {"library": ("Japan", "Chile", "Kenya"), "fleet": ("Malta", "Norway", "Panama")}


def where(linker: Linker, text: str) -> Condition:
    reading = read(text, linker)
    return reading.query.rows.where if isinstance(reading, Reading) and isinstance(reading.query, List) else EVERYTHING


def conditions(condition: Condition) -> list[Condition]:
    return list(condition.of) if isinstance(condition, AllOf) else [condition]


def same(linker: Linker, text: str, other: str) -> bool:
    """Whether both are read, as one query."""
    readings = [read(each, linker) for each in (text, other)]
    queries = [key(reading.query) for reading in readings if isinstance(reading, Reading)]
    return len(queries) == 2 and queries[0] == queries[1]


CASES = [
    (LINKERS[service], rows, having)
    for service, (every, properties) in SETS.items()
    for rows, having in product(every, properties)
]
FRAMES = ("please {0}", "Hello, {0}", "{0} Thanks!", "could you tell me {0}?", "  {0}  .")


def test_negating_once_gives_the_complement_and_twice_the_same():
    def is_right(case: tuple[Linker, str, str]) -> bool:
        linker, rows, having = case
        texts = (rows, *(f"{rows} that are {said}{having}" for said in ("", "not ", "not not ")))
        every, having_it, lacking_it, twice = ([*map(key, conditions(where(linker, text)))] for text in texts)
        stated = [condition for condition in having_it if condition not in every]
        lacking = [condition for condition in lacking_it if condition not in every]
        return sorted(map(str, having_it)) == sorted(map(str, twice)) and [("Not", ("of", *stated))] == lacking

    mostly(CASES, is_right, 0.5)


def test_politeness_and_case_change_nothing():
    def is_right(case: tuple[Linker, str, str]) -> bool:
        linker, rows, having = case
        text = f"how many {rows} are {having}"
        changed = [*(frame.format(text) for frame in FRAMES), text.upper(), text.lower()]
        return all(same(linker, text, other) for other in changed)

    mostly(CASES, is_right, 0.75)


def test_order_of_a_list_changes_nothing():
    def is_right(case: tuple[str, str]) -> bool:
        service, word = case
        noun = SETS[service][0][0]
        lists = [f"{noun} from {a}, {b} {word} {c}" for a, b, c in permutations(NAMES[service])]
        return all(same(LINKERS[service], lists[0], other) for other in lists)

    mostly([*product(SETS, ("or", "and"))], is_right)


SAME = (
    ("students that Mori shares with Paz", "students that Mori and Paz share"),
    ("the overlap between the students of Mori and those of Paz", "students that Mori and Paz share"),
    ("authors whose student count is above 3", "authors with more than 3 students"),
    ("Which authors beat Mori on number of students?", "Which authors have more students than Mori?"),
    ("Which author has more students than anyone else?", "Which author has the most students?"),
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
)


def test_most_ways_to_say_the_same_are_one_query():
    mostly(SAME, lambda pair: same(LIBRARY, *pair))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("How many of the novels by Paz rhyme with Mori?", {"rhyme"}),
        ("Which authors from Japan taught nothing purple?", {"purple"}),
    ],
)
def test_word_that_left_no_trace_is_named_in_the_refusal(text, words):
    refusal = read(text)
    assert isinstance(refusal, Refusal)
    assert words & set(refusal.words)


@pytest.mark.parametrize("text", ["who taught " * 200, "who taught Paz but not Mori " * 40])
def test_text_that_no_person_asks_is_refused(text):
    assert isinstance(read(text), Refusal)
