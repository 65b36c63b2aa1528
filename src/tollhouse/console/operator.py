"""The operator's API: revenue, the ledger, webhook deliveries and the health of sources."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.admission.context import AppContext
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.service import Service
from tollhouse.http.terms import OPERATOR
from tollhouse.money import usd
from tollhouse.payments.ledger.types import REVENUE, REVERSALS, TREASURY, AccountState, Transfer
from tollhouse.payments.x402.claims import X402
from tollhouse.webhooks.store import State

NEWEST_FOR_DAYS = 1_000

_ACCOUNTS = {
    REVENUE: "Payments by callers",
    TREASURY: "Deposits by wallets. Negative: owed to the wallets",
    X402: "Payments per request (x402). Negative: passed on to revenue",
    REVERSALS: "Deposits removed by a chain reorganization",
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


class DeliveriesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of GET /operator/api/deliveries."""

    state: State | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


def operator_endpoints(context: AppContext, services: Sequence[Service]) -> list[Endpoint]:
    handlers = OperatorEndpoints(context, services)
    return [
        _endpoint("GET", "/operator/api/revenue", handlers.revenue),
        _endpoint("GET", "/operator/api/transfers", handlers.transfers, TransfersQuery),
        _endpoint("GET", "/operator/api/audit", handlers.audit),
        _endpoint("GET", "/operator/api/deliveries", handlers.deliveries, DeliveriesQuery),
        _endpoint("POST", "/operator/api/deliveries/{id}/replay", handlers.replay),
        _endpoint("GET", "/operator/api/sources", handlers.sources),
    ]


class OperatorEndpoints:
    """Handlers that only read, except that `replay` queues a delivery again."""

    def __init__(self, context: AppContext, services: Sequence[Service]) -> None:
        self._context = context
        self._services = services

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
) -> Endpoint:
    name = f"operator {method} {path}"
    return Endpoint(name, method, path, path, handler, OPERATOR, query=query, is_described=False)


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), cache_control="no-store")


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
