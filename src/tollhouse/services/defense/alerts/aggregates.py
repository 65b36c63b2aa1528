"""The marks of 48 hours laid out by what filters go by, so that a change finds its rules and a rule its events."""

from collections.abc import Collection, Iterable, Iterator
from itertools import product

from tollhouse.services.defense.alerts.event_samples import Mark
from tollhouse.services.defense.alerts.metrics import BINS, MINUTES_PER_BIN, Histogram, empty
from tollhouse.services.defense.alerts.rule import SEVERITY, Key
from tollhouse.services.defense.events.event import Category, SeverityTier

# What every event of a group has in common; any of a rule's keys means whole groups of them.
Cell = tuple[Category, str, SeverityTier]

# By minute, how many events and how many dead: what a cell of thousands of events is added up from.
_Sums = dict[int, tuple[int, int]]


class Board:
    """Marks by id. `as_of` is the minute at which windows end."""

    def __init__(self) -> None:
        self.as_of = 0
        self.marks: dict[str, Mark] = {}
        self._cells: dict[Cell, set[str]] = {}
        self._sums: dict[Cell, _Sums] = {}
        self._within: dict[Key, set[Cell]] = {}
        self._by_minute: dict[int, set[str]] = {}

    def put(self, identity: str, mark: Mark | None) -> set[Cell]:
        """Lay a mark out anew, or take it away; the cells that this touches."""
        touched = set()
        before = self.marks.pop(identity, None)
        if before is not None:
            touched.add(before.cell)
            self._leave(identity, before)
        if mark is not None:
            touched.add(mark.cell)
            self.marks[identity] = mark
            self._enter(identity, mark)
        return touched

    def move(self, as_of: int, hours: Iterable[int]) -> set[Cell]:
        """Let windows end at `as_of`; the cells of which something left a window of one of these lengths."""
        before, self.as_of = self.as_of, as_of
        low, high = min(before, as_of), max(before, as_of)
        bounds = [(low - 60 * each, high - 60 * each) for each in (0, *hours)]
        minutes = {minute for minute in self._by_minute if any(low < minute <= high for low, high in bounds)}
        return {self.marks[identity].cell for minute in minutes for identity in self._by_minute[minute]}

    def ids(self, key: Key, stories: Collection[str] | None) -> Iterator[str]:
        """The events a key means, of these stories alone where any are named."""
        for cell in self._within.get(key, ()):
            if stories is None:
                yield from self._cells[cell]
            else:
                yield from (one for one in self._cells[cell] if self.marks[one].story_id in stories)

    def histogram(self, key: Key, stories: Collection[str] | None = None) -> Histogram:
        """The events a key means, by age."""
        made = empty()
        for cell in self._within.get(key, ()):
            severity = SEVERITY[cell[2]]
            for minute, (count, deaths) in self._sums_of(cell, stories).items():
                age = (self.as_of - minute) // MINUTES_PER_BIN
                if 0 <= age < BINS:
                    made.counts[age] += count
                    made.deaths[age] += deaths
                    made.worst[age] = max(made.worst[age], severity)
        return made

    def _sums_of(self, cell: Cell, stories: Collection[str] | None) -> _Sums:
        if stories is None:
            return self._sums[cell]
        sums: _Sums = {}
        for identity in self._cells[cell]:
            mark = self.marks[identity]
            if mark.story_id in stories:
                _add(sums, mark, 1)
        return sums

    def _enter(self, identity: str, mark: Mark) -> None:
        cell = mark.cell
        if cell not in self._cells:
            self._cells[cell], self._sums[cell] = set(), {}
            for key in keys_of(cell):
                self._within.setdefault(key, set()).add(cell)
        self._cells[cell].add(identity)
        _add(self._sums[cell], mark, 1)
        self._by_minute.setdefault(mark.minute, set()).add(identity)

    def _leave(self, identity: str, mark: Mark) -> None:
        cell = mark.cell
        self._cells[cell].discard(identity)
        _add(self._sums[cell], mark, -1)
        if not self._cells[cell]:
            del self._cells[cell], self._sums[cell]
            for key in keys_of(cell):
                self._within[key].discard(cell)
        self._by_minute[mark.minute].discard(identity)
        if not self._by_minute[mark.minute]:
            del self._by_minute[mark.minute]


def _add(sums: _Sums, mark: Mark, number: int) -> None:
    count, deaths = sums.get(mark.minute, (0, 0))
    if count + number:
        sums[mark.minute] = (count + number, deaths + number * mark.fatalities)
    else:
        del sums[mark.minute]


def keys_of(cell: Cell) -> Iterator[Key]:
    """Every key that means the events of a cell."""
    category, country, tier = cell
    return product((category, None), (country, None), (tier, None))
