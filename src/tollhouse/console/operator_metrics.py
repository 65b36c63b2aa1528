"""What the operator sees beside the calls: sources, webhooks and money, as Prometheus metrics."""

from collections.abc import Sequence
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


async def source_states(service: Service) -> list[SourceState]:
    """The sources that the service's health lists, and its datasets. A dataset has no age: it need not change."""
    health: dict[str, Any] = msgspec.to_builtins(await service.health())
    sources = [
        SourceState(service.name, one["name"], one["status"], one["age_seconds"], one["last_error"], None)
        for one in health.get("sources", ())
    ]
    components = await service.components() if service.components else ()
    datasets = [
        SourceState(service.name, one.name, one.state, None, None if one.state == "ok" else one.detail, one.rows)
        for one in components
        if one.rows is not None or not sources
    ]
    return [*sources, *datasets] or [SourceState(service.name, service.name, health["status"], None, None, None)]


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
            states = await source_states(service)
        except Problem:
            continue
        for state in states:
            up.add_metric((state.service, state.source), int(state.status in {"ok", "indexing"}))
            if state.age_seconds is not None:
                age.add_metric((state.service, state.source), state.age_seconds)
    return [up, age]
