"""What the operator sees of the calls: requests, latency and revenue over a window, top lists, and the newest calls."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.admission.context import AppContext
from tollhouse.console.operator_revenue import RevenueSums, revenue_points
from tollhouse.errors import invalid_parameter
from tollhouse.money import usd
from tollhouse.payments.credit import CALL
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import agent_account
from tollhouse.statistics import store
from tollhouse.statistics.recorder import Latencies
from tollhouse.statistics.store import DAY, HOUR, MINUTE, Point

WindowName = Literal["hour", "day", "week"]
CALLERS_SHOWN = 20
OPERATIONS_SHOWN = 50


class Window(Struct, frozen=True):
    """A span of time that ends now, the step of the rows it is read from, and the width of a point, all in seconds."""

    seconds: int
    step: int
    width: int


WINDOWS: dict[WindowName, Window] = {
    "hour": Window(HOUR, MINUTE, MINUTE),
    "day": Window(DAY, MINUTE, 15 * MINUTE),
    "week": Window(7 * DAY, HOUR, 3 * HOUR),
}


class TrafficQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of GET /operator/api/traffic. With `operation` (`SERVICE OPERATION`) the figures over time are its own."""

    window: WindowName = "day"
    operation: Annotated[str, Meta(max_length=200)] = ""


class Figures(Struct, frozen=True):
    """Calls and their latency. `refused` are answers of 4xx, `failed` of 5xx. Without calls there is no latency."""

    requests: int
    refused: int
    failed: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class FiguresAt(Figures, frozen=True):
    """The figures of the period that begins at `at`."""

    at: str


class Named(Figures, frozen=True):
    """The figures of an operation, a problem code, a way of payment or a group of callers."""

    name: str


class Refusal(Struct, frozen=True):
    """How often a problem code was the answer, and in which operations, most often first."""

    code: str
    count: int
    operations: list[tuple[str, int]]


class CallerFigures(Struct, frozen=True):
    """A caller: a key's id with its label and plan, a wallet's id with its address, or a network with a short hash.

    `paid_usd` is what the ledger says a wallet paid. Both count from a full hour on, in the window of an hour from a
    full minute.
    """

    kind: str
    caller: str
    name: str
    plan: str
    requests: int
    refused: int
    failed: int
    paid_usd: str


class Traffic(Struct, frozen=True):
    """The calls of a window, and those of the window before it.

    `pages` counts requests for pages, files, descriptions and health checks, which nothing else includes. Revenue
    comes from the ledger.
    """

    window: WindowName
    since: str
    until: str
    width_seconds: int
    total: Figures
    before: Figures
    pages: int
    points: list[FiguresAt]
    revenue: RevenueSums
    revenue_before_usd: str
    operations: list[Named]
    callers: list[CallerFigures]
    caller_groups: list[Named]
    payments: list[Named]
    refusals: list[Refusal]


