"""The operations under `/api/alerts`, declared."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tollhouse.http.endpoint import JSON, Endpoint, Example
from tollhouse.http.terms import key_with
from tollhouse.services.defense.alerts.backtest import AlertPreview
from tollhouse.services.defense.alerts.endpoints import AlertEndpoints
from tollhouse.services.defense.alerts.requests import AlertPatch, AlertRequest, DeliveriesQuery, PreviewRequest
from tollhouse.services.defense.alerts.responses import Alert, AlertCreated, AlertDeleted, AlertsList, DeliveriesList
from tollhouse.webhooks.webhooks import Delivery

TERMS = key_with("alerts")
TAG = "alerts"

_EXAMPLE_ID = "alert_3f2a9c0d1b4e5f607182"
_EXAMPLE_BODY = {
    "name": "Fighting in Ethiopia",
    "metric": "event_count",
    "filters": {"category": "Battles", "country": "Ethiopia"},
    "operator": ">=",
    "threshold": 10,
    "window_hours": 24,
    "url": "https://example.com/hook",
    "cooldown_minutes": 60,
}
_EXAMPLE_RULE = {name: value for name, value in _EXAMPLE_BODY.items() if name not in {"name", "url"}}


def alert_operations(desk: AlertEndpoints) -> list[Endpoint]:
    """Every operation on alerts, in the order the description shows them."""
    return [*_rules(desk), *_deliveries(desk)]


def _rules(desk: AlertEndpoints) -> list[Endpoint]:
    return [
        _operation(
            id="createAlert",
            method="POST",
            path="/api/alerts",
            summary="Make an alert",
            description="The rule is evaluated at once and after every change of the data. `secret` verifies the "
            "deliveries (Standard Webhooks) and is shown this once.",
            handler=desk.create,
            body=AlertRequest,
            responses={JSON: AlertCreated},
            problems=("invalid-request",),
            examples={"body": _EXAMPLE_BODY},
            sample=Example(body={**_EXAMPLE_BODY, "url": "$HOOK_URL"}),
        ),
        _operation(
            id="listAlerts",
            method="GET",
            path="/api/alerts",
            summary="The key's alerts",
            description="With each, what it last came to and how deliveries to its endpoint do.",
            handler=desk.listed,
            responses={JSON: AlertsList},
        ),
        _operation(
            id="previewAlert",
            method="POST",
            path="/api/alerts/preview",
            summary="When a rule would have fired",
            description="Runs a rule over stored history, window by window, and sends nothing.",
            handler=desk.preview,
            body=PreviewRequest,
            responses={JSON: AlertPreview},
            problems=("upstream-unavailable",),
            examples={"body": {**_EXAMPLE_RULE, "hours": 72}},
        ),
        _single(
            id="getAlert",
            method="GET",
            path="/api/alerts/{id}",
            summary="One alert",
            handler=desk.one,
            responses={JSON: Alert},
        ),
        _single(
            id="changeAlert",
            method="PATCH",
            path="/api/alerts/{id}",
            summary="Change an alert",
            description="What is given changes, and `version` grows. A rule that asks something else starts anew; a "
            "given `url` is called again even if it was disabled.",
            handler=desk.change,
            body=AlertPatch,
            responses={JSON: Alert},
            examples={"body": {"threshold": 25}},
        ),
        _single(
            id="deleteAlert",
            method="DELETE",
            path="/api/alerts/{id}",
            summary="Delete an alert",
            description="What was still to be delivered is cancelled.",
            handler=desk.delete,
            responses={JSON: AlertDeleted},
        ),
    ]


def _deliveries(desk: AlertEndpoints) -> list[Endpoint]:
    return [
        _single(
            id="testAlert",
            method="POST",
            path="/api/alerts/{id}/test",
            summary="Send a test",
            description="A delivery of type `alert.test` with the rule's last value, whatever that is.",
            handler=desk.test,
            responses={JSON: Delivery},
        ),
        _single(
            id="listAlertDeliveries",
            method="GET",
            path="/api/alerts/{id}/deliveries",
            summary="What was sent, and what came of it",
            handler=desk.deliveries,
            query=DeliveriesQuery,
            responses={JSON: DeliveriesList},
        ),
        _single(
            id="replayAlertDelivery",
            method="POST",
            path="/api/alerts/{id}/deliveries/{delivery_id}/replay",
            summary="Send a delivery again",
            description="From its first try on; one being sent right now is left as it is.",
            handler=desk.replay,
            path_parameters={
                **_id("id", "The alert", _EXAMPLE_ID, "alert"),
                **_id("delivery_id", "The delivery", "dlv_9a8b7c6d5e4f30211203", "dlv"),
            },
            responses={JSON: Delivery},
            problems=("not-found", "invalid-request"),
            sample=Example(path={"id": "$ALERT_ID", "delivery_id": "$DELIVERY_ID"}),
        ),
    ]


_operation: Callable[..., Endpoint] = partial(Endpoint, terms=TERMS, tag=TAG)


def _id(name: str, description: str, example: str, prefix: str) -> dict[str, dict[str, Any]]:
    schema = {"type": "string", "pattern": f"^{prefix}_[0-9a-f]{{20}}$"}
    return {name: {"description": description, "example": example, "schema": schema}}


def _single(**declared: Any) -> Endpoint:
    """An operation on one alert."""
    about = {
        "path_parameters": _id("id", "Its id", _EXAMPLE_ID, "alert"),
        "problems": ("not-found",),
        "sample": Example(path={"id": "$ALERT_ID"}),
    }
    return _operation(**{**about, **declared})
