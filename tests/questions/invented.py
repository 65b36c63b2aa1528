"""Two invented services, a library and a fleet, whose words are not those of Tollhouse's own services."""

import tomllib
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from tollhouse.questions.linking import Linker
from tollhouse.questions.planning import Question, read_question
from tollhouse.questions.query import Query, Reading, Refusal
from tollhouse.questions.vocabulary import Declaration, Named

T = TypeVar("T")
NOW = datetime(2020, 11, 15, 11, tzinfo=UTC)


def _declaration(name: str) -> Declaration:
    text = Path(__file__).with_name(f"{name}.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Declaration)


_NAMES = [
    Named("Ada Stone", "author", "id", "stone"),
    Named("Stone", "author", "id", "stone"),
    Named("Kenji Mori", "author", "id", "mori"),
    Named("Mori", "author", "id", "mori"),
    Named("Rosa Paz", "author", "id", "paz"),
    Named("Paz", "author", "id", "paz"),
    Named("The Long Tide", "book", "id", "tide"),
    Named("Salt", "book", "id", "salt"),
]

LIBRARY = Linker(_declaration("library"), _NAMES, {"story", "dragons"})

SHIPS = Linker(
    _declaration("fleet"),
    [
        Named("Aurora", "ship", "id", "aurora"),
        Named("Borealis", "ship", "id", "borealis"),
        Named("Cygnet", "ship", "id", "cygnet"),
        Named("Blue Star Line", "ship", "owner", "Blue Star Line"),
        Named("Hansen", "ship", "owner", "Hansen"),
    ],
)


def read(text: str, linker: Linker = LIBRARY, before: Query | None = None) -> Reading | Refusal:
    """What is read of a question, after the query of the one before."""
    return read_question(Question(text, linker, NOW, before=before))


def mostly(cases: Collection[T], is_right: Callable[[T], bool], least: float = 0.8) -> None:
    """Check that this share of cases is right: the parser has not learned from questions to these services.

    Each phrase may turn with the next training; docs/quality.md has the shares for services of strangers.
    """
    wrong = [case for case in cases if not is_right(case)]
    assert len(wrong) <= (1 - least) * len(cases), wrong
