"""Two invented services, a library and a fleet, whose words are not those of Tollhouse's own services."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tollhouse.questions.linking import Linker
from tollhouse.questions.vocabulary import Declaration, Named

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
