"""Alerts as their owners read them, and the endpoints under /api/alerts."""

import secrets
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import asdict

from tollhouse import clock
from tollhouse.accounts import store as access_store
from tollhouse.admission.context import AppContext
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Example, Request, endpoint
from tollhouse.http.terms import KeyCaller, key_with
from tollhouse.http_client.targets import TargetRefused
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.alerts import store
from tollhouse.services.defense.alerts.backtest import AlertPreview, Backtester
from tollhouse.services.defense.alerts.monitor import EVENT_TYPES, SERVICE, TEST, active_alert, notification, to_integer
from tollhouse.services.defense.alerts.rule import (
    STALENESS,
    AlertFilters,
    AlertPatch,
    AlertRequest,
    DeliveriesQuery,
    Operator,
    PreviewRequest,
    Rule,
    build_rule,
    patch_rule,
)
from tollhouse.services.defense.events.filter import invalid_member
from tollhouse.services.defense.paging import id_parameter
from tollhouse.storage.database import Transaction
from tollhouse.webhooks import outbox
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


MOST_ALERTS_PER_KEY = 100

_ALERT_ID = id_parameter("alert", "alert_3f2a9c0d1b4e5f607182", digits=20)
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

_endpoint = partial(endpoint, terms=key_with("alerts"), tag="alerts")
_endpoint_of_one = partial(
    _endpoint, path_parameters=_ALERT_ID, problems=("not-found",), sample=Example(path={"id": "$ALERT_ID"})
)


class AlertEndpoints:
    """The endpoints under `/api/alerts`. A key sees only its own alerts."""

    def __init__(self, context: AppContext) -> None:
        self._database = context.database
        self._subscriptions = context.webhooks.subscriptions
        self._deliveries = context.webhooks.deliveries
        self._backtester = Backtester(context.database, recorded=context.settings.recorded)

    @_endpoint(
        "POST",
        "/api/alerts",
        id="createAlert",
        problems=("invalid-request",),
        examples={"body": _EXAMPLE_BODY},
        sample=Example(body={**_EXAMPLE_BODY, "url": "$HOOK_URL"}),
    )
    async def create(self, request: Request[None, AlertRequest]) -> AlertCreated:
        """Create an alert.

        The rule is evaluated immediately and after every change of the data. `secret` verifies deliveries
        (Standard Webhooks) and is shown only in this response.
        """
        key_id, body = _key_id(request), request.body
        rule = build_rule(body)
        url = await self._validate_url(body.url)
        now, alert_id = clock.seconds(), f"alert_{secrets.token_hex(10)}"
        async with self._database.writing(lock="alerts") as transaction:
            await _check_source(transaction, rule)
            if await store.count_alerts(transaction, key_id) >= MOST_ALERTS_PER_KEY:
                detail = f"This key has {MOST_ALERTS_PER_KEY} alerts, the maximum. Delete one first."
                raise Problem("invalid-request", detail, limit=MOST_ALERTS_PER_KEY)
            holder = await access_store.key_by_id(transaction, key_id)
            subscription = await self._subscriptions.add(transaction, SERVICE, url, holder.email, EVENT_TYPES)
            await store.insert_alert(
                transaction,
                id=alert_id,
                key_id=key_id,
                name=body.name,
                version=1,
                rule=msgspec.json.encode(rule),
                endpoint_id=subscription.endpoint.id,
                created_at=now,
                changed_at=now,
                stated_at=now,
            )
            alert = alert_from_row(await _row(transaction, key_id, alert_id), 0)
        return AlertCreated(**asdict(alert), secret=subscription.secret)

    @_endpoint("GET", "/api/alerts", id="listAlerts")
    async def list(self, request: Request[None, None]) -> AlertsList:
        """List the key's alerts.

        Each with its last result and the state of its endpoint.
        """
        async with self._database.reading() as connection:
            rows = await store.alerts_of_key(connection, _key_id(request))
            parked = await store.parked_counts(connection, [row.endpoint_id for row in rows])
        alerts = [alert_from_row(row, parked.get(row.endpoint_id, 0)) for row in rows]
        return AlertsList(alerts, len(alerts), MOST_ALERTS_PER_KEY)

    @_endpoint(
        "POST",
        "/api/alerts/preview",
        id="previewAlert",
        problems=("upstream-unavailable",),
        examples={"body": {**_EXAMPLE_RULE, "hours": 72}},
    )
    async def preview(self, request: Request[None, PreviewRequest]) -> AlertPreview:
        """Preview when a rule would have fired.

        Runs a rule over stored history, one window per slot, and sends nothing.
        """
        rule = build_rule(request.body)
        if rule.filters.source is not None:
            raise invalid_member("filters.source", "A preview has no history of single sources. Remove `source`.")
        return await self._backtester.preview(rule, request.body.hours)

    @_endpoint_of_one("GET", "/api/alerts/{id}", id="getAlert")
    async def one(self, request: Request[None, None]) -> Alert:
        """Get one alert."""
        async with self._database.reading() as connection:
            return await _alert(connection, request)

    @_endpoint_of_one("PATCH", "/api/alerts/{id}", id="changeAlert", examples={"body": {"threshold": 25}})
    async def change(self, request: Request[None, AlertPatch]) -> Alert:
        """Change an alert.

        Changes the given members and increases `version`. A rule with another condition starts anew. Setting
        `url` enables an endpoint that was disabled.
        """
        patch, key_id, alert_id = request.body, _key_id(request), request.path["id"]
        async with self._database.reading() as connection:
            patch_rule(rule_from_row(await _row(connection, key_id, alert_id)), patch)
        url = None if patch.url is UNSET else await self._validate_url(patch.url)
        async with self._database.writing(lock="alerts") as transaction:
            row = await _row(transaction, key_id, alert_id)
            rule = patch_rule(rule_from_row(row), patch)
            await _check_source(transaction, rule)
            if url is not None:
                await self._subscriptions.change(transaction, row.endpoint_id, target=url)
                # Setting a URL enables an endpoint that a 410 disabled.
                await self._subscriptions.enable(transaction, row.endpoint_id)
            values = _changed_columns(row, rule, row.name if patch.name is UNSET else patch.name, url)
            if values:
                await store.change_alert(transaction, alert_id, **values)
            return await _alert(transaction, request)

    @_endpoint_of_one("DELETE", "/api/alerts/{id}", id="deleteAlert")
    async def delete(self, request: Request[None, None]) -> AlertDeleted:
        """Delete an alert.

        Pending deliveries are cancelled.
        """
        async with self._database.writing(lock="alerts") as transaction:
            row = await _row(transaction, _key_id(request), request.path["id"])
            await self._subscriptions.remove(transaction, row.endpoint_id)
            await store.delete_alert(transaction, row.id)
        return AlertDeleted(deleted=True, id=row.id)

    @_endpoint_of_one("POST", "/api/alerts/{id}/test", id="testAlert")
    async def test(self, request: Request[None, None]) -> Delivery:
        """Send a test delivery.

        A delivery of type `alert.test` with the rule's last value.
        """
        async with self._database.writing() as transaction:
            row = await _row(transaction, _key_id(request), request.path["id"])
            data = notification(active_alert(row), row.value, clock.seconds())
            event_id = f"alt_test_{secrets.token_hex(12)}"
            await outbox.put(transaction, SERVICE, TEST, data, row.id, event_id, to=row.endpoint_id)
            await outbox.fan_out(transaction, event_id)
        newest = await self._deliveries.newest(row.endpoint_id)
        return next(delivery for delivery in newest if delivery.event_id == event_id)

    @_endpoint_of_one("GET", "/api/alerts/{id}/deliveries", id="listAlertDeliveries")
    async def deliveries(self, request: Request[DeliveriesQuery, None]) -> DeliveriesList:
        """List an alert's deliveries."""
        async with self._database.reading() as connection:
            row = await _row(connection, _key_id(request), request.path["id"])
        deliveries = await self._deliveries.newest(row.endpoint_id, request.query.state, request.query.limit)
        return DeliveriesList(deliveries, len(deliveries))

    @_endpoint_of_one(
        "POST",
        "/api/alerts/{id}/deliveries/{delivery_id}/replay",
        id="replayAlertDelivery",
        path_parameters=_ALERT_ID | id_parameter("dlv", "dlv_9a8b7c6d5e4f30211203", digits=20, name="delivery_id"),
        problems=("not-found", "invalid-request"),
        sample=Example(path={"id": "$ALERT_ID", "delivery_id": "$DELIVERY_ID"}),
    )
    async def replay(self, request: Request[None, None]) -> Delivery:
        """Replay a delivery.

        Sends it again from the first attempt. A delivery in progress is left unchanged.
        """
        async with self._database.writing() as transaction:
            row = await _row(transaction, _key_id(request), request.path["id"])
            if row.disabled_at is not None:
                raise Problem("invalid-request", "The endpoint is disabled. PATCH the alert's `url` to enable it.")
            try:
                return await self._deliveries.replay(transaction, request.path["delivery_id"], row.endpoint_id)
            except ValueError:
                raise Problem("not-found", "This alert has no delivery with this id.") from None

    async def _validate_url(self, url: str) -> str:
        try:
            return await self._subscriptions.validate(url)
        except TargetRefused as error:
            raise invalid_member("url", f"`url` must not be called: {error}.") from None


