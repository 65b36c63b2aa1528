"""The background task that evaluates alerts when data changes and notifies their endpoints."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse import clock, failpoints
from tollhouse.config.settings import Recorded
from tollhouse.logs import logger
from tollhouse.periodic import repeat
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.alerts import store
from tollhouse.services.defense.alerts.aggregates import (
    BINS,
    MINUTES_PER_BIN,
    EventSample,
    build_sample,
    production_lines,
    to_minute,
)
from tollhouse.services.defense.alerts.evaluator import (
    ActiveAlert,
    EvaluationResult,
    Evaluator,
    LastNotification,
    LastSuccess,
    is_due,
)
from tollhouse.services.defense.alerts.rule import STALENESS, Rule
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.events.history import ServedPool, SyncedEvents, entities_named, served_pool
from tollhouse.services.defense.ingest.export_parser import slot_before, slot_time
from tollhouse.services.defense.store import WIDEST_WINDOW
from tollhouse.storage.database import Database, Transaction
from tollhouse.webhooks import outbox

log = logger("alerts")

SERVICE = "defense"
TRIGGERED = "alert.triggered"
TEST = "alert.test"
EVENT_TYPES = (TRIGGERED, TEST)

POLL_SECONDS = 1.0
STALENESS_SECONDS = 60.0
# When to check again whether a key that may not have alerts may have them.
ENTITLEMENT_SECONDS = 60.0
# Each notification carries up to 20 events: few enough for a short transaction.
NOTIFICATIONS_PER_TRANSACTION = 100
WRITES_PER_TRANSACTION = 1_000


class AlertWindow(Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The time that a value covers, RFC 3339 in UTC: after `from`, up to `to`."""

    since: str
    until: str
    hours: int


class AlertNotification(Struct, frozen=True):
    """The `data` of a delivery. `value` is null in a test of an alert that was not evaluated yet."""

    alert_id: str
    name: str
    version: int
    metric: str
    value: float | None
    threshold: float
    window: AlertWindow
    events: list[Event]


class _StoredResult(Struct, frozen=True):
    """The result of an alert's last evaluation as stored. `since` is when `is_met` last changed."""

    is_met: bool
    value: float | None
    since: float | None


