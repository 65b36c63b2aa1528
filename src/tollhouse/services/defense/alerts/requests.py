"""What callers send about alerts, and the rule it makes once it is checked."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace

from tollhouse.errors import Problem
from tollhouse.services.defense.alerts.rule import (
    BRIEF,
    COUNTED_METRICS,
    SEVERITY,
    STALENESS,
    AlertFilters,
    Operator,
    Rule,
    metrics,
)
from tollhouse.services.defense.countries import find_country, near_matches
from tollhouse.services.defense.events.event import SeverityTier
from tollhouse.webhooks.store import State

USUAL_WINDOW_HOURS = 24
USUAL_COOLDOWN_MINUTES = 60
WEEK_MINUTES = 7 * 24 * 60

Name = Annotated[
    str,
    Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$", description="What you will know the alert by"),
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
    Meta(description="A number; with `max_severity` a tier or its number, 1 (low) to 4 (critical)", examples=[10]),
]
WindowHours = Annotated[int, Meta(ge=1, le=24, description="How far back events count", examples=[24])]
Cooldown = Annotated[
    int, Meta(ge=1, le=WEEK_MINUTES, description="No second delivery within so many minutes", examples=[60])
]
Url = Annotated[
    str, Meta(min_length=1, max_length=2_000, description="Where to tell it", examples=["https://example.com/hook"])
]
About = Annotated[Operator, Meta(description="How the metric is compared with the threshold")]


class AlertRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/alerts`."""

    name: Name
    metric: Metric
    operator: About
    threshold: Threshold
    url: Url
    filters: AlertFilters = AlertFilters()
    window_hours: WindowHours = USUAL_WINDOW_HOURS
    cooldown_minutes: Cooldown = USUAL_COOLDOWN_MINUTES


class AlertPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `PATCH /api/alerts/{id}`: what is given changes. `filters` are replaced as a whole."""

    name: Name | UnsetType = UNSET
    metric: Metric | UnsetType = UNSET
    operator: About | UnsetType = UNSET
    threshold: Threshold | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    filters: AlertFilters | UnsetType = UNSET
    window_hours: WindowHours | UnsetType = UNSET
    cooldown_minutes: Cooldown | UnsetType = UNSET


class PreviewRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/alerts/preview`: an alert's, whose name and url may be left out, and how far to look."""

    metric: Metric
    operator: About
    threshold: Threshold
    name: Name | None = None
    url: Url | None = None
    filters: AlertFilters = AlertFilters()
    window_hours: WindowHours = USUAL_WINDOW_HOURS
    cooldown_minutes: Cooldown = USUAL_COOLDOWN_MINUTES
    hours: Annotated[int, Meta(ge=1, le=168, description="The rule is run over so many hours up to now")] = 72


class DeliveriesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `GET /api/alerts/{id}/deliveries`."""

    limit: Annotated[int, Meta(ge=1, le=100, description="The newest so many", examples=[20])] = 20
    state: Annotated[State | None, Meta(description="Only those in this state")] = None


def rule_of(asked: AlertRequest | PreviewRequest) -> Rule:
    """The rule a body asks for. Raises Problem `invalid-body` naming the member that will not do."""
    return _checked(
        Rule(
            metric=asked.metric,
            filters=_filters(asked.filters),
            operator=asked.operator,
            threshold=_threshold(asked.metric, asked.threshold),
            window_hours=asked.window_hours,
            cooldown_minutes=asked.cooldown_minutes,
        )
    )


def changed_rule(rule: Rule, patch: AlertPatch) -> Rule:
    """The rule with what is given changed. Raises Problem `invalid-body`."""
    given = {name: value for name, value in asdict(patch).items() if value is not UNSET and name not in {"name", "url"}}
    if "filters" in given:
        given["filters"] = _filters(given["filters"])
    if "threshold" in given:
        given["threshold"] = _threshold(given.get("metric", rule.metric), given["threshold"])
    return _checked(replace(rule, **given))


def refused(member: str, detail: str, allowed: list[str] | None = None) -> Problem:
    """A 400 that names the member of the body that is wrong."""
    facts: dict[str, Any] = {"allowed": allowed} if allowed else {}
    return Problem("invalid-body", detail, parameter=member, **facts)


def _filters(filters: AlertFilters) -> AlertFilters:
    if filters.country is None:
        return filters
    country = find_country(filters.country)
    if country is None:
        detail = "There is no country of that name or code."
        raise refused("filters.country", detail, near_matches(filters.country))
    return replace(filters, country=country.name)


def _threshold(metric: str, given: float | SeverityTier) -> float:
    if not isinstance(given, str):
        return given
    if metric != "max_severity":
        raise refused("threshold", "`threshold` must be a number; a tier goes with `max_severity` alone.")
    return SEVERITY[given]


def _checked(rule: Rule) -> Rule:
    known = metrics()
    if rule.metric not in known:
        raise refused("metric", "There is no such metric.", known)
    if rule.metric not in COUNTED_METRICS:
        _check_unfiltered(rule)
    if rule.metric.startswith(BRIEF) and rule.window_hours != USUAL_WINDOW_HOURS:
        raise refused("window_hours", "The brief speaks of 24 hours: leave `window_hours` out, or say 24.")
    if rule.metric != STALENESS and rule.filters.source is not None:
        raise refused("filters.source", "`source` goes with `staleness_minutes` alone.")
    return rule


_EVENT_FILTERS: tuple[Literal["category", "country", "entity", "severity_tier"], ...] = (
    "category",
    "country",
    "entity",
    "severity_tier",
)


def _check_unfiltered(rule: Rule) -> None:
    for name in _EVENT_FILTERS:
        if getattr(rule.filters, name) is not None:
            raise refused(f"filters.{name}", f"`{rule.metric}` is not counted from single events: it takes no filter.")
