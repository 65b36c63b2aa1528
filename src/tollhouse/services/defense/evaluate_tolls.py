"""Evaluate the tolls read from headlines: `tollhouse evaluate tolls`."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from tollhouse.labelled_lines import read_lines
from tollhouse.services.defense.events.toll import read_toll


class LabelledTitle(Struct, frozen=True):
    """A headline and the number of people that it says were killed; null where it gives none."""

    title: str
    fatalities: int | None


def evaluate(path: Path, progress: Callable[[str], None]) -> dict[str, float | int]:
    """Compare each headline's toll with its label.

    `exact`, `wrong` and `missed` are shares of the headlines with a number, `invented` of those without one.
    `with_toll`, `n` and `malformed` are counts.
    """
    counts: Counter[str] = Counter()
    lines, malformed = read_lines(path, LabelledTitle, progress)
    for line in lines:
        counts[_outcome(line.fatalities, read_toll(line.title).killed)] += 1
    with_toll = counts["exact"] + counts["wrong"] + counts["missed"]
    without = counts["invented"] + counts["rightly_none"]
    progress(f"{with_toll} headlines with a toll, {without} without")
    shares = {name: round(counts[name] / with_toll, 4) if with_toll else 0.0 for name in ("exact", "wrong", "missed")}
    invented = round(counts["invented"] / without, 4) if without else 0.0
    return {**shares, "invented": invented, "with_toll": with_toll, "n": with_toll + without, "malformed": malformed}


def _outcome(expected: int | None, read: int | None) -> str:
    if expected is None:
        return "rightly_none" if read is None else "invented"
    if read is None:
        return "missed"
    return "exact" if read == expected else "wrong"
