"""Alerts as their owners read them: the rule, its last result and the state of its endpoint."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.services.defense.alerts.monitor import to_integer
from tollhouse.services.defense.alerts.rule import AlertFilters, Operator, Rule
from tollhouse.webhooks.webhooks import Delivery


class AlertState(Struct, frozen=True):
    """The last result of the rule.

    `pending` until the first evaluation, `no_data` while the value cannot be determined. `since` is when the status
    last changed between met and not met, `last_triggered_at` the time of the last notification.
    """

    status: Literal["pending", "met", "not_met", "no_data"]
    value: float | None
    since: str | None
    last_triggered_at: str | None


class EndpointState(Struct, frozen=True):
    """The state of deliveries to the URL. `failing` since the first failed attempt; `disabled` after a 410.

    `parked_count` deliveries were given up and can be replayed.
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
    """One alert. Its `version` increases with every change."""

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
    """A new alert. `secret` signs its deliveries and is shown only in this response."""

    secret: str


class AlertsList(Struct, frozen=True):
    """All alerts of the key, oldest first."""

    alerts: list[Alert]
    count: int
    limit: int


class AlertDeleted(Struct, frozen=True):
    """The alert was deleted and its pending deliveries were cancelled."""

    deleted: Literal[True]
    id: str


class DeliveriesList(Struct, frozen=True):
    """Deliveries, newest first, each with its last attempts."""

    deliveries: list[Delivery]
    count: int


def rule_from_row(row: Any) -> Rule:
    return msgspec.json.decode(row.rule, type=Rule)


def alert_from_row(row: Any, parked: int) -> Alert:
    """A stored alert with the number of its parked deliveries."""
    rule = rule_from_row(row)
    value = None if row.value is None else to_integer(row.value)
    status: Literal["pending", "met", "not_met", "no_data"] = "pending"
    if row.is_met_since is not None:
        status = "no_data" if value is None else "met" if row.is_met else "not_met"
    return Alert(
        id=row.id,
        version=row.version,
        name=row.name,
        metric=rule.metric,
        filters=rule.filters,
        operator=rule.operator,
        threshold=to_integer(rule.threshold),
        window_hours=rule.window_hours,
        cooldown_minutes=rule.cooldown_minutes,
        url=row.url,
        created_at=clock.iso(clock.at(row.created_at)),
        changed_at=clock.iso(clock.at(row.changed_at)),
        state=AlertState(status, value, _iso(row.is_met_since), _iso(row.notified_at)),
        endpoint=EndpointState(
            status="disabled" if row.disabled_at else "failing" if row.failing_since else "active",
            failing_since=_iso(row.failing_since),
            consecutive_failures=row.failures,
            last_error=row.last_error,
            last_success_at=_iso(row.last_success_at),
            disabled_at=_iso(row.disabled_at),
            disabled_reason=row.disabled_reason,
            parked_count=parked,
        ),
    )


def _iso(moment: float | None) -> str | None:
    return None if moment is None else clock.iso(clock.at(moment))
