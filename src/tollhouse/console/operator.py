"""What only the operator opens: the page, login, calls, revenue, ledger, webhook deliveries, sources and metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tollhouse import clock
from tollhouse.admission.context import AppContext
from tollhouse.console.operator_revenue import (
    StatementQuery,
    TransfersQuery,
    revenue,
    statement,
    subscriptions,
    transfers,
    verify,
)
from tollhouse.console.operator_traffic import CallsQuery, TrafficQuery, calls, traffic
from tollhouse.console.page_shell import HERE, PageShell, fill_template
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Handler, Request, Response
from tollhouse.http.response import fresh_json
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, OPERATOR, Terms
from tollhouse.money import MICROS_PER_USD
from tollhouse.payments.ledger.types import REVENUE
from tollhouse.payments.pay_per_request import read_chain_status
from tollhouse.payments.x402.claims import X402
from tollhouse.statistics.metrics import exposition
from tollhouse.statistics.statistics import LEDGER_CHECK
from tollhouse.webhooks.store import State


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


METRICS = "text/plain; version=0.0.4; charset=utf-8"
CSV = "text/csv; charset=utf-8"


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of GET /operator, which the page's script reads."""

    window: str | None = None
    operation: str | None = None
    status: str | None = None
    caller: str | None = None
    code: str | None = None
    account: str | None = None
    state: str | None = None


class DeliveriesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of GET /operator/api/deliveries."""

    state: State | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class LoginQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of GET /operator/login."""

    code: Annotated[str, Meta(min_length=1, max_length=100)]


class Session(Struct, frozen=True):
    """The session of the operator's browser; null where it has none."""

    expires_at: str | None


def operator_endpoints(context: AppContext, services: Sequence[Service], shell: PageShell) -> list[Endpoint]:
    """The operator's page, the endpoints it calls, and /metrics."""
    handlers = OperatorEndpoints(context, services, shell)
    metrics_terms = FREE if context.settings.metrics_open else OPERATOR
    return [
        Endpoint("getMetrics", "GET", "/metrics", "Metrics", handlers.metrics, metrics_terms,
                 responses={"text/plain": {}}, is_described=False),
        Endpoint("page /operator", "GET", "/operator", "Operator", handlers.page, FREE,
                 query=PageQuery, responses={"text/html": {}}, is_described=False),
        Endpoint("operator login", "GET", "/operator/login", "Log in", handlers.log_in, FREE,
                 query=LoginQuery, responses={"text/html": {}}, is_described=False),
        _endpoint("GET", "/operator/api/session", handlers.session, terms=FREE),
        _endpoint("POST", "/operator/api/session", handlers.open_session),
        _endpoint("DELETE", "/operator/api/session", handlers.end_session),
        _endpoint("GET", "/operator/api/traffic", _reads(partial(traffic, context)), TrafficQuery),
        _endpoint("GET", "/operator/api/calls", _reads(partial(calls, context)), CallsQuery),
        _endpoint("GET", "/operator/api/revenue", _reads(lambda _: revenue(context))),
        _endpoint("GET", "/operator/api/transfers", _reads(partial(transfers, context)), TransfersQuery),
        _endpoint("GET", "/operator/api/statement", handlers.statement, StatementQuery),
        _endpoint("GET", "/operator/api/audit", _reads(lambda _: verify(context))),
        _endpoint("GET", "/operator/api/deliveries", handlers.deliveries, DeliveriesQuery),
        _endpoint("POST", "/operator/api/deliveries/{id}/replay", handlers.replay),
        _endpoint("POST", "/operator/api/endpoints/{id}/replay", handlers.replay_parked),
        _endpoint("GET", "/operator/api/sources", handlers.sources),
        _endpoint("GET", "/operator/api/chain", handlers.chain),
    ]  # fmt: skip


