"""Alerts as their owners read them: the rule, what it last came to, how its endpoint does."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.services.defense.alerts.rule import AlertFilters, Operator, Rule, plain
from tollhouse.webhooks.webhooks import Delivery


class AlertState(Struct, frozen=True):
    """What the rule last came to.

    `pending` until it is first evaluated, `no_data` where its value could not be determined. `since` is when it began
    to be met or not, `last_triggered_at` when it was last told.
    """

    status: Literal["pending", "met", "not_met", "no_data"]
    value: float | None
    since: str | None
    last_triggered_at: str | None


class EndpointState(Struct, frozen=True):
    """How deliveries to the url do. `failing` since the first refused attempt; `disabled` because it answered 410.

    `parked_count` deliveries were given up on and wait for a replay.
    """

    status: Literal["active", "failing", "disabled"]
    failing_since: str | None
    consecutive_failures: int
    last_error: str | None
    last_success_at: str | None
    disabled_at: str | None
    disabled_reason: str | None
    parked_count: int


class Alert(Struct, frozen=True):
    """One alert. Its `version` grows with every change."""

    id: str
    version: int
    name: str
    metric: str
    filters: AlertFilters
    operator: Operator
    threshold: float
    window_hours: int
    cooldown_minutes: int
    url: str
    created_at: str
    changed_at: str
    state: AlertState
    endpoint: EndpointState


class AlertCreated(Alert, frozen=True):
    """A new alert. `secret` signs its deliveries and is shown this once."""

    secret: str


class AlertsList(Struct, frozen=True):
    """Every alert of the key, oldest first."""

    alerts: list[Alert]
    count: int
    limit: int


class AlertDeleted(Struct, frozen=True):
    """The alert is gone, and what was still to be delivered is cancelled."""

    deleted: Literal[True]
    id: str


class DeliveriesList(Struct, frozen=True):
    """The newest deliveries first, each with its last attempts."""

    deliveries: list[Delivery]
    count: int


def rule_in(row: Any) -> Rule:
    """The rule of a stored alert."""
    return msgspec.json.decode(row.rule, type=Rule)


def alert_of(row: Any, parked: int) -> Alert:
    """A stored alert as its owner sees it; `parked` deliveries wait for a replay."""
    rule = rule_in(row)
    return Alert(
        id=row.id,
        version=row.version,
        name=row.name,
        metric=rule.metric,
        filters=rule.filters,
        operator=rule.operator,
        threshold=plain(rule.threshold),
        window_hours=rule.window_hours,
        cooldown_minutes=rule.cooldown_minutes,
        url=row.url,
        created_at=clock.iso(clock.at(row.created_at)),
        changed_at=clock.iso(clock.at(row.changed_at)),
        state=_state(row),
        endpoint=_endpoint(row, parked),
    )


def _state(row: Any) -> AlertState:
    if row.is_met_since is None:
        return AlertState("pending", None, None, _iso(row.told_at))
    value = None if row.value is None else plain(row.value)
    status: Literal["met", "not_met", "no_data"] = "no_data" if value is None else "met" if row.is_met else "not_met"
    return AlertState(status, value, _iso(row.is_met_since), _iso(row.told_at))


def _endpoint(row: Any, parked: int) -> EndpointState:
    return EndpointState(
        status="disabled" if row.disabled_at else "failing" if row.failing_since else "active",
        failing_since=_iso(row.failing_since),
        consecutive_failures=row.failures,
        last_error=row.last_error,
        last_success_at=_iso(row.last_success_at),
        disabled_at=_iso(row.disabled_at),
        disabled_reason=row.disabled_reason,
        parked_count=parked,
    )


def members_of(alert: Alert) -> dict[str, Any]:
    """Its members, for an answer that has more of them."""
    return {name: getattr(alert, name) for name in alert.__struct_fields__}


def _iso(moment: float | None) -> str | None:
    return None if moment is None else clock.iso(clock.at(moment))