def _key_id(request: Request[Any, Any]) -> str:
    assert isinstance(request.caller, KeyCaller), "the terms admit only keys"
    return request.caller.key_id


async def _row(connection: Transaction, key_id: str, alert_id: str) -> Any:
    rows = await store.alerts_of_key(connection, key_id, alert_id)
    if not rows:
        raise Problem("not-found", "This key has no alert with this id.")
    return rows[0]


async def _alert(connection: Transaction, request: Request[Any, Any]) -> Alert:
    row = await _row(connection, _key_id(request), request.path["id"])
    parked = await store.parked_counts(connection, [row.endpoint_id])
    return alert_from_row(row, parked.get(row.endpoint_id, 0))


async def _check_source(connection: Transaction, rule: Rule) -> None:
    if rule.metric == STALENESS and rule.filters.source is not None:
        known = [row.source for row in await events_store.list_health(connection)]
        if rule.filters.source not in known:
            raise invalid_member("filters.source", "This server has no source of that name.", known)


def _changed_columns(row: Any, rule: Rule, name: str, url: str | None) -> dict[str, object]:
    """The columns that a change updates; empty when nothing changes."""
    before = rule_from_row(row)
    if rule == before and name == row.name and url in {None, row.url}:
        return {}
    now = clock.seconds()
    values = {"version": row.version + 1, "rule": msgspec.json.encode(rule), "name": name, "changed_at": now}
    if rule.has_same_condition(before):
        return values
    reset = dict.fromkeys(("value", "is_met_since", "notified_at", "notified_state"))
    return {**values, "stated_at": now, "is_met": False, **reset}
