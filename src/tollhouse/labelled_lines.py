"""Read files of labelled JSON lines, on which the serving code is measured."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

Line = TypeVar("Line")


def read_lines(path: Path, kind: type[Line], progress: Callable[[str], None]) -> tuple[list[Line], int]:
    """The lines of a file in their order, and how many are malformed: those are named to `progress` and skipped."""
    lines: list[Line] = []
    malformed = 0
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        if not raw.strip():
            continue
        try:
            lines.append(msgspec.json.decode(raw, type=kind))
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            malformed += 1
            progress(f"{path.name}, line {number}: skipped, {fault}")
    return lines, malformed