async def traffic(context: AppContext, query: TrafficQuery) -> Traffic:
    await context.statistics.flush()
    window = WINDOWS[query.window]
    now = clock.seconds()
    until = (int(now) // window.width + 1) * window.width
    since = until - window.seconds
    dimension, label = ("operation", query.operation) if query.operation else ("total", "calls")
    async with context.database.reading() as connection:
        points = await store.points(
            connection, step=window.step, since=since, until=until, width=window.width, dimension=dimension, label=label
        )
        totals = await store.totals(connection, window.step, since, until, "total")
        # The window before lies further back than the rows of minutes go.
        before = await store.totals(connection, HOUR, since - window.seconds, since, "total")
        operations = await store.totals(connection, window.step, since, until, "operation")
        groups = await store.totals(connection, window.step, since, until, "caller")
        payments = await store.totals(connection, window.step, since, until, "payment")
        refusals = await store.totals(connection, window.step, since, until, "refusal")
        step = MINUTE if query.window == "hour" else HOUR
        callers_since = since - since % step
        callers = await store.top_callers(connection, step, callers_since, CALLERS_SHOWN)
    paid_by = {
        row.subject: await _paid_micros(context.ledger, row.subject, callers_since, now)
        for row in callers
        if row.kind == "wallet"
    }
    revenue = await revenue_points(context.ledger, since, until, window.width)
    revenue_before = await revenue_points(context.ledger, since - window.seconds, since, window.width)
    shown = points if query.operation else [point for point in points if point.label == "calls"]
    return Traffic(
        window=query.window,
        since=clock.iso(clock.at(since)),
        until=clock.iso(clock.at(until)),
        width_seconds=window.width,
        total=_figures(point for point in totals if point.label == "calls"),
        before=_figures(point for point in before if point.label == "calls"),
        pages=sum(point.requests for point in totals if point.label == "other"),
        points=_every_period(shown, since, until, window.width),
        revenue=revenue,
        revenue_before_usd=revenue_before.total_usd,
        operations=[_named(point) for point in operations[:OPERATIONS_SHOWN]],
        callers=[
            CallerFigures(
                row.kind, row.subject, row.name, row.plan, int(row.requests), int(row.refused), int(row.failed),
                usd(paid_by.get(row.subject, 0)),
            )
            for row in callers
        ],
        caller_groups=[_named(point) for point in groups],
        payments=[_named(point) for point in payments],
        refusals=_refusals(refusals),
    )  # fmt: skip


async def _paid_micros(ledger: Ledger, agent_id: str, since: int, now: float) -> int:
    """What a wallet paid for calls since a time. The ledger has sums of hours of it."""
    account = agent_account(agent_id)
    if since % HOUR:
        return sum(one.amount_micros for one in await ledger.spending(account, CALL, since))
    until = (int(now) // HOUR + 1) * HOUR
    return sum(one.micros for one in await ledger.sums(account, CALL, since, until, HOUR) if not one.is_credit)


def _every_period(points: Sequence[Point], since: int, until: int, width: int) -> list[FiguresAt]:
    """The figures of every period, also of those without calls."""
    by_time = {point.at: point for point in points}
    nothing = Point(0, "", 0, 0, Latencies())
    return [
        FiguresAt(*_members(by_time.get(at, nothing)), clock.iso(clock.at(at))) for at in range(since, until, width)
    ]


def _figures(points: Iterable[Point]) -> Figures:
    return Figures(*_members(next(iter(points), Point(0, "", 0, 0, Latencies()))))


def _named(point: Point) -> Named:
    return Named(*_members(point), point.label)


def _members(point: Point) -> tuple[int, int, int, float | None, float | None, float | None]:
    p50, p95, p99 = (point.latencies.quantile(share) for share in (0.5, 0.95, 0.99))
    return point.requests, point.refused, point.failed, _ms(p50), _ms(p95), _ms(p99)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1_000, 3)


def _refusals(points: Sequence[Point]) -> list[Refusal]:
    """By problem code: the labels are `CODE SERVICE OPERATION`."""
    by_code: dict[str, list[tuple[str, int]]] = {}
    for point in points:
        code, _, operation = point.label.partition(" ")
        by_code.setdefault(code, []).append((operation.strip(), point.requests))
    refusals = [Refusal(code, sum(count for _, count in each), each) for code, each in by_code.items()]
    return sorted(refusals, key=lambda refusal: (-refusal.count, refusal.code))


STATUS_CLASSES = {"2xx": 200, "3xx": 300, "4xx": 400, "5xx": 500}


class CallsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query of GET /operator/api/calls. `status` is a status or a class of statuses (`4xx`).

    `caller` is a part of a caller's id, label or address; `operation` is `SERVICE OPERATION`, or a part of it.
    """

    operation: Annotated[str, Meta(max_length=200)] = ""
    status: Annotated[str, Meta(max_length=3)] = ""
    caller: Annotated[str, Meta(max_length=100)] = ""
    code: Annotated[str, Meta(max_length=40)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class CallEntry(Struct, frozen=True):
    """A call: what was called by whom, the answer, and for a refusal the problem code and its reason."""

    at: str
    request_id: str
    service: str
    operation: str
    method: str
    path: str
    status: int
    code: str
    detail: str
    ms: float
    kind: str
    caller: str
    name: str
    plan: str
    payment: str
    price_usd: str


class CallList(Struct, frozen=True):
    """The newest calls that match, newest first, of all processes."""

    as_of: str
    count: int
    calls: list[CallEntry]


async def calls(context: AppContext, query: CallsQuery) -> CallList:
    """The newest calls. Raises Problem `invalid-parameter`."""
    await context.statistics.flush()
    matching = store.CallFilter(query.operation, _statuses(query.status), query.caller, query.code)
    async with context.database.reading() as connection:
        rows = await store.newest_calls(connection, query.limit, matching)
    entries = [
        CallEntry(
            clock.iso(clock.at(row.at)), row.request_id, row.service, row.operation, row.method, row.path, row.status,
            row.code, row.detail, round(row.seconds * 1_000, 2), row.kind, row.subject, row.name, row.plan, row.payment,
            usd(row.charged_micros),
        )
        for row in rows
    ]  # fmt: skip
    return CallList(clock.iso(clock.now()), len(entries), entries)


def _statuses(status: str) -> range:
    """The statuses that a filter names; empty for all. Raises Problem `invalid-parameter`."""
    if not status:
        return range(0)
    if status in STATUS_CLASSES:
        first = STATUS_CLASSES[status]
        return range(first, first + 100)
    if status.isascii() and status.isdigit():
        return range(int(status), int(status) + 1)
    raise invalid_parameter("status", f"Must be a status such as 429, or one of {', '.join(STATUS_CLASSES)}.")
