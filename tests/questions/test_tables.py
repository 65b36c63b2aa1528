"""Questions of strangers to invented tables, which the parser has not learned from."""

from collections import Counter

from tollhouse.questions.evaluation import outcome
from tools.question_engines import engine_of
from tools.question_queries import labelled


def test_questions_to_tables_are_answered_as_well_as_measured():
    counts: Counter[str] = Counter()
    for name in ("ferries", "rentals", "weinkeller"):
        engine = engine_of(name)
        for line in labelled(name):
            before = None
            for turn in line.conversation[:-1]:
                before = engine.answer(turn, before).query or before
            counts[outcome(line, engine.answer(line.conversation[-1], before))] += 1
    assert counts.total() == 120
    assert counts["exact"] / counts.total() >= 0.4
    assert (counts["wrong"] + counts["partly"]) / counts.total() <= 0.15
