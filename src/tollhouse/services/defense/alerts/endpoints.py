"""Where the holder of a key makes, changes, tests and watches alerts."""

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from tollhouse import clock
from tollhouse.accounts import store as access_store
from tollhouse.admission.context import AppContext
from tollhouse.caller import KeyCaller
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.alerts import store
from tollhouse.services.defense.alerts.backtest import AlertPreview, Previewing
from tollhouse.services.defense.alerts.monitor import active_of
from tollhouse.services.defense.alerts.notifications import SERVICE, TEST, TYPES, telling
from tollhouse.services.defense.alerts.requests import (
    AlertPatch,
    AlertRequest,
    DeliveriesQuery,
    PreviewRequest,
    changed_rule,
    refused,
    rule_of,
)
from tollhouse.services.defense.alerts.responses import (
    Alert,
    AlertCreated,
    AlertDeleted,
    AlertsList,
    DeliveriesList,
    alert_of,
    members_of,
    rule_in,
)
from tollhouse.services.defense.alerts.rule import STALENESS, Rule
from tollhouse.storage.database import Transaction
from tollhouse.webhooks import outbox
from tollhouse.webhooks.target_validation import TargetRefused
from tollhouse.webhooks.webhooks import Delivery

MOST_ALERTS_PER_KEY = 100


class AlertEndpoints:
    """The operations under `/api/alerts`. A key sees its own alerts alone."""

    def __init__(self, context: AppContext) -> None:
        self._database = context.database
        self._subscriptions = context.webhooks.subscriptions
        self._deliveries = context.webhooks.deliveries
        self._previewing = Previewing(context.database, recorded=context.settings.recorded)

    async def create(self, request: Request[None, AlertRequest]) -> AlertCreated:
        """Make an alert. Raises Problem `invalid-body`."""
        key_id, body = _key_id(request), request.body
        rule = rule_of(body)
        url = await self._vetted(body.url)
        now, identity = clock.seconds(), f"alert_{secrets.token_hex(10)}"
        async with self._database.writing(lock="alerts") as transaction:
            await _check_source(transaction, rule)
            await _check_number(transaction, key_id)
            holder = await access_store.key_by_id(transaction, key_id)
            made = await self._subscriptions.add(transaction, SERVICE, url, holder.email, TYPES)
            await store.insert_alert(
                transaction,
                id=identity,
                key_id=key_id,
                name=body.name,
                version=1,
                rule=msgspec.json.encode(rule),
                endpoint_id=made.endpoint.id,
                created_at=now,
                changed_at=now,
                stated_at=now,
            )
            row = await _row(transaction, key_id, identity)
        return AlertCreated(**members_of(alert_of(row, 0)), secret=made.secret)

    async def listed(self, request: Request[None, None]) -> AlertsList:
        """Every alert of the key."""
        async with self._database.reading() as connection:
            alerts = await _alerts(connection, await store.alerts_of(connection, _key_id(request)))
        return AlertsList(alerts, len(alerts), MOST_ALERTS_PER_KEY)

    async def one(self, request: Request[None, None]) -> Alert:
        """One alert. Raises Problem `not-found`."""
        async with self._database.reading() as connection:
            return await _known(connection, request)

    async def change(self, request: Request[None, AlertPatch]) -> Alert:
        """Change what is given. Raises Problem `not-found` or `invalid-body`."""
        patch, key_id, identity = request.body, _key_id(request), request.path["id"]
        async with self._database.reading() as connection:
            changed_rule(rule_in(await _row(connection, key_id, identity)), patch)
        url = None if patch.url is UNSET else await self._vetted(patch.url)
        async with self._database.writing(lock="alerts") as transaction:
            row = await _row(transaction, key_id, identity)
            rule = changed_rule(rule_in(row), patch)
            await _check_source(transaction, rule)
            if url is not None:
                await self._subscriptions.change(transaction, row.endpoint_id, vetted_url=url)
                # Who says where to call wants to be called, whatever the receiver answered before.
                await self._subscriptions.enable(transaction, row.endpoint_id)
            values = _changes(row, rule, row.name if patch.name is UNSET else patch.name, url)
            if values:
                await store.change_alert(transaction, identity, **values)
            return await _known(transaction, request)

    async def delete(self, request: Request[None, None]) -> AlertDeleted:
        """Forget an alert and its endpoint. Raises Problem `not-found`."""
        async with self._database.writing(lock="alerts") as transaction:
            row = await _row(transaction, _key_id(request), request.path["id"])
            await self._subscriptions.remove(transaction, row.endpoint_id)
            await store.delete_alert(transaction, row.id)
        return AlertDeleted(deleted=True, id=row.id)

    async def test(self, request: Request[None, None]) -> Delivery:
        """Send a delivery of type `alert.test`, whatever the rule came to. Raises Problem `not-found`."""
        async with self._database.writing() as transaction:
            row = await _row(transaction, _key_id(request), request.path["id"])
            data = telling(active_of(row), row.value, clock.seconds())
            event_id = f"alt_test_{secrets.token_hex(12)}"
            await outbox.put(transaction, SERVICE, TEST, data, row.id, event_id, to=row.endpoint_id)
        newest = await self._deliveries.listed(row.endpoint_id)
        return next(delivery for delivery in newest if delivery.event_id == event_id)

    async def deliveries(self, request: Request[DeliveriesQuery, None]) -> DeliveriesList:
        """What was sent to the alert's endpoint, and what came of it. Raises Problem `not-found`."""
        async with self._database.reading() as connection:
            row = await _row(connection, _key_id(request), request.path["id"])
        found = await self._deliveries.listed(row.endpoint_id, request.query.state, request.query.limit)
        return DeliveriesList(found, len(found))

    async def replay(self, request: Request[None, None]) -> Delivery:
        """Send a delivery again, from its first try on. Raises Problem `not-found` or `invalid-request`."""
        async with self._database.writing() as transaction:
            row = await _row(transaction, _key_id(request), request.path["id"])
            if row.disabled_at is not None:
                raise Problem(
                    "invalid-request", "The endpoint is disabled: PATCH the alert's `url` to enable it again."
                )
            try:
                return await self._deliveries.replay(transaction, request.path["delivery_id"], row.endpoint_id)
            except ValueError:
                raise Problem("not-found", "This alert has no delivery of this id.") from None

    async def preview(self, request: Request[None, PreviewRequest]) -> AlertPreview:
        """Run a rule over stored history, sending nothing. Raises Problem `invalid-body`."""
        rule = rule_of(request.body)
        if rule.filters.source is not None:
            raise refused("filters.source", "What single sources did is not kept; leave `source` out of a preview.")
        return await self._previewing.preview(rule, request.body.hours)

    async def _vetted(self, url: str) -> str:
        try:
            return await self._subscriptions.vetted(url)
        except TargetRefused as error:
            raise refused("url", f"This address may not be called: {error}.") from None


