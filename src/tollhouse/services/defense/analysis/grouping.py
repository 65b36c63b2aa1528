"""Events added up by one or two of their properties, in an order that never depends on how they were read."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from msgspec import Struct

from tollhouse.services.defense.analysis.history import Told
from tollhouse.services.defense.analysis.request import Dimension, Order
from tollhouse.services.defense.events.event import Event

# Significance has four decimals: added up as whole numbers, sums do not depend on the order.
_SCALE = 10_000

Group = tuple[str, ...]


class Significance(Struct, frozen=True):
    """Of a group's events, to four decimals."""

    sum: float
    mean: float
    max: float


class Counted(Struct, frozen=True):
    """One group: what it has in common in the order of `group_by`, and its figures."""

    group: Group
    count: int
    fatalities: int
    significance: Significance


class _Sums(Struct):
    count: int = 0
    fatalities: int = 0
    total: int = 0
    most: int = 0


class Tally:
    """Adds events up. An event without a country counts under the empty name, one that names no entity under none."""

    def __init__(self, dimensions: Sequence[Dimension], told: Told) -> None:
        self._dimensions = dimensions
        self._told = told
        self._sums: dict[Group, _Sums] = {}
        self.events = 0

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, events: Iterable[Event]) -> None:
        """Count these too."""
        for event in events:
            self.events += 1
            scaled = round(event.metrics.significance * _SCALE)
            for group in self._groups(event):
                sums = self._sums.get(group)
                if sums is None:
                    sums = self._sums[group] = _Sums()
                sums.count += 1
                sums.fatalities += event.fatalities
                sums.total += scaled
                sums.most = max(sums.most, scaled)

    def counted(self, order: Order) -> list[Counted]:
        """Every group, the largest first."""
        return sorted((_counted(group, sums) for group, sums in self._sums.items()), key=lambda one: _place(one, order))

    def _groups(self, event: Event) -> Iterator[Group]:
        return product(*(self._values(dimension, event) for dimension in self._dimensions))

    def _values(self, dimension: Dimension, event: Event) -> Sequence[str]:
        if dimension == "country":
            return (event.geo.country,)
        if dimension == "category":
            return (event.category,)
        if dimension == "day":
            return (event.event_date.isoformat(),)
        story = self._told.get(event.id)
        return story.entities if story else ()


def _counted(group: Group, sums: _Sums) -> Counted:
    mean = round(sums.total / sums.count / _SCALE, 4)
    return Counted(group, sums.count, sums.fatalities, Significance(sums.total / _SCALE, mean, sums.most / _SCALE))


def _place(one: Counted, order: Order) -> tuple[float, Group]:
    figures = {
        "count": one.count,
        "fatalities": one.fatalities,
        "significance_sum": one.significance.sum,
        "significance_mean": one.significance.mean,
        "significance_max": one.significance.max,
        "group": 0,
    }
    return -figures[order], one.group


def table(rows: Sequence[dict[str, object]], columns: Sequence[str]) -> bytes:
    """RFC 4180, one group a line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()
