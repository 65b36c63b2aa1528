"""What an endpoint is told: the delivery of an alert that came true, and of a test."""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256

from msgspec import Struct

from tollhouse import clock
from tollhouse.services.defense.alerts.evaluation_result import Verdict
from tollhouse.services.defense.alerts.evaluator import Active
from tollhouse.services.defense.alerts.rule import plain
from tollhouse.services.defense.events.event import Event
from tollhouse.webhooks import outbox

SERVICE = "defense"
TRIGGERED = "alert.triggered"
TEST = "alert.test"
TYPES = (TRIGGERED, TEST)

_ID_HEX = 32


class AlertWindow(Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The time that a value speaks of, RFC 3339 in UTC: after `from`, up to `to`."""

    since: str
    until: str
    hours: int


class Telling(Struct, frozen=True):
    """The `data` of a delivery. `value` is null in a test of an alert that has none yet."""

    alert_id: str
    name: str
    version: int
    metric: str
    value: float | None
    threshold: float
    window: AlertWindow
    events: list[Event]


def window_ending(as_of: float, hours: int) -> AlertWindow:
    """The window of so many hours up to that moment, in seconds since 1970."""
    until = clock.at(as_of)
    return AlertWindow(clock.iso(until - timedelta(hours=hours)), clock.iso(until), hours)


def telling(active: Active, value: float | None, as_of: float, events: Sequence[Event] = ()) -> Telling:
    """What is said of an alert whose value was measured at that moment."""
    rule = active.rule
    return Telling(
        alert_id=active.id,
        name=active.name,
        version=active.version,
        metric=rule.metric,
        value=None if value is None else plain(value),
        threshold=plain(rule.threshold),
        window=window_ending(as_of, rule.window_hours),
        events=list(events),
    )


def triggered(active: Active, verdict: Verdict, as_of: float, events: Sequence[Event]) -> outbox.Event:
    """The event for the outbox: one for each alert, version and window state, however often it is put."""
    named = f"{active.id}:{active.version}:{verdict.window_state}"
    event_id = f"alt_{sha256(named.encode()).hexdigest()[:_ID_HEX]}"
    return outbox.Event(
        TRIGGERED, telling(active, verdict.value, as_of, events), active.id, event_id, active.endpoint_id
    )
