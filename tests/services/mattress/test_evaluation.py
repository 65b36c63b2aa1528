"""The labelled descriptions: what `tollhouse evaluate questions mattress` measures."""

import json
from pathlib import Path

from tollhouse.questions import evaluation
from tollhouse.services.mattress.evaluation import ask

GOLD = Path(__file__).parents[2] / "data/questions/mattress.jsonl"


async def test_labelled_descriptions_are_understood_and_every_negation_is_right():
    kinds = {line["id"]: line["kind"] for line in map(json.loads, GOLD.read_text("utf-8").splitlines())}
    figures = await evaluation.evaluate(GOLD, ask, print)
    assert figures["mean_f1"] >= 0.95
    assert figures["exact"] >= 0.95
    denied = [case for case in figures["cases"] if "negation" in kinds[case["id"]]]
    assert len(denied) > 20
    assert [case["turns"] for case in denied if case["outcome"] != "exact"] == []
