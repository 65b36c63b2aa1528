"""What only the operator opens: the page, login, revenue, the ledger, webhook deliveries, sources and metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.admission.context import AppContext
from tollhouse.console.page_shell import HERE, PageShell, fill_template
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, OPERATOR, Terms
from tollhouse.money import usd
from tollhouse.payments.ledger.types import REVENUE, REVERSALS, TREASURY, AccountState, Transfer
from tollhouse.payments.x402.claims import X402
from tollhouse.statistics.metrics import exposition
from tollhouse.webhooks.store import State

NEWEST_FOR_DAYS = 1_000
METRICS = "text/plain; version=0.0.4; charset=utf-8"

_ACCOUNTS = {
    REVENUE: "Payments by callers",
    TREASURY: "Deposits by wallets. Negative: owed to the wallets",
    X402: "Payments per request (x402). Negative: passed on to revenue",
    REVERSALS: "Deposits and payments removed by a chain reorganization",
}


class Account(Struct, frozen=True):
    """A ledger account. Amounts are decimal strings in USD."""

    name: str
    meaning: str
    balance_usd: str
    reserved_usd: str
    in_usd: str
    out_usd: str
    calls: int


class Day(Struct, frozen=True):
    """The payments of a UTC day, among the newest transfers."""

    day: str
    revenue_usd: str
    payments: int


class Revenue(Struct, frozen=True):
    """`days` covers the newest 1,000 payments; `days_are_whole` says whether those are all payments."""

    as_of: str
    revenue_usd: str
    by_agents_usd: str
    per_request_usd: str
    accounts: list[Account]
    days: list[Day]
    days_are_whole: bool


class TransferEntry(Struct, frozen=True):
    """A ledger transfer."""

    id: str
    at: str
    kind: str
    debit: str
    credit: str
    amount_usd: str
    state: str
    memo: dict[str, Any] | None


class TransferList(Struct, frozen=True):
    """The newest transfers, newest first."""

    count: int
    transfers: list[TransferEntry]


class TransfersQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of GET /operator/api/transfers."""

    account: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of GET /operator, which the page's script reads."""

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
        _endpoint("GET", "/operator/api/revenue", handlers.revenue),
        _endpoint("GET", "/operator/api/transfers", handlers.transfers, TransfersQuery),
        _endpoint("GET", "/operator/api/audit", handlers.audit),
        _endpoint("GET", "/operator/api/deliveries", handlers.deliveries, DeliveriesQuery),
        _endpoint("POST", "/operator/api/deliveries/{id}/replay", handlers.replay),
        _endpoint("GET", "/operator/api/sources", handlers.sources),
    ]  # fmt: skip


