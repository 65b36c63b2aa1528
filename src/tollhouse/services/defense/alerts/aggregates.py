"""Event samples of the last 48 hours, indexed by what rules filter by most.

These are category, country, severity tier and relevance.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import product

from msgspec import Struct

from tollhouse.services.defense.alerts.metrics import BINS, MINUTES_PER_BIN, Histogram
from tollhouse.services.defense.alerts.rule import SEVERITY, Key
from tollhouse.services.defense.events.event import Category, EventEntry, SeverityTier

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
