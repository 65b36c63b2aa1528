"""Alert rules: a metric of filtered events compared with a threshold, and the request bodies that state one."""

import operator
from collections.abc import Callable
from typing import Annotated, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace

from tollhouse.services.defense.brief.capability import area_words
from tollhouse.services.defense.events.event import Category, SeverityTier
from tollhouse.services.defense.events.filter import (
    FILTER_FIELDS,
    EventFilter,
    ShortText,
    check_filters,
    invalid_member,
)
from tollhouse.services.defense.gazetteer import find_country
from tollhouse.webhooks.store import State

DEFAULT_WINDOW_HOURS = 24
DEFAULT_COOLDOWN_MINUTES = 60
WEEK_MINUTES = 7 * 24 * 60

Operator = Literal[">=", ">", "<=", "<", "=="]

COUNTED_METRICS = ("event_count", "fatalities", "max_severity", "spike")
STALENESS = "staleness_minutes"
BRIEF = "brief:"

# The number that a severity tier is compared as.
SEVERITY: dict[SeverityTier, int] = {"low": 1, "medium": 2, "high": 3, "critical": 4}

_COMPARE: dict[Operator, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}

# The filters that events are indexed by: category, the country's alpha-2 code, severity tier and whether they are
# relevant. None matches any.
Key = tuple[Category | None, str | None, SeverityTier | None, bool | None]

# The figures of the brief that count events, by the name that follows `brief:`, with the events that they count.
COUNTED_FIGURES: dict[str, Key] = {
    "battle_events_24h": ("Battles", None, None, True),
    "events_24h": (None, None, None, True),
    **{f"by_category.{category}": (category, None, None, True) for category in get_args(Category)},
    **{f"by_severity.{tier}": (None, None, tier, True) for tier in SEVERITY},
}


class AlertFilters(EventFilter, frozen=True, kw_only=True):
    """The filters of `GET /feeds/events`, and `source`, which applies to `staleness_minutes` only."""

    source: Annotated[
        ShortText | None,
        Meta(description="With `staleness_minutes`: a source's name from `/health`", examples=["gdelt events"]),
    ] = None


class Rule(Struct, frozen=True):
    """An alert's condition. A severity tier is compared as 1 (low) to 4 (critical)."""

    metric: str
    filters: AlertFilters
    operator: Operator
    threshold: float
    window_hours: int
    cooldown_minutes: int

    def is_met(self, value: float | None) -> bool:
        """Whether the value meets the condition. An undetermined value never does."""
        return value is not None and _COMPARE[self.operator](value, self.threshold)

    @property
    def key(self) -> Key:
        """The filters that events are indexed by."""
        country = find_country(self.filters.country) if self.filters.country else None
        relevant = None if self.filters.relevance == "all" else True
        return self.filters.category, country.alpha2 if country else None, self.filters.severity_tier, relevant

    @property
    def unindexed(self) -> EventFilter | None:
        """The other filters, None when there are none."""
        indexed = ("category", "country", "severity_tier", "relevance")
        names = [name for name in FILTER_FIELDS if name not in indexed]
        rest = {name: value for name in names if (value := getattr(self.filters, name)) is not None}
        # The index has the relevant events only, unless all are counted.
        return EventFilter(**rest, relevance="all") if rest else None

    def has_same_condition(self, other: "Rule") -> bool:
        """Whether both are met at the same times, whatever their cooldown."""
        return replace(self, cooldown_minutes=other.cooldown_minutes) == other


def metrics() -> list[str]:
    figures = ("total_market_value_b", *COUNTED_FIGURES, *(f"gap_score.{area}" for area in area_words()))
    return [*COUNTED_METRICS, STALENESS, *(BRIEF + figure for figure in figures)]


