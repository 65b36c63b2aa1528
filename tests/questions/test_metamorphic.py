"""Changes of a question that must not change its answer, and negation, which must give the complement.

The questions are a sample of `tools.generate_questions` and phrases over the vocabulary and names of each service.
"""

import asyncio
import json
import random
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from tollhouse.questions.answering import Answer, Engine
from tollhouse.services.defense.chat.snapshot import load_recorded
from tollhouse.services.infra.assistant.assistant import bundled_assistant

GENERATED = Path(__file__).parents[1] / "data" / "questions"
SAMPLE = 40
MOST_TURNED = 1


class Phrases(NamedTuple):
    """Ways of a service to say a set of rows, a property of them, that they lack it, and that they do not lack it.

    `having`, `lacking` and `not_lacking` hold the rows at {0} and the property at {1}.
    """

    rows: tuple[str, ...]
    properties: tuple[str, ...]
    having: str
    lacking: tuple[str, ...]
    not_lacking: str
    lists: tuple[str, ...]
    members: tuple[str, ...]


def recorded_feeds() -> Engine:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(load_recorded(Path(folder))).engine


ENGINES: dict[str, Callable[[], Engine]] = {"infra": lambda: bundled_assistant().engine, "defense": recorded_feeds}
PHRASES = {
    "infra": Phrases(
        rows=("suppliers of NVIDIA", "suppliers of TSMC", "customers of ASML", "suppliers of Microsoft"),
        properties=("Japan", "the United States", "Taiwan", "Europe"),
        having="{0} in {1}",
        lacking=("{0} that are not in {1}", "{0} outside {1}", "{0} except those in {1}", "{0} who aren't in {1}"),
        not_lacking="{0} that are not outside {1}",
        lists=(
            "companies that supply {0} or {1}",
            "companies that supply both {0} and {1}",
            "who supplies neither {0} nor {1}?",
        ),
        members=("Intel", "AMD", "Meta", "Samsung Electronics"),
    ),
    "defense": Phrases(
        rows=("battles", "political events", "events of high severity", "economic events"),
        properties=("Ethiopia", "the United States", "Africa", "India"),
        having="{0} in {1}",
        lacking=(
            "{0} that were not in {1}",
            "{0} outside {1}",
            "{0} except those in {1}",
            "{0} that did not happen in {1}",
        ),
        not_lacking="{0} that were not outside {1}",
        lists=("events in {0} or {1}", "battles in either {0} or {1}", "events neither in {0} nor in {1}"),
        members=("Ethiopia", "India", "Israel", "France"),
    ),
}


@cache
def engine(service: str) -> Engine:
    return ENGINES[service]()


@cache
def rows(service: str, text: str) -> frozenset[str]:
    """The rows that answer a question; it must not be refused."""
    answer = engine(service).answer(text)
    assert answer.refusal is None, f"{text}: {answer.text}"
    return frozenset(answer.ids)


def stated(answer: Answer) -> tuple[object, ...]:
    """What an answer says, without its words: rows in any order."""
    return answer.refusal is not None, answer.value, frozenset(answer.ids), frozenset(answer.names)


def sampled(service: str) -> list[str]:
    """Single questions without typos."""
    lines = [json.loads(line) for line in (GENERATED / f"generated_{service}.jsonl").read_text("utf-8").splitlines()]
    texts = [line["turns"][0] for line in lines if len(line["turns"]) == 1 and "plain" not in line]
    return random.Random(7).sample(texts, SAMPLE)


CHANGES: dict[str, Callable[[str], str]] = {
    "a greeting": lambda text: f"Hello, {text}",
    "thanks": lambda text: f"{text} Thanks",
    "double spaces": lambda text: text.replace(" ", "  "),
    "a capital": lambda text: text[0].upper() + text[1:],
    "no final mark": lambda text: text.rstrip("?.! "),
}


@pytest.mark.parametrize("service", ENGINES)
@pytest.mark.parametrize("change", CHANGES)
def test_change_without_meaning_keeps_the_answer(service: str, change: str):
    ask = engine(service).answer
    changed = [(text, CHANGES[change](text)) for text in sampled(service)]
    # The parser is trained: a question that it is not sure of may turn.
    turned = [pair for pair in changed if stated(ask(pair[0])) != stated(ask(pair[1]))]
    assert len(turned) <= MOST_TURNED, turned


@pytest.mark.parametrize("service", PHRASES)
def test_lower_case_keeps_the_answer(service: str):
    said = PHRASES[service]
    texts = [said.having.format(*pair) for pair in product(said.rows, said.properties)]
    assert [text for text in texts if rows(service, text) != rows(service, text.lower())] == []


@pytest.mark.parametrize("service", PHRASES)
def test_order_of_a_list_does_not_matter(service: str):
    said = PHRASES[service]
    pairs = [(one, other) for one, other in product(said.members, repeat=2) if one < other]
    for text, (one, other) in product(said.lists, pairs):
        assert rows(service, text.format(one, other)) == rows(service, text.format(other, one)), text.format(one, other)


@pytest.mark.parametrize("service", PHRASES)
def test_negation_gives_the_complement(service: str):
    said = PHRASES[service]
    for everything, quality, lacking in product(said.rows, said.properties, said.lacking):
        with_it = rows(service, said.having.format(everything, quality))
        without_it = rows(service, lacking.format(everything, quality))
        assert with_it | without_it == rows(service, everything), lacking.format(everything, quality)
        assert not with_it & without_it, lacking.format(everything, quality)


@pytest.mark.parametrize("service", PHRASES)
def test_negating_twice_keeps_the_answer(service: str):
    said = PHRASES[service]
    for everything, quality in product(said.rows, said.properties):
        twice = said.not_lacking.format(everything, quality)
        assert rows(service, twice) == rows(service, said.having.format(everything, quality)), twice
