"""The values of alert metrics: figures of events by quarter-hour, spikes, and figures of the defense brief."""

from collections.abc import Callable, Sequence
from math import sqrt
from statistics import median

import msgspec
from msgspec import Struct

from tollhouse.services.defense.brief.capability import (
    AreaNaming,
    Battles,
    capability_gaps,
    demand,
    gap_score,
    named_areas,
    unmet_request,
)
from tollhouse.services.defense.brief.production import CATEGORIES, Line, bundled_lines, production_summary
from tollhouse.services.defense.events.event import Event

MINUTES_PER_BIN = 15
BINS_PER_HOUR = 4
HELD_HOURS = 48
BINS = HELD_HOURS * BINS_PER_HOUR

# The ratio of a normal distribution's standard deviation to its median absolute deviation.
_MAD_TO_DEVIATION = 1.4826
# The share by which news usually varies from one window to the next.
_USUAL_VARIATION = 0.1
# A window of which a smaller share was read is not compared.
_LEAST_READ_SHARE = 0.25


class Histogram(Struct, frozen=True):
    """Events by age in quarters of an hour, youngest first. `worst` is the highest severity, 0 without events."""

    counts: list[int]
    deaths: list[int]
    worst: list[int]


def measure(metric: str, histogram: Histogram, hours: int, read: Sequence[bool]) -> float | None:
    """The value of one of COUNTED_METRICS over the last `hours`; `read` says which quarter-hours have a slot.

    None where there is nothing to compare with.
    """
    bins = hours * BINS_PER_HOUR
    if metric == "event_count":
        return sum(histogram.counts[:bins])
    if metric == "fatalities":
        return sum(histogram.deaths[:bins])
    if metric == "max_severity":
        return max(histogram.worst[:bins])
    return spike(histogram.counts, read, hours)


def spike(counts: Sequence[int], read: Sequence[bool], hours: int) -> float | None:
    """How many deviations the window's count lies above the usual count, to two decimals; negative below it.

        usual     = median of the counts of the full windows of that length before this one, within 48 hours,
                    each scaled to the number of slots read in this window
        deviation = the largest of 1, sqrt(usual x (1 + 1/n)), 1.4826 x median deviation, usual / 10

    for n previous windows. The first term keeps single events from being spikes; the second is the Poisson deviation,
    widened for small n. Windows with less than a quarter as many slots are left out. None without previous windows, or
    when no slot of this window was read.
    """
    bins = hours * BINS_PER_HOUR
    here = sum(read[:bins])
    if not here:
        return None
    before = []
    for start in range(bins, len(counts) - bins + 1, bins):
        known = sum(read[start : start + bins])
        if known and known >= here * _LEAST_READ_SHARE:
            before.append(sum(counts[start : start + bins]) * here / known)
    return deviations(sum(counts[:bins]), before)


def deviations(count: float, before: Sequence[float]) -> float | None:
    """`spike` for a count and the scaled counts of previous windows."""
    if not before:
        return None
    usual = median(before)
    spread = _MAD_TO_DEVIATION * median(abs(other - usual) for other in before)
    chance = sqrt(usual * (1 + 1 / len(before)))
    return round((count - usual) / max(1.0, chance, spread, _USUAL_VARIATION * usual), 2)


HOURS = 24

_GAP = "gap_score."
_MOST_CACHED_NAMES = 100_000


def counted_value(histogram: Histogram) -> float:
    """The count of the brief's 24 hours."""
    return sum(histogram.counts[: HOURS * BINS_PER_HOUR])


class BriefFigures:
    """The figures of the brief that are not counts, for the procurement `lines` that it is built from."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._total = production_summary(lines).total_market_value_b
        self._supply = {gap.area: gap.supply.score for gap in capability_gaps(lines, Battles())}
        self._lines = lines
        self._is_named: dict[tuple[str, str, str], bool] = {}

    def value(self, figure: str, battles: Callable[[], Sequence[Event]]) -> float | None:
        """A figure of the window that holds these battles; None where it was not measured."""
        if not figure.startswith(_GAP):
            return self._total
        area, events = figure.removeprefix(_GAP), battles()
        lines = [line for line in self._lines if line.area == area]
        naming = 0
        for event in events:
            key = (area, event.title, event.subcategory)
            if key not in self._is_named:
                if len(self._is_named) >= _MOST_CACHED_NAMES:
                    self._is_named.clear()
                self._is_named[key] = area in named_areas(event)
            naming += self._is_named[key]
        unmet = unmet_request(sum(line.fy2026_k for line in lines), sum(line.fy2027_k for line in lines))
        return gap_score(demand(AreaNaming(naming), Battles(len(events)), unmet).score, self._supply[CATEGORIES[area]])


def production_lines(packed: bytes) -> Sequence[Line]:
    """The operator's procurement lines, or the bundled ones."""
    return msgspec.json.decode(packed, type=tuple[Line, ...]) if packed else bundled_lines()