def _key_id(request: Request[Any, Any]) -> str:
    assert isinstance(request.caller, KeyCaller), "the terms let nobody else in"
    return request.caller.key_id


async def _row(connection: Transaction, key_id: str, identity: str) -> Any:
    rows = await store.alerts_of(connection, key_id, identity)
    if not rows:
        raise Problem("not-found", "This key has no alert of this id.")
    return rows[0]


async def _known(connection: Transaction, request: Request[Any, Any]) -> Alert:
    row = await _row(connection, _key_id(request), request.path["id"])
    return (await _alerts(connection, [row]))[0]


async def _alerts(connection: Transaction, rows: Sequence[Any]) -> list[Alert]:
    parked = await store.parked_for(connection, [row.endpoint_id for row in rows])
    return [alert_of(row, parked.get(row.endpoint_id, 0)) for row in rows]


async def _check_number(transaction: Transaction, key_id: str) -> None:
    if await store.number_of(transaction, key_id) >= MOST_ALERTS_PER_KEY:
        detail = f"This key has {MOST_ALERTS_PER_KEY} alerts, and no key may have more. Delete one first."
        raise Problem("invalid-request", detail, limit=MOST_ALERTS_PER_KEY)


async def _check_source(connection: Transaction, rule: Rule) -> None:
    if rule.metric == STALENESS and rule.filters.source is not None:
        known = [row.source for row in await events_store.list_health(connection)]
        if rule.filters.source not in known:
            raise refused("filters.source", "This server follows no source of that name.", known)


def _changes(row: Any, rule: Rule, name: str, url: str | None) -> dict[str, object]:
    """The columns that a change gives other values; none where nothing is changed."""
    before = rule_in(row)
    if rule == before and name == row.name and url in {None, row.url}:
        return {}
    now = clock.seconds()
    values = {"version": row.version + 1, "rule": msgspec.json.encode(rule), "name": name, "changed_at": now}
    if rule.asks_the_same(before):
        return values
    return values | {
        "stated_at": now,
        "is_met": False,
        "value": None,
        "is_met_since": None,
        "told_at": None,
        "told_state": None,
    }
