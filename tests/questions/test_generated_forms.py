"""Questions of `tools.question_generator.forms`: each has a plan that the parser can learn, and an answer."""

import pytest

from tests.questions.test_metamorphic import ENGINES
from tollhouse.questions.parser_input import parser_input
from tollhouse.questions.plans import Realiser, key
from tollhouse.questions.years import with_years
from tools.question_encoding import encode
from tools.question_generator import forms

NUMBER = 40


@pytest.mark.parametrize("service", ENGINES)
def test_every_question_of_a_form_has_a_plan_and_an_answer(service: str):
    engine = ENGINES[service]()
    linker, dataset = engine.linker, engine.dataset
    cases = list(forms.cases(service, engine, NUMBER))
    assert len({text.casefold() for text, _ in cases}) == NUMBER
    for text, query in cases:
        linked = with_years(linker.link(text, dataset.now, dataset.hours), linker)
        tokens = encode(query, parser_input(linked, linker, None).leaves)
        assert key(Realiser(tokens, None).query()) == key(query), text
        assert engine.answer_query(query).text, text
