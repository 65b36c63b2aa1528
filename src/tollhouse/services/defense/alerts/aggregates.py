"""Event samples of the last 48 hours, indexed by what rules filter by most, and the values of alert metrics.

The index is by category, country, severity tier and relevance. Metrics are figures of events by quarter-hour, spikes,
and figures of the defense brief.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import product
from math import sqrt
from statistics import median

import msgspec
from msgspec import Struct

from tollhouse.services.defense.alerts.rule import SEVERITY, Key
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
from tollhouse.services.defense.events.event import Category, Event, EventEntry, SeverityTier

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


# What all events of a group have in common. A rule's key selects whole cells.
Cell = tuple[Category, str, SeverityTier, bool]

# By minute, the number of events and of deaths, so that a cell of thousands of events is added up quickly.
_Sums = dict[int, tuple[int, int]]


class EventSample(Struct, frozen=True, gc=False):
    """An event as rules see it. `minute` is when it was last reported, in minutes since 1970.

    `entities` are the ids that its reports name.

    `entry` is the whole event: always for battles, whose words the brief's gap scores read, and for other events only
    while a rule has a filter that the other fields cannot answer.
    """

    category: Category
    country_code: str
    severity_tier: SeverityTier
    fatalities: int
    significance: float
    minute: int
    entities: tuple[str, ...]
    is_relevant: bool
    entry: EventEntry | None

    @property
    def cell(self) -> Cell:
        """The group of the event."""
        return self.category, self.country_code, self.severity_tier, self.is_relevant


SampleTest = Callable[[EventSample], bool]


def build_sample(entry: EventEntry, *, keep_entry: bool = False) -> EventSample:
    event = entry.event
    return EventSample(
        category=event.category,
        country_code=entry.country_code,
        severity_tier=event.metrics.severity_tier,
        fatalities=event.fatalities,
        significance=event.metrics.significance,
        minute=to_minute(entry.reported_at),
        entities=entry.entities,
        is_relevant=entry.is_relevant,
        entry=entry if keep_entry or event.category == "Battles" else None,
    )


def to_minute(moment: datetime) -> int:
    """A moment in whole minutes since 1970."""
    return int(moment.timestamp()) // 60


class Aggregates:
    """The samples by event id, and their sums by cell. Windows end at the minute `as_of`."""

    def __init__(self) -> None:
        self.as_of = 0
        self.samples: dict[str, EventSample] = {}
        self._ids: dict[Cell, set[str]] = {}
        self._sums: dict[Cell, _Sums] = {}
        self._cells: dict[Key, set[Cell]] = {}
        self._by_minute: dict[int, set[str]] = {}

    def put(self, event_id: str, sample: EventSample | None) -> set[Cell]:
        """Replace an event's sample, or remove it with None. Returns the cells that changed."""
        changed = set()
        before = self.samples.pop(event_id, None)
        if before is not None:
            changed.add(before.cell)
            self._remove(event_id, before)
        if sample is not None:
            changed.add(sample.cell)
            self.samples[event_id] = sample
            self._add(event_id, sample)
        return changed

    def move(self, as_of: int, hours: Iterable[int]) -> set[Cell]:
        """Move the end of windows to `as_of`. Returns the cells with events that entered or left a window.

        `hours` are the lengths of the windows.
        """
        before, self.as_of = self.as_of, as_of
        low, high = min(before, as_of), max(before, as_of)
        bounds = [(low - 60 * each, high - 60 * each) for each in (0, *hours)]
        minutes = {minute for minute in self._by_minute if any(low < minute <= high for low, high in bounds)}
        return {self.samples[event_id].cell for minute in minutes for event_id in self._by_minute[minute]}

    def ids(self, key: Key, test: SampleTest | None = None) -> Iterator[str]:
        """The events that a key selects and that pass the test."""
        for cell in self._cells.get(key, ()):
            yield from (event_id for event_id in self._ids[cell] if test is None or test(self.samples[event_id]))

    def histogram(self, key: Key, test: SampleTest | None = None) -> Histogram:
        """The events that a key selects and that pass the test, by age."""
        histogram = Histogram([0] * BINS, [0] * BINS, [0] * BINS)
        for cell in self._cells.get(key, ()):
            severity, sums = SEVERITY[cell[2]], self._sums[cell]
            if test is not None:
                sums = {}
                for sample in (self.samples[event_id] for event_id in self._ids[cell]):
                    if test(sample):
                        _add_to(sums, sample, 1)
            for minute, (count, deaths) in sums.items():
                age = (self.as_of - minute) // MINUTES_PER_BIN
                if 0 <= age < BINS:
                    histogram.counts[age] += count
                    histogram.deaths[age] += deaths
                    histogram.worst[age] = max(histogram.worst[age], severity)
        return histogram

    def _add(self, event_id: str, sample: EventSample) -> None:
        cell = sample.cell
        if cell not in self._ids:
            self._ids[cell], self._sums[cell] = set(), {}
            for key in keys_of_cell(cell):
                self._cells.setdefault(key, set()).add(cell)
        self._ids[cell].add(event_id)
        _add_to(self._sums[cell], sample, 1)
        self._by_minute.setdefault(sample.minute, set()).add(event_id)

    def _remove(self, event_id: str, sample: EventSample) -> None:
        cell = sample.cell
        self._ids[cell].discard(event_id)
        _add_to(self._sums[cell], sample, -1)
        if not self._ids[cell]:
            del self._ids[cell], self._sums[cell]
            for key in keys_of_cell(cell):
                self._cells[key].discard(cell)
        self._by_minute[sample.minute].discard(event_id)
        if not self._by_minute[sample.minute]:
            del self._by_minute[sample.minute]


def _add_to(sums: _Sums, sample: EventSample, number: int) -> None:
    count, deaths = sums.get(sample.minute, (0, 0))
    if count + number:
        sums[sample.minute] = (count + number, deaths + number * sample.fatalities)
    else:
        del sums[sample.minute]


def keys_of_cell(cell: Cell) -> Iterator[Key]:
    category, country, tier, relevant = cell
    return product((category, None), (country, None), (tier, None), (True, None) if relevant else (None,))