class AlertMonitor:
    """Evaluates the alerts of one server. `recorded` as in EventsFeed; `plans` are those that include alerts."""

    def __init__(self, database: Database, *, recorded: Recorded, plans: Collection[str]) -> None:
        self._database = database
        self._plans = plans
        self._recorded = recorded
        self._reset()

    def _reset(self) -> None:
        """Drop the state in memory: the next run reads and evaluates everything. Notifications are in the database."""
        self._evaluator = Evaluator()
        self._has_entries = False
        self._samples: SyncedEvents[EventSample] = SyncedEvents(
            lambda entry: build_sample(entry, keep_entry=self._has_entries)
        )
        self._naming: dict[str, frozenset[str]] = {}
        self._served: ServedPool | None = None
        self._alerts_revision = 0
        self._feed_revisions: list[int] | None = None
        self._lines: bytes | None = None
        self._staleness_at = 0.0
        self._stored: dict[str, _StoredResult] = {}
        self._notified: dict[str, LastNotification] = {}
        self._met: dict[str, EvaluationResult] = {}
        self._not_before: dict[str, float] = {}

    async def run(self) -> None:
        await repeat(self.run_once, POLL_SECONDS, log, "alert evaluation failed")

    async def run_once(self, now: float | None = None) -> int:
        """Evaluate what changed since the last run and send the notifications due at `now`; returns their number."""
        try:
            return await self._run_once(clock.seconds() if now is None else now)
        except BaseException:
            self._reset()
            raise

    async def _run_once(self, now: float) -> int:
        evaluator = self._evaluator
        async with self._database.reading() as connection:
            await self._sync_alerts(connection)
            if not evaluator.alerts:
                return 0
            await self._sync_feeds(connection)
            last_success = await self._last_success(connection, now)
        affected, evaluator.affected = evaluator.affected, set()
        results = await asyncio.to_thread(evaluator.evaluate, affected, last_success)
        for alert_id, result in results.items():
            if result.is_met:
                self._met[alert_id] = result
            else:
                self._met.pop(alert_id, None)
        due = sorted(
            alert_id
            for alert_id, result in self._met.items()
            if is_due(evaluator.alerts[alert_id].rule, result, self._notified[alert_id], now)
            and now >= self._not_before.get(alert_id, 0.0)
        )
        notified = 0
        for start in range(0, len(due), NOTIFICATIONS_PER_TRANSACTION):
            notified += await self._notify(due[start : start + NOTIFICATIONS_PER_TRANSACTION], now)
        await self._write(results, now)
        return notified

    async def _sync_alerts(self, connection: Transaction) -> None:
        number = await events_store.revision(connection, store.ALERTS)
        if number == self._alerts_revision:
            return
        ids = await store.ids_if_removed(connection, self._alerts_revision)
        if ids is not None:
            for alert_id in self._evaluator.alerts.keys() - ids:
                self._drop(alert_id)
        for row in await store.changed_since(connection, self._alerts_revision):
            self._drop(row.id)
            self._evaluator.set_alert(active_alert(row))
            self._notified[row.id] = LastNotification(row.notified_at, row.notified_state)
            self._stored[row.id] = _StoredResult(row.is_met, row.value, row.is_met_since)
        self._alerts_revision = number

    def _drop(self, alert_id: str) -> None:
        self._evaluator.drop_alert(alert_id)
        for by_alert in (self._notified, self._stored, self._met, self._not_before):
            by_alert.pop(alert_id, None)

    async def _sync_feeds(self, connection: Transaction) -> None:
        evaluator, current = self._evaluator, await events_store.feed_revisions(connection)
        if evaluator.needing_entries and not self._has_entries:
            # The samples so far lack what the new rule filters by.
            self._has_entries, self._feed_revisions = True, None
            self._samples.clear()
        if current != self._feed_revisions:
            self._naming = {}
            self._served = await served_pool(connection, recorded=self._recorded)
            if self._served is not None:
                await self._sync_samples(connection, self._served)
            self._feed_revisions = current
        if self._served is not None:
            if not self._naming.keys() >= set(evaluator.entities):
                self._naming = await entities_named(connection, self._served.pool, list(evaluator.entities))
            evaluator.set_entities(self._naming)

    async def _sync_samples(self, connection: Transaction, served: ServedPool) -> None:
        evaluator, samples = self._evaluator, self._samples
        after = slot_before(served.newest, WIDEST_WINDOW)
        changes = await samples.sync(connection, served, after)
        slots = await store.slots_after(connection, served.pool, after)
        packed = await events_store.read_document_body(connection, events_store.PRODUCTION_LINES) or b""
        if packed != self._lines:
            evaluator.set_lines(production_lines(packed))
            self._lines = packed
        as_of = to_minute(served.as_of)
        changed: dict[str, EventSample | None] = {event_id: samples.items.get(event_id) for event_id in changes.changed}
        changed |= dict.fromkeys(evaluator.aggregates.samples.keys() - samples.items.keys())
        window_name = f"{served.pool}:{served.newest}"
        if window_name != evaluator.window_name:
            # Rules that are still met are now met in another window.
            evaluator.affected |= self._met.keys()
        await asyncio.to_thread(evaluator.apply, changed, as_of, window_name, read_bins(slots, as_of))

    async def _last_success(self, connection: Transaction, now: float) -> LastSuccess:
        on_staleness = self._evaluator.by_kind[STALENESS]
        if now - self._staleness_at >= STALENESS_SECONDS:
            self._staleness_at = now
            self._evaluator.affected |= on_staleness
        if on_staleness.isdisjoint(self._evaluator.affected):
            return LastSuccess(now)
        sources = {
            row.source: row.last_success_at and datetime.fromisoformat(row.last_success_at).timestamp()
            for row in await events_store.list_health(connection)
        }
        if self._served is None:
            return LastSuccess(now, None, sources)
        return LastSuccess(now, self._served.as_of.timestamp(), sources, self._served.source == "recorded")

    async def _notify(self, due: Sequence[str], now: float) -> int:
        """Claim and queue these notifications. Claim, result and outbox entry are one transaction."""
        alerts = [self._evaluator.alerts[alert_id] for alert_id in due]
        event_ids = {alert.id: self._evaluator.events_behind(alert.rule) for alert in alerts}
        events = await self._events({event_id for ids in event_ids.values() for event_id in ids})
        async with self._database.writing() as transaction:
            entitled = await store.entitled(transaction, due, self._plans)
            claimed = [one for one in alerts if one.id in entitled and await self._claim(transaction, one, now)]
            failpoints.reach("alert.claimed")
            entries = []
            for one in claimed:
                # Staleness is measured at the present, everything else at the end of the window.
                is_now = one.rule.metric == STALENESS or self._served is None
                as_of = now if is_now or self._served is None else self._served.as_of.timestamp()
                shown = [events[event_id] for event_id in event_ids[one.id] if event_id in events]
                result = self._met[one.id]
                # One id for each alert, version and window state.
                state = f"{one.id}:{one.version}:{result.window_state}"
                event_id = f"alt_{sha256(state.encode()).hexdigest()[:32]}"
                data = notification(one, result.value, as_of, shown)
                entries.append(outbox.Event(TRIGGERED, data, one.id, event_id, one.endpoint_id))
            await outbox.put_all(transaction, SERVICE, entries)
            notified = await store.notifications(transaction, due)
            failpoints.reach("alert.put")
        for alert_id, row in notified.items():
            self._notified[alert_id] = LastNotification(row.notified_at, row.notified_state)
        self._not_before |= {one.id: now + ENTITLEMENT_SECONDS for one in alerts if one.id not in entitled}
        for one in claimed:
            self._stored[one.id] = self._stored_after(one.id, self._met[one.id], now)
            log.info("alert triggered", alert=one.id, version=one.version, metric=one.rule.metric)
        return len(claimed)

    async def _claim(self, transaction: Transaction, alert: ActiveAlert, now: float) -> bool:
        """Whether this process is the one to notify of the alert's window state."""
        result = self._met[alert.id]
        not_after = now - 60 * alert.rule.cooldown_minutes
        claim = store.Claim(alert.id, alert.version, result.window_state, now, not_after)
        is_claimed = await store.claim_notification(transaction, claim)
        if is_claimed:
            await store.write_results(transaction, [_row(alert, self._stored_after(alert.id, result, now))])
        return is_claimed

    async def _events(self, event_ids: Iterable[str]) -> dict[str, Event]:
        if self._served is None:
            return {}
        events: dict[str, Event] = {}
        async with self._database.reading() as connection:
            pool, ids = self._served.pool, sorted(event_ids)
            async for rows in events_store.rows_by_id(connection, events_store.EVENTS, pool, ids):
                events |= {event_id: self._samples.entry(body).event for event_id, _, body in rows}
        return events

    def _stored_after(self, alert_id: str, result: EvaluationResult, now: float) -> _StoredResult:
        before = self._stored[alert_id]
        is_same = before.since is not None and before.is_met == result.is_met
        return _StoredResult(result.is_met, result.value, before.since if is_same else now)

    async def _write(self, results: Mapping[str, EvaluationResult], now: float) -> None:
        """Store the results that changed, which the alerts' owners read."""
        changed = {}
        for alert_id, result in results.items():
            stored = self._stored_after(alert_id, result, now)
            if stored != self._stored[alert_id]:
                changed[alert_id] = stored
        rows = [_row(self._evaluator.alerts[alert_id], stored) for alert_id, stored in sorted(changed.items())]
        for start in range(0, len(rows), WRITES_PER_TRANSACTION):
            async with self._database.writing() as transaction:
                await store.write_results(transaction, rows[start : start + WRITES_PER_TRANSACTION])
        self._stored |= changed