class OperatorEndpoints:
    """Handlers that only read, except that `replay` queues a delivery again, and those of the session."""

    def __init__(self, context: AppContext, services: Sequence[Service], shell: PageShell) -> None:
        self._context = context
        self._services = services
        main = fill_template(HERE / "pages" / "operator.html", {})
        self._page = shell.page("/operator", "Operator · Tollhouse", main, scripts=("operator.js",))

    async def page(self, request: Request[PageQuery, None]) -> Response:
        """The page itself holds no data. A host that is not this server's does not get it."""
        assert request.http is not None, "a request over HTTP"
        self._context.operator.hosts.check_host(request.http)
        return self._page

    async def log_in(self, request: Request[LoginQuery, None]) -> Response:
        """Exchange the code of a login link for a session. HEAD leaves the code unused."""
        http, access = request.http, self._context.operator
        assert http is not None, "a request over HTTP"
        access.hosts.check_host(http)
        headers = [(b"location", b"/operator"), (b"referrer-policy", b"no-referrer")]
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
        assert request.http is not None, "a request over HTTP"
        access = self._context.operator
        access.hosts.check_same_origin(request.http)
        access.hosts.check_host(request.http)
        return _json(Session(_moment(access.session_end(request.http))))

    async def open_session(self, request: Request[Any, Any]) -> Response:
        assert request.http is not None, "a request over HTTP"
        self._context.operator.hosts.check_host(request.http)
        cookie, expires_at = self._context.operator.new_session(request.http)
        return _json(Session(_moment(expires_at)), ((b"set-cookie", cookie.encode()),))

    async def end_session(self, request: Request[Any, Any]) -> Response:
        assert request.http is not None, "a request over HTTP"
        cookie = self._context.operator.end_session(request.http)
        return _json(Session(None), ((b"set-cookie", cookie.encode()),))

    async def metrics(self, _request: Request[None, None]) -> Response:
        return Response(exposition(self._context.statistics.recorder), METRICS, cache_control="no-store")

    async def revenue(self, _request: Request[Any, Any]) -> Response:
        ledger = self._context.ledger
        states = {name: await ledger.account(name) for name in _ACCOUNTS}
        newest = await ledger.recent(NEWEST_FOR_DAYS, REVENUE)
        total, per_request = states[REVENUE].total_in_micros, states[X402].total_out_micros
        return _json(
            Revenue(
                as_of=clock.iso(clock.now()),
                revenue_usd=usd(total),
                by_agents_usd=usd(total - per_request),
                per_request_usd=usd(per_request),
                accounts=[_account(state) for state in states.values()],
                days=_days(newest),
                days_are_whole=len(newest) < NEWEST_FOR_DAYS,
            )
        )

    async def transfers(self, request: Request[TransfersQuery, None]) -> Response:
        transfers = await self._context.ledger.recent(request.query.limit, request.query.account)
        return _json(TransferList(len(transfers), [_entry(transfer) for transfer in transfers]))

    async def audit(self, _request: Request[Any, Any]) -> Response:
        return _json(await self._context.ledger.verify())

    async def deliveries(self, request: Request[DeliveriesQuery, None]) -> Response:
        endpoints = await self._context.webhooks.subscriptions.all()
        deliveries = await self._context.webhooks.deliveries.newest(
            state=request.query.state, limit=request.query.limit
        )
        return _json({"endpoints": endpoints, "count": len(deliveries), "deliveries": deliveries})

    async def replay(self, request: Request[Any, Any]) -> Response:
        try:
            async with self._context.database.writing() as transaction:
                return _json(await self._context.webhooks.deliveries.replay(transaction, request.path["id"]))
        except ValueError as error:
            raise Problem("not-found", f"Cannot replay the delivery: {error}.") from None

    async def sources(self, _request: Request[Any, Any]) -> Response:
        return _json({"services": {service.name: await service.health() for service in self._services}})


def _endpoint(
    method: Any,
    path: str,
    handler: Callable[[Request[Any, Any]], Awaitable[Response]],
    query: type[Struct] | None = None,
    terms: Terms = OPERATOR,
) -> Endpoint:
    name = f"operator {method} {path}"
    return Endpoint(name, method, path, path, handler, terms, query=query, is_described=False)


def _json(value: Any, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    return Response(msgspec.json.encode(value), headers=headers, cache_control="no-store")


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else clock.iso(clock.at(seconds))


def _account(state: AccountState) -> Account:
    return Account(
        name=state.name,
        meaning=_ACCOUNTS[state.name],
        balance_usd=usd(state.balance_micros),
        reserved_usd=usd(state.reserved_micros),
        in_usd=usd(state.total_in_micros),
        out_usd=usd(state.total_out_micros),
        calls=state.posted_count,
    )


def _days(transfers: Sequence[Transfer]) -> list[Day]:
    """Payments by day, oldest first."""
    sums: dict[str, tuple[int, int]] = {}
    for transfer in transfers:
        if transfer.credit == REVENUE and transfer.state in ("settled", "posted"):
            day = clock.iso(clock.at(transfer.at))[:10]
            micros, payments = sums.get(day, (0, 0))
            sums[day] = micros + transfer.amount_micros, payments + 1
    return [Day(day, usd(micros), payments) for day, (micros, payments) in sorted(sums.items())]


def _entry(transfer: Transfer) -> TransferEntry:
    return TransferEntry(
        id=transfer.id,
        at=clock.iso(clock.at(transfer.at)),
        kind=transfer.kind,
        debit=transfer.debit,
        credit=transfer.credit,
        amount_usd=usd(transfer.amount_micros),
        state=transfer.state,
        memo=transfer.memo,
    )
