from collections.abc import Mapping

import pytest

from tests.questions.invented import mostly, read
from tollhouse.questions.plans import key
from tollhouse.questions.query import (
    EVERYTHING,
    AllOf,
    AnyOf,
    Condition,
    Figure,
    Groups,
    List,
    Not,
    Open,
    Order,
    Query,
    Reading,
    Refusal,
    Related,
    Rows,
    Test,
)


def bare(condition: Condition) -> Condition:
    """The condition without the words it came from."""
    if isinstance(condition, Test):
        return Test(condition.attribute, condition.comparison, condition.values)
    if isinstance(condition, Related):
        link = tuple(Test(test.attribute, test.comparison, test.values) for test in condition.link)
        return Related(condition.relation, condition.outgoing, bare(condition.to), link, condition.transitive)
    if isinstance(condition, Not):
        return Not(bare(condition.of))
    return type(condition)(tuple(bare(inner) for inner in condition.of))


def query_of(text: str) -> Query:
    reading = read(text)
    assert isinstance(reading, Reading), reading
    return reading.query


def where(text: str) -> Condition:
    query = query_of(text)
    assert isinstance(query, List | Figure | Groups | Open)
    return bare(query.rows.where)


def is_(attribute: str, *values: str | bool) -> Test:
    return Test(attribute, "is", values)


JAPAN = is_("country", "Japan")
STONE = is_("id", "stone")
MORI = is_("id", "mori")


CONDITIONS: Mapping[str, Condition] = {
    "How many novels are available?": AllOf((is_("genre", "Fiction"), is_("available", True))),
    "authors from Japan or Chile": is_("country", "Japan", "Chile"),
    "authors not from Japan": Not(JAPAN),
    "authors outside Japan and Chile": Not(is_("country", "Japan", "Chile")),
    "authors from neither Japan nor Chile": Not(is_("country", "Japan", "Chile")),
    "all authors except the Japanese ones": Not(JAPAN),
    "which books are not novels": Not(is_("genre", "Fiction")),
    "books in both English and German": AllOf((is_("language", "English"), is_("language", "German"))),
    "books under 20 dollars": Test("price", "below", (20.0,)),
    "books cheaper than $20": Test("price", "below", (20.0,)),
    "books with no more than 300 pages": Test("pages", "at_most", (300.0,)),
    "books of 300 pages or more": Test("pages", "at_least", (300.0,)),
    "authors with fewer than three students": Test("taught.out", "below", (3.0,)),
    "who taught Ada Stone?": Related("taught", outgoing=True, to=STONE),
    "who was taught by Ada Stone?": Related("taught", outgoing=False, to=STONE),
    "whom did Ada Stone teach?": Related("taught", outgoing=False, to=STONE),
    "Ada Stone's pupils": Related("taught", outgoing=False, to=STONE),
    "authors who studied under Stone": Related("taught", outgoing=False, to=STONE),
    "teachers of the teachers of Mori": Related("taught", True, Related("taught", outgoing=True, to=MORI)),
    "which books did Ada Stone write": Related("wrote", outgoing=False, to=STONE),
    "books by Ada Stone": Related("wrote", outgoing=False, to=STONE),
    "authors who teach nobody in Japan": Not(Related("taught", outgoing=True, to=JAPAN)),
    "authors without pupils in Japan": Not(Related("taught", outgoing=True, to=JAPAN)),
    "authors who taught both Mori and Stone": AllOf(
        (Related("taught", outgoing=True, to=MORI), Related("taught", outgoing=True, to=STONE))
    ),
    "authors who taught Mori but not Stone": AllOf(
        (Related("taught", outgoing=True, to=MORI), Not(Related("taught", outgoing=True, to=STONE)))
    ),
    "Wie viele Bücher sind nicht auf Deutsch?": Not(is_("language", "German")),
    "authors who instructed Mori": Related("taught", outgoing=True, to=MORI),
    "books in more than one language": Test("language.values", "above", (1.0,)),
    "any idea which authors are from Japan": JAPAN,
    "authors from Japan, right?": JAPAN,
    "¿Cuántos libros no están en alemán?": Not(is_("language", "German")),
    "Combien de livres ne sont pas en allemand ?": Not(is_("language", "German")),
}


def test_most_conditions_are_read():
    mostly(CONDITIONS, lambda text: reads(text, CONDITIONS[text]), 0.85)


def reads(text: str, condition: Condition) -> bool:
    reading = read(text)
    rows = getattr(reading.query, "rows", None) if isinstance(reading, Reading) else None
    return isinstance(rows, Rows) and key(rows.where) == key(condition)


def test_superlative_orders_and_ranks():
    query = query_of("the third most expensive novel")
    assert isinstance(query, List)
    assert (query.rows.order, query.rows.limit, query.rows.skip) == (Order("price"), 1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "Which book is second when you rank them all by price?",
        "Which book is second if everything is sorted by price?",
        "Which book is second, ordered according to price?",
    ],
)
def test_order_stands_in_a_clause_of_its_own(text):
    query = query_of(text)
    assert isinstance(query, List)
    assert (query.rows.order, query.rows.limit, query.rows.skip) == (Order("price"), 1, 1)


def test_group_with_the_most_rows_is_asked_for():
    assert query_of("Which country has the most authors?") == Groups(Rows("author"), "country", limit=1)


def test_word_that_is_unknown_is_never_a_filter():
    refusal = read("How many purple books are there?")
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.words) == ("unknown_words", ("purple",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Should I buy Salt?", "advice"),
        ("hello", "small_talk"),
        ("What does Salt weigh?", "not_in_data"),
        ("What do you think of the novels?", "opinion"),
    ],
)
def test_question_beyond_the_data_is_refused(text, reason):
    refusal = read(text)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason


def test_typo_is_corrected_and_reported():
    reading = read("How many novles are there?")
    assert isinstance(reading, Reading)
    assert reading.corrected == (("novles", "novels"),)


def test_everything_is_counted_without_a_condition():
    assert query_of("How many books are there?") == Figure(Rows("book", EVERYTHING))


def test_either_relation_is_enough():
    condition = where("books by Ada Stone or Kenji Mori")
    assert isinstance(condition, AnyOf | Related)
