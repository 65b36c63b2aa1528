"""Evaluate the tolls read from headlines: `tollhouse evaluate tolls`."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.toll import read_toll


class LabelledTitle(Struct, frozen=True):
    """A headline and the number of people that it says were killed; null where it gives none."""

    title: str
    fatalities: int | None


def evaluate(path: Path, progress: Callable[[str], None]) -> dict[str, float | int]:
    """Compare each headline's toll with its label.

    `exact`, `wrong` and `missed` are shares of the headlines with a number, `invented` of those without one.
    `with_toll` and `n` are counts. Raises ValueError, with the line, if a line is malformed.
    """
    counts: Counter[str] = Counter()
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            labelled = msgspec.json.decode(line, type=LabelledTitle)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path.name}, line {number}: {error}") from None
        counts[_outcome(labelled.fatalities, read_toll(labelled.title).killed)] += 1
    with_toll = counts["exact"] + counts["wrong"] + counts["missed"]
    without = counts["invented"] + counts["rightly_none"]
    progress(f"{with_toll} headlines with a toll, {without} without")
    shares = {name: round(counts[name] / with_toll, 4) if with_toll else 0.0 for name in ("exact", "wrong", "missed")}
    invented = round(counts["invented"] / without, 4) if without else 0.0
    return {**shares, "invented": invented, "with_toll": with_toll, "n": with_toll + without}


def _outcome(expected: int | None, read: int | None) -> str:
    if expected is None:
        return "rightly_none" if read is None else "invented"
    if read is None:
        return "missed"
    return "exact" if read == expected else "wrong"
