"""What a reader said a URL is: the labelled lines that the battle classifier is trained and judged on."""

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

ConflictLabel = Literal[
    "armed_conflict",
    "political_violence",
    "conflict_analysis_or_statement",
    "protest",
    "crime_accident_or_unrelated",
]
BATTLES = frozenset({"armed_conflict", "political_violence"})


class Labelled(Struct, frozen=True):
    """`file` is the export the URL was seen in; `basis` is `rows` where the URL has no words to judge by."""

    url: str
    label: ConflictLabel
    file: str = ""
    basis: str = "url"

    @property
    def is_battle(self) -> bool:
        return self.label in BATTLES


class BadLabel(Struct, frozen=True):
    """A line that was skipped, counted from 1, and why."""

    line: int
    reason: str


def read_labels(lines: Iterable[bytes]) -> tuple[list[Labelled], list[BadLabel]]:
    """The labelled URLs of a JSON Lines file, the last line of a URL winning, and the lines that are not labels."""
    labels: dict[str, Labelled] = {}
    bad: list[BadLabel] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            labelled = msgspec.json.decode(line, type=Labelled)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            bad.append(BadLabel(number, str(fault)))
        else:
            labels[labelled.url] = labelled
    return list(labels.values()), bad