def active_alert(row: Any) -> ActiveAlert:
    rule = msgspec.json.decode(row.rule, type=Rule)
    return ActiveAlert(row.id, row.version, row.name, row.endpoint_id, rule, row.stated_at)


def read_bins(slots: Iterable[str], as_of: int) -> list[bool]:
    """For each quarter-hour before the minute `as_of`, whether it has a slot."""
    read = [False] * BINS
    for slot in slots:
        moment = slot_time(slot)
        assert moment is not None, "a slot is named by its time"
        age = (as_of - to_minute(moment)) // MINUTES_PER_BIN
        if 0 <= age < BINS:
            read[age] = True
    return read


def window_ending(as_of: float, hours: int) -> AlertWindow:
    """The window of that many hours up to a moment, in seconds since 1970."""
    until = clock.at(as_of)
    return AlertWindow(clock.iso(until - timedelta(hours=hours)), clock.iso(until), hours)


def notification(
    alert: ActiveAlert, value: float | None, as_of: float, events: Sequence[Event] = ()
) -> AlertNotification:
    """The notification of an alert whose value was measured at that moment."""
    rule = alert.rule
    return AlertNotification(
        alert_id=alert.id,
        name=alert.name,
        version=alert.version,
        metric=rule.metric,
        value=None if value is None else to_integer(value),
        threshold=to_integer(rule.threshold),
        window=window_ending(as_of, rule.window_hours),
        events=list(events),
    )


def to_integer(value: float) -> float:
    """A whole number as an integer, so that JSON shows 3 and not 3.0."""
    return int(value) if value == int(value) else value


def _row(alert: ActiveAlert, stored: _StoredResult) -> dict[str, object]:
    return {
        "b_id": alert.id,
        "b_version": alert.version,
        "b_is_met": stored.is_met,
        "b_value": stored.value,
        "b_since": stored.since,
    }