class OperatorEndpoints:
    """Handlers that only read, except those that queue deliveries again, keep a verification or hold the session."""

    def __init__(self, context: AppContext, services: Sequence[Service], shell: PageShell) -> None:
        self._context = context
        self._services = services
        main = fill_template(HERE / "pages" / "operator.html", {})
        self._page = shell.page("/operator", "Operator · Tollhouse", main, scripts=("operator.css", "operator.js"))

    async def page(self, request: Request[PageQuery, None]) -> Response:
        """The page itself holds no data. A host that is not this server's does not get it."""
        self._context.operator.hosts.check_host(request.over_http)
        return self._page

    async def log_in(self, request: Request[LoginQuery, None]) -> Response:
        """Exchange the code of a login link for a session. HEAD leaves the code unused."""
        http, access = request.over_http, self._context.operator
        access.hosts.check_host(http)
        headers = [
            (b"location", f"{self._context.settings.root_path}/operator".encode()),
            (b"referrer-policy", b"no-referrer"),
        ]
        if http.method == "HEAD":
            return Response(b"", "text/html", status=303, headers=tuple(headers), cache_control="no-store")
        if not await asyncio.to_thread(access.use_code, request.query.code):
            raise Problem(
                "missing-credentials",
                "This login link was used or has expired. `tollhouse operator` prints a new one, and /operator takes "
                "the token.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        cookie, _ = access.new_session(http)
        headers.append((b"set-cookie", cookie.encode()))
        return Response(b"", "text/html", status=303, headers=tuple(headers), cache_control="no-store")

    async def session(self, request: Request[Any, Any]) -> Response:
        """Whether this browser has a session: the page asks before it shows the form."""
        access = self._context.operator
        access.hosts.check_same_origin(request.over_http)
        access.hosts.check_host(request.over_http)
        return fresh_json(Session(_moment(access.session_end(request.over_http))))

    async def open_session(self, request: Request[Any, Any]) -> Response:
        self._context.operator.hosts.check_host(request.over_http)
        cookie, expires_at = self._context.operator.new_session(request.over_http)
        return fresh_json(Session(_moment(expires_at)), headers=((b"set-cookie", cookie.encode()),))

    async def end_session(self, request: Request[Any, Any]) -> Response:
        cookie = self._context.operator.end_session(request.over_http)
        return fresh_json(Session(None), headers=((b"set-cookie", cookie.encode()),))

    async def metrics(self, _request: Request[None, None]) -> Response:
        families = await business_families(self._context, self._services)
        return Response(exposition(self._context.statistics.recorder, families), METRICS, cache_control="no-store")

    async def statement(self, request: Request[StatementQuery, None]) -> Response:
        name = f"tollhouse-{request.query.since}-{request.query.until}.csv"
        return Response(
            b"",
            CSV,
            headers=((b"content-disposition", f'attachment; filename="{name}"'.encode()),),
            cache_control="no-store",
            stream=statement(self._context, request.query),
        )

    async def chain(self, _request: Request[Any, Any]) -> Response:
        context = self._context
        chain_id = context.settings.evm_chain_id
        return fresh_json(await read_chain_status(context.per_request, context.database, chain_id))

    async def deliveries(self, request: Request[DeliveriesQuery, None]) -> Response:
        webhooks = self._context.webhooks
        endpoints = await webhooks.subscriptions.all()
        deliveries = await webhooks.deliveries.newest(state=request.query.state, limit=request.query.limit)
        backlog = await webhooks.deliveries.backlog()
        return fresh_json(
            {"endpoints": endpoints, "backlog": backlog, "count": len(deliveries), "deliveries": deliveries}
        )

    async def replay_parked(self, request: Request[Any, Any]) -> Response:
        try:
            async with self._context.database.writing() as transaction:
                number = await self._context.webhooks.deliveries.replay_parked(transaction, request.path["id"])
        except ValueError as error:
            raise Problem("not-found", f"Cannot replay the deliveries: {error}.") from None
        return fresh_json({"replayed": number})

    async def replay(self, request: Request[Any, Any]) -> Response:
        try:
            async with self._context.database.writing() as transaction:
                return fresh_json(await self._context.webhooks.deliveries.replay(transaction, request.path["id"]))
        except ValueError as error:
            raise Problem("not-found", f"Cannot replay the delivery: {error}.") from None

    async def sources(self, _request: Request[Any, Any]) -> Response:
        healths = {service.name: await service.health() for service in self._services}
        states = [state for service in self._services for state in await source_states(service)]
        return fresh_json({"services": healths, "sources": states})


def _reads(read: Callable[[Any], Awaitable[Struct]]) -> Handler:
    """A handler that answers with what is read for the query."""

    async def handle(request: Request[Any, Any]) -> Response:
        return fresh_json(await read(request.query))

    return handle


def _endpoint(
    method: Any,
    path: str,
    handler: Handler,
    query: type[Struct] | None = None,
    terms: Terms = OPERATOR,
) -> Endpoint:
    name = f"operator {method} {path}"
    return Endpoint(name, method, path, path, handler, terms, query=query, is_described=False)


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else clock.iso(clock.at(seconds))
