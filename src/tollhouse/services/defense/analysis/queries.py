"""Analysis queries: the request body, and the sums of events by group in an order that does not depend on reading."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tollhouse.services.defense.events.event import EventEntry
from tollhouse.services.defense.events.filter import EventFilter, EventTest, check_filters, invalid_member

Dimension = Literal["country", "category", "day", "entity"]
Order = Literal["count", "fatalities", "significance_sum", "significance_mean", "significance_max", "group"]
Group = tuple[str, ...]

# Significance has four decimals: as whole numbers, sums do not depend on the order of events.
_SCALE = 10_000


class AnalysisFilters(EventFilter, frozen=True, kw_only=True):
    """The filters of `GET /feeds/events`. Events that pass all of them are counted."""


class AnalysisRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/analysis`."""

    group_by: Annotated[
        list[Dimension],
        Meta(min_length=1, max_length=2, description="One or two different dimensions. `day` is the event's date"),
    ]
    filters: AnalysisFilters = AnalysisFilters()
    hours: Annotated[int, Meta(ge=1, le=168, description="Count events reported in this many hours up to `as_of`")] = 24
    order_by: Annotated[
        Order, Meta(description="Largest first; `group` sorts by the groups themselves. Ties are ordered by group")
    ] = "count"
    limit: Annotated[int, Meta(ge=1, le=1_000, description="The maximum number of groups to return")] = 100


class SavedRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/analysis/queries`."""

    name: Annotated[
        str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$", description="A name of your choice")
    ]
    query: AnalysisRequest


class AnalysisQuery(Struct, frozen=True, forbid_unknown_fields=True):
    format: Annotated[Literal["json", "csv"] | None, Meta(description="The representation; overrides `Accept`")] = None


class RunQuery(AnalysisQuery, frozen=True, forbid_unknown_fields=True):
    """The parameters of `POST /api/analysis/queries/{id}/run`."""


def check_request(request: AnalysisRequest) -> None:
    """Raises Problem `invalid-body` for errors that the types do not catch."""
    if len(set(request.group_by)) < len(request.group_by):
        raise invalid_member("group_by", "`group_by` must not contain the same dimension twice.")
    check_filters(request.filters)


class Significance(Struct, frozen=True):
    """Figures of the group's significance, to four decimals."""

    sum: float
    mean: float
    max: float


class GroupFigures(Struct, frozen=True):
    """One group, in the order of `group_by`, and its figures."""

    group: Group
    count: int
    fatalities: int
    significance: Significance


class _Sums(Struct):
    count: int = 0
    fatalities: int = 0
    total: int = 0
    most: int = 0

    def figures(self, group: Group) -> GroupFigures:
        mean = round(self.total / self.count / _SCALE, 4)
        significance = Significance(self.total / _SCALE, mean, self.most / _SCALE)
        return GroupFigures(group, self.count, self.fatalities, significance)


class GroupSums:
    """Sums of events by group. An event without a country counts under "", one that names no entity under none."""

    def __init__(self, dimensions: Sequence[Dimension]) -> None:
        self._dimensions = dimensions
        self._sums: dict[Group, _Sums] = {}
        self.events = 0

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, entries: Iterable[EventEntry], tests: Sequence[EventTest]) -> None:
        """Add the events that pass all tests."""
        for entry in entries:
            if not all(test(entry) for test in tests):
                continue
            event = entry.event
            self.events += 1
            scaled = round(event.metrics.significance * _SCALE)
            for group in product(*(self._values(dimension, entry) for dimension in self._dimensions)):
                sums = self._sums.get(group)
                if sums is None:
                    sums = self._sums[group] = _Sums()
                sums.count += 1
                sums.fatalities += event.fatalities
                sums.total += scaled
                sums.most = max(sums.most, scaled)

    def groups(self, order: Order) -> list[GroupFigures]:
        """Every group, largest first."""

        def position(one: GroupFigures) -> tuple[float, Group]:
            figures = {
                "count": one.count,
                "fatalities": one.fatalities,
                "significance_sum": one.significance.sum,
                "significance_mean": one.significance.mean,
                "significance_max": one.significance.max,
                "group": 0,
            }
            return -figures[order], one.group

        return sorted((sums.figures(group) for group, sums in self._sums.items()), key=position)

    def _values(self, dimension: Dimension, entry: EventEntry) -> Sequence[str]:
        event = entry.event
        if dimension == "country":
            return (event.geo.country,)
        if dimension == "category":
            return (event.category,)
        if dimension == "day":
            return (event.event_date.isoformat(),)
        return entry.entities
