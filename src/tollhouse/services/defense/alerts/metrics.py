"""Metrics of events counted by quarters of an hour: how many, how deadly, how severe, how far out of the usual."""

from collections.abc import Sequence
from math import sqrt
from statistics import median

from msgspec import Struct

MINUTES_PER_BIN = 15
BINS_PER_HOUR = 4
HELD_HOURS = 48
BINS = HELD_HOURS * BINS_PER_HOUR

# A normal distribution's standard deviation is so many times its median deviation.
_MAD_TO_DEVIATION = 1.4826
# News varies by that part of itself from one window to the next without anything being out of the usual.
_USUAL_VARIATION = 0.1
# A window of which so little was read says nothing about a whole one.
_LEAST_READ_SHARE = 0.25


class Histogram(Struct, frozen=True):
    """Events by age in quarters of an hour, the youngest first. `worst` is the highest severity, 0 for no event."""

    counts: list[int]
    deaths: list[int]
    worst: list[int]


def empty() -> Histogram:
    """No event."""
    return Histogram([0] * BINS, [0] * BINS, [0] * BINS)


def measured(metric: str, histogram: Histogram, hours: int, read: Sequence[bool]) -> float | None:
    """The value of one of COUNTED_METRICS over the last `hours`; `read` are the quarters the provider was read in.

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
    """How many deviations the window's count lies above the usual one, negative below it, to two decimals.

        usual     = median of the counts of the whole windows of that length before this one, within 48 hours,
                    each scaled to as much reading as this window had
        deviation = the largest of 1, sqrt(usual x (1 + 1/n)), 1.4826 x median deviation, usual / 10

    for n windows before. The first term keeps single events from being spikes, the second is chance alone (Poisson) and
    how little n windows say about the usual. A window of which less than a quarter as much was read is left out; None
    without any, or where nothing was read of this one.
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
    """`spike` of a count and the scaled counts before it."""
    if not before:
        return None
    usual = median(before)
    spread = _MAD_TO_DEVIATION * median(abs(other - usual) for other in before)
    chance = sqrt(usual * (1 + 1 / len(before)))
    return round((count - usual) / max(1.0, chance, spread, _USUAL_VARIATION * usual), 2)
