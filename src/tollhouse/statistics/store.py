"""Statistics as rows: series of calls, the usage of callers, the newest calls and the last result of each check.

Times are seconds since 1970. A row of a series or of a caller covers one period of `step` seconds that begins at `at`;
every process adds to it, so a reader sees the sum of all.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    TextClause,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.statistics.recorder import BOUNDS, Latencies
from tollhouse.storage.database import Transaction, insert, metadata, upsert

MINUTE, HOUR, DAY = 60, 3_600, 86_400
SERIES_KEPT = {MINUTE: 26 * HOUR, HOUR: 35 * DAY}
"""How long the rows of each step are kept, in seconds."""
CALLERS_KEPT = {MINUTE: 2 * HOUR, HOUR: 8 * DAY, DAY: 400 * DAY}
ADDRESS_DAYS_KEPT = 35
RECENT_KEPT = 1_000
"""So many answered calls are kept for the live log, and as many refused ones."""

_BUCKETS = tuple(f"bucket_{number}" for number in range(len(BOUNDS) + 1))

series = Table(
    "call_series",
    metadata,
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("dimension", String(12), primary_key=True),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("label", String(200), primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in _BUCKETS),
)

usage = Table(
    "caller_usage",
    metadata,
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(12), primary_key=True),
    Column("subject", String(80), primary_key=True),
    Column("plan", String(64), nullable=False),
    Column("name", String(100), nullable=False),
    Column("requests", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("charged_micros", BigInteger, nullable=False),
    Index("caller_usage_by_subject", "subject", "step", "at"),
)

recent = Table(
    "recent_call",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("at", Double, nullable=False),
    Column("is_refused", Boolean, nullable=False),
    Column("request_id", String(128), nullable=False),
    Column("service", String(64), nullable=False),
    Column("operation", String(128), nullable=False),
    Column("method", String(10), nullable=False),
    Column("path", String(200), nullable=False),
    Column("status", Integer, nullable=False),
    Column("code", String(40), nullable=False),
    Column("detail", String(300), nullable=False),
    Column("seconds", Double, nullable=False),
    Column("kind", String(12), nullable=False),
    Column("subject", String(80), nullable=False),
    Column("name", String(100), nullable=False),
    Column("plan", String(64), nullable=False),
    Column("payment", String(12), nullable=False),
    Column("charged_micros", BigInteger, nullable=False),
    Index("recent_call_by_age", "is_refused", "at"),
)

check = Table(
    "check_result",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("at", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
)


UsageRow = tuple[str, str, str, str, int, int, int, int]
"""Kind, subject, plan and name of a caller; requests, refused, failed, and what was charged in micros."""


class Point(Struct):
    """The calls of a period that begins at `at`, or of a label."""

    at: int
    label: str
    refused: int
    failed: int
    latencies: Latencies

    @property
    def requests(self) -> int:
        return self.latencies.count


def point_row(step: int, dimension: str, point: Point) -> dict[str, Any]:
    latencies = point.latencies
    values = {"step": step, "at": point.at, "dimension": dimension, "label": point.label}
    counts = {"requests": latencies.count, "refused": point.refused, "failed": point.failed}
    return values | counts | {"seconds": latencies.seconds} | dict(zip(_BUCKETS, latencies.buckets, strict=True))


async def add_points(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    keys = [column.name for column in series.primary_key]
    statement = insert(transaction, series)
    summed = ("requests", "refused", "failed", "seconds", *_BUCKETS)
    changes = {name: series.c[name] + statement.excluded[name] for name in summed}
    # In one order: two processes that add to the same rows must not wait for each other.
    ordered = sorted(rows, key=lambda row: [row[name] for name in keys])
    await transaction.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes), ordered)


async def add_usage(transaction: Transaction, minute: int, rows: Sequence[UsageRow]) -> None:
    """Add what each caller used in one minute to its rows of every step, which have its newest plan and name then.

    One statement, since thousands of callers are usual: rows of their own would keep the interpreter from other work.
    """
    if rows:
        query = _ADD_USAGE[transaction.dialect.name == "sqlite"]
        await transaction.execute(query, {"minute": minute, "rows": msgspec.json.encode(rows).decode()})


def _add_usage_query(elements: str) -> TextClause:
    """The statement for `elements`, which reads the elements of a JSON array.

    It adds in one order: two processes that add to the same rows must not wait for each other.
    """
    texts = ("kind", "subject", "plan", "name")
    values = [f"u.value ->> {at}" for at in range(len(texts))]
    values += [f"CAST(u.value ->> {at} AS BIGINT)" for at in range(len(texts), len(texts) + len(_SUMMED))]
    changes = [f"{name} = excluded.{name}" for name in ("plan", "name")]
    changes += [f"{name} = caller_usage.{name} + excluded.{name}" for name in _SUMMED]
    steps = " UNION ALL ".join(f"SELECT {step} AS step" for step in CALLERS_KEPT)
    return text(f"""INSERT INTO caller_usage (step, at, {", ".join((*texts, *_SUMMED))})
        SELECT each.step, :minute - :minute % each.step, {", ".join(values)} FROM ({steps}) AS each, {elements}
        WHERE TRUE ORDER BY 1, 2, 3, 4
        ON CONFLICT (step, at, kind, subject) DO UPDATE SET {", ".join(changes)}""")  # noqa: S608 - our own names


_SUMMED = ("requests", "refused", "failed", "charged_micros")
_ADD_USAGE = {
    True: _add_usage_query("json_each(:rows) AS u"),
    False: _add_usage_query("json_array_elements(CAST(:rows AS json)) AS u (value)").bindparams(
        bindparam("minute", type_=BigInteger)
    ),
}


async def points(  # noqa: PLR0913 - what to read, and how to group it
    connection: AsyncConnection, *, step: int, since: int, until: int, width: int, dimension: str, label: str = ""
) -> list[Point]:
    """The points of a dimension, or of one of its labels, by period of `width` seconds and label, oldest first."""
    at = ((series.c.at / literal_column(str(width))) * literal_column(str(width))).label("period")
    if connection.dialect.name == "sqlite":
        at = (series.c.at - series.c.at % literal_column(str(width))).label("period")
    query = _sums(at, step, since, until, dimension)
    if label:
        query = query.where(series.c.label == label)
    rows = await connection.execute(query.group_by("period", series.c.label).order_by("period", series.c.label))
    return [_point(row) for row in rows]


async def totals(connection: AsyncConnection, step: int, since: int, until: int, dimension: str) -> list[Point]:
    """The sum of each label of a dimension, most calls first."""
    query = _sums(literal_column("0").label("period"), step, since, until, dimension)
    query = query.group_by(series.c.label).order_by(func.sum(series.c.requests).desc(), series.c.label)
    return [_point(row) for row in await connection.execute(query)]


def _sums(at: Any, step: int, since: int, until: int, dimension: str) -> Any:
    summed = [series.c[name] for name in ("seconds", "requests", "refused", "failed", *_BUCKETS)]
    query = select(at, series.c.label, *(func.sum(column).label(column.name) for column in summed))
    return query.where(
        series.c.step == step, series.c.at >= since, series.c.at < until, series.c.dimension == dimension
    )


def _point(row: Any) -> Point:
    buckets = [int(getattr(row, name)) for name in _BUCKETS]
    latencies = Latencies(int(row.requests), float(row.seconds), buckets)
    return Point(int(row.period), row.label, int(row.refused), int(row.failed), latencies)


async def top_callers(connection: AsyncConnection, step: int, since: int, limit: int) -> list[Any]:
    """The callers with most calls since then: kind, subject, plan, name and sums."""
    columns = (usage.c.requests, usage.c.refused, usage.c.failed, usage.c.charged_micros)
    query = (
        select(
            usage.c.kind, usage.c.subject, func.max(usage.c.plan).label("plan"), func.max(usage.c.name).label("name")
        )
        .add_columns(*(func.sum(column).label(column.name) for column in columns))
        .where(usage.c.step == step, usage.c.at >= since)
        .group_by(usage.c.kind, usage.c.subject)
        .order_by(func.sum(usage.c.requests).desc(), usage.c.subject)
        .limit(limit)
    )
    return list(await connection.execute(query))


async def usage_of(connection: AsyncConnection, subject: str, since: int) -> list[Any]:
    """The usage of one key or wallet by day since then, oldest first."""
    query = select(usage).where(usage.c.subject == subject, usage.c.step == DAY, usage.c.at >= since)
    return list(await connection.execute(query.order_by(usage.c.at)))


async def insert_recent(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        await transaction.execute(recent.insert(), list(rows))


class CallFilter(Struct, frozen=True):
    """Which calls to read; what is empty matches all. `operation` and `caller` are parts of names, in any case."""

    operation: str = ""
    statuses: range = range(0)
    caller: str = ""
    code: str = ""


async def newest_calls(connection: AsyncConnection, limit: int, matching: CallFilter) -> list[Any]:
    """The newest calls that match, newest first."""
    query = select(recent).order_by(recent.c.at.desc(), recent.c.id).limit(limit)
    if matching.operation:
        name = recent.c.service + " " + recent.c.operation
        query = query.where(name.icontains(matching.operation, autoescape=True))
    if matching.statuses:
        query = query.where(recent.c.status >= matching.statuses.start, recent.c.status < matching.statuses.stop)
    if matching.caller:
        parts = [column.icontains(matching.caller, autoescape=True) for column in (recent.c.subject, recent.c.name)]
        query = query.where(or_(*parts))
    if matching.code:
        query = query.where(recent.c.code == matching.code)
    # An index has each of them in order, and not both together.
    served = await connection.execute(query.where(recent.c.is_refused.is_(False)))
    refused = await connection.execute(query.where(recent.c.is_refused.is_(True)))
    return sorted([*served, *refused], key=lambda call: (-call.at, call.id))[:limit]


async def delete_old(transaction: Transaction, now: float) -> None:
    """Delete what is older than it is kept, and all but the newest calls."""
    for step, seconds in SERIES_KEPT.items():
        await transaction.execute(series.delete().where(series.c.step == step, series.c.at < now - seconds))
    for step, seconds in CALLERS_KEPT.items():
        await transaction.execute(usage.delete().where(usage.c.step == step, usage.c.at < now - seconds))
    await transaction.execute(
        usage.delete().where(
            usage.c.step == DAY, usage.c.kind.not_in(("key", "wallet")), usage.c.at < now - ADDRESS_DAYS_KEPT * DAY
        )
    )
    for is_refused in (False, True):
        newest = select(recent.c.at).where(recent.c.is_refused == is_refused).order_by(recent.c.at.desc())
        oldest_kept = (await transaction.execute(newest.offset(RECENT_KEPT - 1).limit(1))).scalar_one_or_none()
        if oldest_kept is not None:
            old = recent.delete().where(recent.c.is_refused == is_refused, recent.c.at < oldest_kept)
            await transaction.execute(old)


async def save_check(transaction: Transaction, name: str, at: float, body: bytes) -> None:
    """Store the result of a check in place of the one before."""
    await upsert(transaction, check, [{"name": name, "at": at, "body": body}])


async def last_check(connection: AsyncConnection, name: str) -> Any:
    """The time and body of the last result of a check, or None."""
    return (await connection.execute(select(check).where(check.c.name == name))).one_or_none()
