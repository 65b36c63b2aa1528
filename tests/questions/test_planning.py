"""The parser reads what the grammar cannot, and loses no name."""

import json
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.questions.invented import LIBRARY, read
from tollhouse.questions.leaves import IMPLIED
from tollhouse.questions.linking import Linker
from tollhouse.questions.parser import question_parser
from tollhouse.questions.parser_input import parser_input
from tollhouse.questions.planning import Question, likeliest
from tollhouse.questions.plans import GRAMMAR, Realiser, following, key
from tollhouse.questions.query import (
    AllOf,
    Among,
    Call,
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
    Refusal,
    Related,
    Rows,
    Share,
    Test,
)
from tollhouse.services.infra.assistant.assistant import ask, bundled_assistant
from tools.question_encoding import encode

QUESTIONS = Path(__file__).parents[1] / "data/questions/infra.jsonl"


def _infra_linker() -> Linker:
    return bundled_assistant().engine.linker


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("Where is Eaton domiciled?", "In which country is Eaton based?"),
        ("Kindly indicate the sole supplier of ASML.", "Who supplies ASML?"),
        ("Which companies appear to have no customers at all?", "Which companies have no customers?"),
        ("the overlap between the suppliers of AMD and those of NVIDIA", "suppliers that AMD and NVIDIA share"),
        ("Which firm attracted the most customers?", "Which company has the most customers?"),
    ],
)
async def test_a_question_with_unknown_words_is_answered_as_its_plain_form(said: str, plain: str):
    first, second = await ask([said]), await ask([plain])
    assert first.refusal is None
    assert (set(first.ids), set(first.names), first.value) == (set(second.ids), set(second.names), second.value)


async def test_unknown_words_that_were_left_out_are_named():
    answer = await ask(["Which firm attracted the most customers?"])
    assert answer.reading is not None
    assert answer.reading.guessed
    assert "attracted" in answer.reading.ignored
    assert "“attracted”" in answer.text


@pytest.mark.parametrize("text", ["Which companies supply Frobnicon?", "customers of Zarquon Industries in Japan"])
async def test_an_unknown_name_is_never_left_out(text: str):
    assert (await ask([text])).refusal is not None


@pytest.mark.parametrize(
    "text",
    ["How many patents does NVIDIA have?", "Combien de brevets Arm détient-elle ?", "Wie viele Kunden hat Siemens?"],
)
async def test_an_unknown_noun_that_is_counted_is_never_left_out(text: str):
    assert (await ask([text])).refusal is not None


async def test_words_that_say_nothing_have_no_plan_that_makes_all_of_it_up():
    assert (await ask(["than a lot"])).refusal is not None


@pytest.mark.parametrize("of", [Test("supplies.in", "above", (1.0,)), Related("supplies", outgoing=True, to=AllOf())])
def test_a_relation_of_another_kind_is_an_error(of: Condition):
    with pytest.raises(KeyError):
        bundled_assistant().engine.tables.run(List(Rows("relation", of)))


def test_an_attribute_of_another_kind_is_not_understood():
    reading = Reading(List(Rows("company"), "date"))
    assert isinstance(bundled_assistant().engine.answer_reading("", reading), Refusal)


@pytest.mark.parametrize("text", ["Which authors sued Mori?", "Which peaceful authors are there?"])
def test_an_unknown_word_that_says_something_is_not_left_out(text: str):
    assert isinstance(read(text), Refusal)


def test_what_a_service_declares_can_be_meant_without_its_words():
    linker = _infra_linker()
    linked = linker.link("Credo's order book")
    leaves = parser_input(linked, linker, None).leaves
    values = {(leaf.type, str(leaf.value)) for leaf in leaves if leaf.item == IMPLIED}
    assert {("relation", "('supplies', False)"), ("attribute", "supplies.out"), ("operation", "failure")} <= values
    assert not any("credo" in value for _, value in values), "rows are meant only where they are named"


def test_what_comes_after_an_order_is_a_number_or_a_time():
    linker = _infra_linker()
    question = parser_input(linker.link("companies by product, category, customers and date"), linker, None)
    ordered = {question.leaves[place].value for place in question.ordered}
    assert {"supplies.out", "product.values", "date"} <= ordered
    assert ordered.isdisjoint({"product", "category", "country"})


def test_every_plan_of_a_labelled_question_gives_its_query_again():
    linker, checked = _infra_linker(), 0
    for line in map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines()):
        text = (line.get("turns") or [line.get("question")])[0]
        reading = read(text, linker)
        if not isinstance(reading, Reading) or reading.corrected or reading.ignored:
            continue
        leaves = parser_input(linker.link(text), linker, None).leaves
        try:
            tokens = encode(reading.query, leaves)
        except LookupError:
            continue
        assert key(Realiser(tokens, None).query()) == key(reading.query), text
        checked += 1
    assert checked > 50


@given(text=st.text(alphabet=string.ascii_letters + " 0123456789.,?'-", max_size=80))
@settings(max_examples=40, deadline=None)
def test_any_text_has_only_plans_that_the_grammar_allows(text: str):
    linked = LIBRARY.link(text)
    if not linked.items:
        assert list(likeliest(Question(text, LIBRARY))) == []
        return
    for plan in question_parser().plans(parser_input(linked, LIBRARY, None)):
        symbols: tuple[str, ...] = ("query",)
        for token in plan.tokens:
            assert (token if isinstance(token, str) else f"@{token.type}") in GRAMMAR[symbols[0]]
            symbols = following(symbols, token)
        assert symbols == ()


def test_a_follow_up_takes_its_rows_from_the_question_before():
    linker = _infra_linker()
    first = read("Who supplies NVIDIA?", linker)
    assert isinstance(first, Reading)
    said, plain = (
        read(text, linker, first.query) for text in ("and which of those hail from Japan?", "the Japanese ones")
    )
    assert isinstance(said, Reading)
    assert isinstance(plain, Reading)
    assert key(said.query) == key(plain.query)


def test_every_form_of_query_can_be_written_as_a_plan():
    american = Rows("company", Test("country", "is", ("US",)))
    japanese = Rows("company", Test("country", "is", ("JP",)))
    linker = _infra_linker()
    text = "American and Japanese companies by category, 3: fail without ASML?"
    leaves = parser_input(linker.link(text), linker, None).leaves
    outage = Call("failure", (Rows("company", Test("id", "is", ("asml",))),))
    stopped = Related("halts", outgoing=True, to=american.where, at_least=2, at_most=3)
    queries: tuple[Query, ...] = (
        Share(american, japanese, is_every=True),
        Share(american, japanese),
        Groups(Rows("company"), "category", without=american, also=japanese, limit=3),
        Groups(american, "category", mean=True),
        Groups(american, "category", counts=True, also=japanese),
        Groups(Rows("company"), "category", above=american, equal=japanese),
        List(Rows("company", AllOf((stopped, Not(Among(Rows("company", of=outage))))))),
        List(Rows("company", Related("supplies", outgoing=True, to=american.where, every=True))),
        List(Rows("company", Test("supplies.in - supplies.out", "above", (0.0,)))),
        Figure(american, Measure("sum", "stops % all")),
        Figure(american, Measure("average", "stops / 3")),
        Compare((american, japanese), is_yes_no=True, equal=True),
        List(Rows("company", order=Order("supplies.in / supplies.out"), limit=1)),
    )
    for query in queries:
        tokens, symbols = encode(query, leaves), ("query",)
        for token in tokens:
            symbols = following(symbols, token)
        assert symbols == ()
        assert key(Realiser(tokens, None).query()) == key(query)
