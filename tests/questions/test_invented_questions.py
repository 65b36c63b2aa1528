"""Questions of `tools.question_generator.relations`: each has a plan that the parser can learn, and an answer."""

from tollhouse.questions.parser_input import parser_input
from tollhouse.questions.plans import Realiser, key
from tollhouse.questions.query import Refusal
from tools.question_encoding import encode
from tools.question_generator import relations

NUMBER, ABOUT = 60, ("theatre",)


def test_every_question_has_a_plan_and_an_answer_and_is_drawn_again():
    cases = list(relations.cases(NUMBER, about=ABOUT))
    assert cases == list(relations.cases(NUMBER, about=ABOUT))
    for engine, text, before, right in cases:
        linker, dataset = engine.linker, engine.dataset
        corrections = next(linker.spellings(text), (0.0, ()))[1]
        linked = linker.link(text, dataset.now, dataset.hours, corrections=corrections)
        tokens = encode(right, parser_input(linked, linker, before, is_named=False).leaves, before)
        assert key(Realiser(tokens, before).query()) == key(right), text
        assert isinstance(right, Refusal) or engine.answer_query(right).text, text
