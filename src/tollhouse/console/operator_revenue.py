"""What the operator sees of the money: revenue by day and method of payment, the ledger, and statements."""

from collections.abc import AsyncGenerator
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.accounts.subscriptions.store import subscriptions_by_plan
from tollhouse.admission.context import AppContext
from tollhouse.csv_text import write_rows
from tollhouse.errors import invalid_parameter
from tollhouse.money import usd
from tollhouse.payments.credit import CALL
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import (
    REVENUE,
    REVERSAL,
    REVERSALS,
    TREASURY,
    AccountState,
    LedgerReport,
    PeriodSum,
    Transfer,
)
from tollhouse.payments.x402.claims import X402
from tollhouse.statistics.statistics import LEDGER_CHECK, Check
from tollhouse.statistics.store import DAY, HOUR

DAYS_SHOWN = 35
LONGEST_STATEMENT_DAYS = 366

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


class RevenuePoint(Struct, frozen=True):
    """The revenue of the period that begins at `at`: wallet credit, payments per request, and what was taken back."""

    at: str
    credit_usd: str
    per_request_usd: str
    reversed_usd: str
    revenue_usd: str
    payments: int


class RevenueSums(Struct, frozen=True):
    """Revenue by method over a time, and by period. `total_usd` is without what was taken back."""

    total_usd: str
    credit_usd: str
    per_request_usd: str
    reversed_usd: str
    payments: int
    points: list[RevenuePoint]


class PlanSubscriptions(Struct, frozen=True):
    """Subscriptions at Stripe with one status. `month_usd` is the plan's list price a month times their number."""

    plan: str
    status: str
    subscriptions: int
    month_usd: str


class Revenue(Struct, frozen=True):
    """Revenue of all time and of the last UTC days, exact, from the ledger.

    `subscriptions` are at Stripe, whose invoices are not in the ledger; null where Stripe is not configured.
    `verified` is the last verification of the ledger.
    """

    as_of: str
    revenue_usd: str
    by_agents_usd: str
    per_request_usd: str
    today: RevenuePoint
    yesterday: RevenuePoint
    last_7_days_usd: str
    accounts: list[Account]
    days: list[RevenuePoint]
    subscriptions: list[PlanSubscriptions] | None
    verified: Check | None


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


class StatementQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of GET /operator/api/statement: the first and the last UTC day."""

    since: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="a day, YYYY-MM-DD")]
    until: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="a day, YYYY-MM-DD")]


async def revenue_points(ledger: Ledger, since: int, until: int, width: int) -> RevenueSums:
    """Revenue between two times, by method and by period of `width` seconds; `since` is a multiple of it."""
    sums: dict[str, list[PeriodSum]] = {}
    for kind in (CALL, X402, REVERSAL):
        sums[kind] = await ledger.sums(REVENUE, kind, since, until, width)
    points, totals = [], [0, 0, 0, 0]
    for at in range(since, until, width):
        here = {kind: [one for one in each if one.at == at] for kind, each in sums.items()}
        credit, per_request, reversed_ = (sum(one.micros for one in here[kind]) for kind in (CALL, X402, REVERSAL))
        payments = sum(one.transfers for kind in (CALL, X402) for one in here[kind])
        points.append(_point(at, credit, per_request, reversed_, payments))
        totals = [
            total + value for total, value in zip(totals, (credit, per_request, reversed_, payments), strict=True)
        ]
    credit, per_request, reversed_, payments = totals
    return RevenueSums(
        usd(credit + per_request - reversed_), usd(credit), usd(per_request), usd(reversed_), payments, points
    )


async def revenue(context: AppContext) -> Revenue:
    ledger, now = context.ledger, clock.seconds()
    states = {name: await ledger.account(name) for name in _ACCOUNTS}
    total, per_request = states[REVENUE].total_in_micros, states[X402].total_out_micros
    end = (int(now) // DAY + 1) * DAY
    recent = await revenue_points(ledger, end - DAYS_SHOWN * DAY, end, DAY)
    week = await revenue_points(ledger, end - 7 * DAY, end, DAY)
    return Revenue(
        as_of=clock.iso(clock.now()),
        revenue_usd=usd(total - states[REVENUE].total_out_micros),
        by_agents_usd=usd(total - per_request),
        per_request_usd=usd(per_request),
        today=recent.points[-1],
        yesterday=recent.points[-2],
        last_7_days_usd=week.total_usd,
        accounts=[_account(state) for state in states.values()],
        days=recent.points,
        subscriptions=await subscriptions(context),
        verified=await context.statistics.last_check(LEDGER_CHECK),
    )


async def subscriptions(context: AppContext) -> list[PlanSubscriptions] | None:
    """The subscriptions at Stripe by plan and status; None where Stripe is not configured."""
    if context.stripe is None:
        return None
    async with context.database.reading() as connection:
        rows = await subscriptions_by_plan(connection)
    prices = {plan.name: plan.month_micros for plan in context.plans.all}
    return [
        PlanSubscriptions(row.plan, row.status, row.subscriptions, usd(prices.get(row.plan, 0) * row.subscriptions))
        for row in rows
    ]


async def verify(context: AppContext) -> LedgerReport:
    """Verify the ledger, and keep the result for every process."""
    report = await context.ledger.verify()
    await context.statistics.save_check(LEDGER_CHECK, report)
    return report


async def transfers(context: AppContext, query: TransfersQuery) -> TransferList:
    newest = await context.ledger.recent(query.limit, query.account)
    return TransferList(len(newest), [_entry(transfer) for transfer in newest])


def statement(context: AppContext, query: StatementQuery) -> AsyncGenerator[bytes, None]:
    """Every transfer of these days as CSV, hour by hour. Raises Problem `invalid-parameter`."""
    first, last = _day("since", query.since), _day("until", query.until)
    if last < first:
        raise invalid_parameter("until", "Must not be before `since`.")
    if (last - first).days >= LONGEST_STATEMENT_DAYS:
        raise invalid_parameter("until", f"A statement covers at most {LONGEST_STATEMENT_DAYS} days.")
    return _statement_rows(context.ledger, first, last + timedelta(days=1))


async def _statement_rows(ledger: Ledger, since: datetime, until: datetime) -> AsyncGenerator[bytes, None]:
    yield write_rows([("time", "id", "kind", "from", "to", "amount_usd", "state", "memo")])
    kinds = await ledger.kinds()
    for begin in range(int(since.timestamp()), int(until.timestamp()), HOUR):
        made = [one for kind in kinds for one in await ledger.between(kind, begin, begin + HOUR)]
        made.sort(key=lambda transfer: transfer.at)
        if made:
            yield write_rows(_statement_row(_entry(transfer)) for transfer in made)


def _statement_row(entry: TransferEntry) -> list[str]:
    memo = "" if entry.memo is None else msgspec.json.encode(entry.memo).decode()
    return [entry.at, entry.id, entry.kind, entry.debit, entry.credit, entry.amount_usd, entry.state, memo]


def _day(parameter: str, text: str) -> datetime:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise invalid_parameter(parameter, "Must be a day, YYYY-MM-DD.") from None
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _point(at: int, credit: int, per_request: int, reversed_: int, payments: int) -> RevenuePoint:
    total = credit + per_request - reversed_
    return RevenuePoint(clock.iso(clock.at(at)), usd(credit), usd(per_request), usd(reversed_), usd(total), payments)


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
