"""What the operator sees beside the calls: sources, webhooks and money, as Prometheus metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tollhouse import clock
from tollhouse.admission.context import AppContext
from tollhouse.console.operator_revenue import subscriptions
from tollhouse.errors import Problem
from tollhouse.http.service import Service
from tollhouse.money import MICROS_PER_USD
from tollhouse.payments.ledger.types import REVENUE
from tollhouse.payments.x402.claims import X402
from tollhouse.statistics.statistics import LEDGER_CHECK


class SourceState(Struct, frozen=True):
    """A source of a service: its status, the seconds since its last success, its last error and the rows it gave."""

    service: str
    source: str
    status: str
    age_seconds: int | None
    last_error: str | None
    rows: int | None


def source_states(service: str, health: Struct | Mapping[str, Any]) -> list[SourceState]:
    """The sources and feeds that a health response lists; a service without any is its own source."""
    members: dict[str, Any] = msgspec.to_builtins(health)
    status = members.get("status", "ok")
    listed = [
        SourceState(service, one["name"], one["status"], one.get("age_seconds"), one.get("last_error"), one.get("rows"))
        for one in members.get("sources") or []
    ]
    feeds = [
        SourceState(service, name, status, None, None, one.get(name)) for name, one in members.get("feeds", {}).items()
    ]
    if listed or feeds:
        return [*listed, *feeds]
    fault = members.get("fault")
    rows = next((value for name, value in members.items() if name.endswith("_count")), None)
    return [SourceState(service, service, status, None, fault.get("reason") if fault else None, rows)]


async def business_families(context: AppContext, services: Sequence[Service]) -> list[Metric]:
    """Revenue, webhooks, sources and the ledger's last verification; what cannot be read is left out."""
    storage = GaugeMetricFamily("tollhouse_storage_up", "Whether the database answered: 1 or 0")
    families: list[Metric] = [storage, *await _source_families(services)]
    try:
        families += await _stored_families(context)
    except Problem:
        storage.add_metric((), 0)
    else:
        storage.add_metric((), 1)
    return families


async def _stored_families(context: AppContext) -> list[Metric]:
    revenue, per_request = await context.ledger.account(REVENUE), await context.ledger.account(X402)
    earned = CounterMetricFamily("tollhouse_revenue_usd", "Revenue in the ledger by method, in USD", labels=("method",))
    earned.add_metric(("credit",), (revenue.total_in_micros - per_request.total_out_micros) / MICROS_PER_USD)
    earned.add_metric(("x402",), per_request.total_out_micros / MICROS_PER_USD)
    reversed_ = CounterMetricFamily(
        "tollhouse_revenue_reversed_usd", "Revenue taken back after reorganizations, in USD"
    )
    reversed_.add_metric((), revenue.total_out_micros / MICROS_PER_USD)
    return [earned, reversed_, *await _webhook_families(context), *await _ledger_families(context)]


async def _webhook_families(context: AppContext) -> list[Metric]:
    endpoints = await context.webhooks.subscriptions.all()
    backlog = await context.webhooks.deliveries.backlog()
    by_status = GaugeMetricFamily("tollhouse_webhook_endpoints", "Webhook endpoints by status", labels=("status",))
    for status in ("active", "failing", "disabled"):
        by_status.add_metric((status,), sum(one.status == status for one in endpoints))
    by_state = GaugeMetricFamily("tollhouse_webhook_deliveries", "Stored deliveries by state", labels=("state",))
    for state in ("pending", "parked", "delivered", "cancelled"):
        by_state.add_metric((state,), sum(one.deliveries for one in backlog if one.state == state))
    oldest = GaugeMetricFamily("tollhouse_webhook_oldest_pending_seconds", "Age of the oldest pending delivery")
    pending = [one.oldest_at for one in backlog if one.state == "pending"]
    oldest.add_metric((), clock.age_seconds(min(pending)) if pending else 0)
    return [by_status, by_state, oldest]


async def _ledger_families(context: AppContext) -> list[Metric]:
    balanced = GaugeMetricFamily("tollhouse_ledger_balanced", "Whether the last verification balanced: 1 or 0")
    verified = GaugeMetricFamily("tollhouse_ledger_verified_timestamp_seconds", "When the ledger was last verified")
    check = await context.statistics.last_check(LEDGER_CHECK)
    if check is not None:
        balanced.add_metric((), int(bool(check.result.get("balanced"))))
        verified.add_metric((), check.at)
    by_plan = GaugeMetricFamily("tollhouse_subscriptions", "Subscriptions at Stripe", labels=("plan", "status"))
    for one in await subscriptions(context) or []:
        by_plan.add_metric((one.plan, one.status), one.subscriptions)
    return [balanced, verified, by_plan]


async def _source_families(services: Sequence[Service]) -> list[Metric]:
    labels = ("service", "source")
    up = GaugeMetricFamily("tollhouse_source_up", "Whether a source is well: 1 or 0", labels=labels)
    age = GaugeMetricFamily("tollhouse_source_age_seconds", "Seconds since a source last succeeded", labels=labels)
    for service in services:
        try:
            states = source_states(service.name, await service.health())
        except Problem:
            continue
        for state in states:
            up.add_metric((state.service, state.source), int(state.status == "ok"))
            if state.age_seconds is not None:
                age.add_metric((state.service, state.source), state.age_seconds)
    return [up, age]
