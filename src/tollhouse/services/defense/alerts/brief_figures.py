"""The brief's figures as rules watch them, from the marks instead of a whole brief."""

from collections.abc import Callable, Sequence

from tollhouse.services.defense.alerts.metrics import BINS_PER_HOUR, Histogram
from tollhouse.services.defense.alerts.rule import BRIEF, Key
from tollhouse.services.defense.brief.capability import capability_gaps, gap_score
from tollhouse.services.defense.brief.demand import demand, naming_events, unmet_request
from tollhouse.services.defense.brief.production import CATEGORIES, Line, production_summary
from tollhouse.services.defense.events.event import Event

HOURS = 24

_EVERYTHING: Key = (None, None, None)
_PLAIN_KEYS: dict[str, Key] = {
    "battle_events_24h": ("Battles", None, None),
    "events_24h": _EVERYTHING,
    "by_category.Battles": ("Battles", None, None),
    "by_category.Protests": ("Protests", None, None),
    "by_category.Political": ("Political", None, None),
    "by_category.Economic": ("Economic", None, None),
    "by_severity.low": (None, None, "low"),
    "by_severity.medium": (None, None, "medium"),
    "by_severity.high": (None, None, "high"),
    "by_severity.critical": (None, None, "critical"),
}

_GAP = "gap_score."
_REMEMBERED = 100_000


def figure_of(metric: str) -> str:
    """The figure that a metric watches."""
    return metric.removeprefix(BRIEF)


def counted_key(figure: str) -> Key | None:
    """The events that a figure counts, None for one that is no count."""
    return _PLAIN_KEYS.get(figure)


class BriefFigures:
    """The figures that are no counts. `lines` are the procurement lines that the brief is made of."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._total = production_summary(lines).total_market_value_b
        self._supply = {gap.area: gap.supply.score for gap in capability_gaps(lines, [])}
        self._lines = lines
        self._names: dict[tuple[str, str, str], bool] = {}

    def value(self, figure: str, battles: Callable[[], Sequence[Event]]) -> float | None:
        """A figure of the window that holds these battles; None where nobody measured it."""
        if figure.startswith(_GAP):
            return self._gap(figure.removeprefix(_GAP), battles())
        return self._total

    def _gap(self, area: str, battles: Sequence[Event]) -> float | None:
        mine = [line for line in self._lines if line.area == area]
        naming = [(event, [""]) for event in battles if self._is_named(area, event)]
        unmet = unmet_request(sum(line.fy2026_k for line in mine), sum(line.fy2027_k for line in mine))
        return gap_score(demand(naming, battles, unmet).score, self._supply[CATEGORIES[area]])

    def _is_named(self, area: str, event: Event) -> bool:
        asked = (area, event.title, event.subcategory)
        if asked not in self._names:
            if len(self._names) >= _REMEMBERED:
                self._names.clear()
            self._names[asked] = bool(naming_events(area, [event]))
        return self._names[asked]


def counted_value(histogram: Histogram) -> float:
    """A count of the brief's 24 hours."""
    return sum(histogram.counts[: HOURS * BINS_PER_HOUR])