Name = Annotated[
    str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$", description="A name of your choice")
]
Metric = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=80,
        description="`event_count`, `fatalities`, `max_severity`, `spike`, `staleness_minutes` or `brief:<figure>`",
        examples=["event_count"],
    ),
]
Threshold = Annotated[
    Annotated[float, Meta(ge=-1e12, le=1e12)] | SeverityTier,
    Meta(
        description="A number. `max_severity` also takes a tier or its number, 1 (low) to 4 (critical)", examples=[10]
    ),
]
WindowHours = Annotated[int, Meta(ge=1, le=24, description="The hours over which events count", examples=[24])]
Cooldown = Annotated[
    int, Meta(ge=1, le=WEEK_MINUTES, description="The minimum minutes between two deliveries", examples=[60])
]
Url = Annotated[
    str, Meta(min_length=1, max_length=2_000, description="The webhook's URL", examples=["https://example.com/hook"])
]
Comparison = Annotated[Operator, Meta(description="How the metric is compared with the threshold")]


class AlertRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/alerts`."""

    name: Name
    metric: Metric
    operator: Comparison
    threshold: Threshold
    url: Url
    filters: AlertFilters = AlertFilters()
    window_hours: WindowHours = DEFAULT_WINDOW_HOURS
    cooldown_minutes: Cooldown = DEFAULT_COOLDOWN_MINUTES


class AlertPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `PATCH /api/alerts/{id}`. Members that are given change; `filters` is replaced as a whole."""

    name: Name | UnsetType = UNSET
    metric: Metric | UnsetType = UNSET
    operator: Comparison | UnsetType = UNSET
    threshold: Threshold | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    filters: AlertFilters | UnsetType = UNSET
    window_hours: WindowHours | UnsetType = UNSET
    cooldown_minutes: Cooldown | UnsetType = UNSET


class PreviewRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/alerts/preview`: an alert's, with `name` and `url` optional, and the hours to cover."""

    metric: Metric
    operator: Comparison
    threshold: Threshold
    name: Name | None = None
    url: Url | None = None
    filters: AlertFilters = AlertFilters()
    window_hours: WindowHours = DEFAULT_WINDOW_HOURS
    cooldown_minutes: Cooldown = DEFAULT_COOLDOWN_MINUTES
    hours: Annotated[int, Meta(ge=1, le=168, description="The hours up to now that the rule is run over")] = 72


class DeliveriesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=100, description="The maximum number, newest first", examples=[20])] = 20
    state: Annotated[State | None, Meta(description="Only deliveries in this state")] = None


def build_rule(body: AlertRequest | PreviewRequest) -> Rule:
    """The rule that a body states. Raises Problem `invalid-body` with the name of the invalid member."""
    return _check(
        Rule(
            metric=body.metric,
            filters=check_filters(body.filters),
            operator=body.operator,
            threshold=_threshold(body.metric, body.threshold),
            window_hours=body.window_hours,
            cooldown_minutes=body.cooldown_minutes,
        )
    )


def patch_rule(rule: Rule, patch: AlertPatch) -> Rule:
    """The rule with the members of the patch. Raises Problem `invalid-body`."""
    given = {name: value for name, value in asdict(patch).items() if value is not UNSET and name not in {"name", "url"}}
    if "filters" in given:
        given["filters"] = check_filters(given["filters"])
    if "threshold" in given:
        given["threshold"] = _threshold(given.get("metric", rule.metric), given["threshold"])
    return _check(replace(rule, **given))


def _threshold(metric: str, given: float | SeverityTier) -> float:
    if not isinstance(given, str):
        return given
    if metric != "max_severity":
        raise invalid_member("threshold", "`threshold` must be a number. Only `max_severity` takes a severity tier.")
    return SEVERITY[given]


def _check(rule: Rule) -> Rule:
    known = metrics()
    if rule.metric not in known:
        raise invalid_member("metric", "Unknown `metric`.", known)
    if rule.metric not in COUNTED_METRICS:
        for name in FILTER_FIELDS:
            if getattr(rule.filters, name) is not None:
                raise invalid_member(f"filters.{name}", f"`{rule.metric}` does not count events and takes no filter.")
    if rule.metric.startswith(BRIEF) and rule.window_hours != DEFAULT_WINDOW_HOURS:
        raise invalid_member("window_hours", "The brief covers 24 hours: `window_hours` must be 24 or absent.")
    if rule.metric != STALENESS and rule.filters.source is not None:
        raise invalid_member("filters.source", "Only `staleness_minutes` takes `source`.")
    return rule
