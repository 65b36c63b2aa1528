"""What a kill criterion is: a metric over filtered events, compared with a threshold."""

import operator
from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tollhouse.services.defense.brief.demand import area_words
from tollhouse.services.defense.countries import find_country
from tollhouse.services.defense.events.event import Category, SeverityTier
from tollhouse.services.defense.events.query import ABOUT_COUNTRY, CountryText, ShortText

Operator = Literal[">=", ">", "<=", "<", "=="]

COUNTED_METRICS = ("event_count", "fatalities", "max_severity", "spike")
STALENESS = "staleness_minutes"
BRIEF = "brief:"

# The number a tier is compared as.
SEVERITY: dict[SeverityTier, int] = {"low": 1, "medium": 2, "high": 3, "critical": 4}

_COMPARED: dict[Operator, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}

# Category, country's alpha-2 code and tier; None where any will do.
Key = tuple[Category | None, str | None, SeverityTier | None]


class AlertFilters(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which events are meant: all that are given hold. `source` is for staleness alone."""

    category: Annotated[Category | None, Meta(description="Only this category")] = None
    country: Annotated[CountryText | None, ABOUT_COUNTRY] = None
    entity: Annotated[
        ShortText | None,
        Meta(
            description="Only events whose story names this entity: its id, or its name or an alias in any case",
            examples=["entity_0f3c1b2a4d5e6f70"],
        ),
    ] = None
    severity_tier: Annotated[SeverityTier | None, Meta(description="Only this tier")] = None
    source: Annotated[
        ShortText | None,
        Meta(
            description="With `staleness_minutes`: the source meant, as `/health` names it", examples=["gdelt events"]
        ),
    ] = None


class Rule(Struct, frozen=True):
    """The criterion itself. `threshold` is compared as a number, a severity tier as 1 (low) to 4 (critical)."""

    metric: str
    filters: AlertFilters
    operator: Operator
    threshold: float
    window_hours: int
    cooldown_minutes: int

    def is_met(self, value: float | None) -> bool:
        """Whether the value fulfils the criterion; what could not be determined never does."""
        return value is not None and _COMPARED[self.operator](value, self.threshold)

    @property
    def key(self) -> Key:
        """The filters that every event has a value for."""
        country = find_country(self.filters.country) if self.filters.country else None
        return self.filters.category, country.alpha2 if country else None, self.filters.severity_tier

    def asks_the_same(self, other: "Rule") -> bool:
        """Whether both come true together, however often each may be told."""
        return all(getattr(self, name) == getattr(other, name) for name in _CRITERION)


_CRITERION = ("metric", "filters", "operator", "threshold", "window_hours")


def brief_figures() -> list[str]:
    """The figures of the brief that a rule can watch, by their names after `brief:`."""
    return [
        "total_market_value_b",
        "battle_events_24h",
        "events_24h",
        *(f"by_category.{name}" for name in ("Battles", "Protests", "Political", "Economic")),
        *(f"by_severity.{name}" for name in SEVERITY),
        *(f"gap_score.{area}" for area in area_words()),
    ]


def metrics() -> list[str]:
    """Every metric there is."""
    return [*COUNTED_METRICS, STALENESS, *(BRIEF + figure for figure in brief_figures())]


def plain(value: float) -> float:
    """A whole number as such, so that JSON shows 3 and not 3.0."""
    return int(value) if value == int(value) else value
