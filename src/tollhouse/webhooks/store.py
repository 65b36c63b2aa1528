"""Webhook endpoints, events, deliveries and attempts as rows. Times are seconds since 1970."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import (
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    and_,
    bindparam,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.storage.database import Transaction, insert, metadata

endpoint = Table(
    "webhook_endpoint",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("service", String(16), nullable=False, index=True),
    Column("url", String(2000), nullable=False),
    Column("email", String(320), nullable=False),
    Column("types", String(1000), nullable=False),
    Column("secret", String(200), nullable=False),
    Column("former_secret", String(200)),
    Column("former_until", Double),
    Column("created_at", Double, nullable=False),
    Column("removed_at", Double),
    Column("disabled_at", Double),
    Column("disabled_reason", String(200)),
    Column("failing_since", Double),
    Column("failures", Integer, nullable=False),
    Column("last_error", String(40)),
    Column("last_success_at", Double),
    Column("held_until", Double, nullable=False),
)

event = Table(
    "webhook_event",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("service", String(16), nullable=False),
    Column("type", String(64), nullable=False),
    Column("subject_id", String(200), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False, index=True),
)

delivery = Table(
    "webhook_delivery",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("event_id", String(64), nullable=False),
    Column("endpoint_id", String(40), nullable=False),
    Column("state", String(10), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("due_at", Double, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("lease", String(32)),
    Column("finished_at", Double),
    Column("last_status", Integer),
    Column("last_error", String(40)),
    Index("webhook_delivery_once", "event_id", "endpoint_id", unique=True),
    Index("webhook_delivery_due", "endpoint_id", "state", "due_at"),
)

attempt = Table(
    "webhook_attempt",
    metadata,
    Column("delivery_id", String(40), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("status", Integer),
    Column("error", String(40)),
    Column("duration_ms", Integer, nullable=False),
)


async def insert_endpoint(transaction: Transaction, **values: object) -> None:
    """Store a new endpoint."""
    await transaction.execute(endpoint.insert().values(failures=0, held_until=0.0, **values))


async def endpoint_by_id(connection: AsyncConnection, endpoint_id: str) -> Any:
    """The row of an endpoint that is not removed, or None."""
    query = select(endpoint).where(endpoint.c.id == endpoint_id, endpoint.c.removed_at.is_(None))
    return (await connection.execute(query)).one_or_none()


async def all_endpoints(connection: AsyncConnection) -> list[Any]:
    """Every endpoint that is not removed, oldest first."""
    query = select(endpoint).where(endpoint.c.removed_at.is_(None)).order_by(endpoint.c.created_at, endpoint.c.id)
    return list(await connection.execute(query))


async def change_endpoint(transaction: Transaction, endpoint_id: str, **values: object) -> bool:
    """Update an endpoint that is not removed; False if there is none."""
    query = update(endpoint).where(endpoint.c.id == endpoint_id, endpoint.c.removed_at.is_(None)).values(**values)
    return (await transaction.execute(query)).rowcount == 1


async def end_pending(transaction: Transaction, endpoint_id: str, state: str, reason: str, now: float) -> None:
    """Set the state of an endpoint's pending deliveries; an attempt in progress no longer counts."""
    query = update(delivery).where(delivery.c.endpoint_id == endpoint_id, delivery.c.state == "pending")
    await transaction.execute(query.values(state=state, last_error=reason, finished_at=now, lease=None))


async def receivers(connection: AsyncConnection, service: str, only: Collection[str] | None) -> list[Any]:
    """Id, types and disabled_at of the service's endpoints, or of those given."""
    query = select(endpoint.c.id, endpoint.c.types, endpoint.c.disabled_at)
    query = query.where(endpoint.c.service == service, endpoint.c.removed_at.is_(None))
    if only is not None:
        query = query.where(endpoint.c.id.in_(only))
    return list(await connection.execute(query.order_by(endpoint.c.created_at, endpoint.c.id)))


async def insert_events(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> set[str]:
    """Store the events that are new; their ids."""
    query = insert(transaction, event).on_conflict_do_nothing(index_elements=["id"]).returning(event.c.id)
    return set((await transaction.execute(query, list(rows))).scalars())


async def known_events(connection: AsyncConnection, ids: Collection[str]) -> list[Any]:
    """Id, service and type of the events with these ids."""
    query = select(event.c.id, event.c.service, event.c.type).where(event.c.id.in_(ids))
    return list(await connection.execute(query))


async def insert_deliveries(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> None:
    """Store deliveries, once for each event and endpoint."""
    if rows:
        query = insert(transaction, delivery).on_conflict_do_nothing(index_elements=["event_id", "endpoint_id"])
        await transaction.execute(query, [{"tries": 0, "attempts": 0, **row} for row in rows])


async def delete_before(transaction: Transaction, moment: float) -> None:
    """Delete older events that no delivery waits for, with their records, and endpoints removed before."""
    waiting = select(delivery.c.event_id).where(delivery.c.state == "pending")
    old = select(event.c.id).where(event.c.created_at < moment, event.c.id.not_in(waiting))
    deliveries = select(delivery.c.id).where(delivery.c.event_id.in_(old))
    await transaction.execute(attempt.delete().where(attempt.c.delivery_id.in_(deliveries)))
    await transaction.execute(delivery.delete().where(delivery.c.event_id.in_(old)))
    await transaction.execute(event.delete().where(event.c.created_at < moment, event.c.id.not_in(waiting)))
    await transaction.execute(endpoint.delete().where(endpoint.c.removed_at < moment))


State = Literal["pending", "delivered", "parked", "cancelled"]

ATTEMPTS_KEPT = 20


class Failures(Struct):
    """Failures of an endpoint: count, since when, the last error, and how long it asked to be left alone."""

    count: int = 0
    since: float = 0.0
    error: str | None = None
    held_until: float = 0.0


async def endpoints_with_due(connection: AsyncConnection, now: float) -> list[Any]:
    """Id, failing_since and last_success_at of the endpoints with due deliveries that may be called."""
    due = exists().where(
        delivery.c.endpoint_id == endpoint.c.id, delivery.c.state == "pending", delivery.c.due_at <= now
    )
    query = select(endpoint.c.id, endpoint.c.failing_since, endpoint.c.last_success_at).where(
        endpoint.c.removed_at.is_(None), endpoint.c.disabled_at.is_(None), endpoint.c.held_until <= now, due
    )
    return list(await connection.execute(query))


async def take(
    transaction: Transaction, shares: Mapping[str, int], now: float, lease: str, lease_until: float
) -> list[Any]:
    """Take this many due deliveries of each endpoint, the oldest first, with all that an attempt needs.

    Until its lease expires, no other process takes a delivery. A try counts when it starts, so that one that crashes
    the process is not repeated forever.
    """
    ids: list[str] = []
    for endpoint_id, number in shares.items():
        oldest = (
            select(delivery.c.id)
            .where(delivery.c.endpoint_id == endpoint_id, delivery.c.state == "pending", delivery.c.due_at <= now)
            .order_by(delivery.c.due_at, delivery.c.id)
            .limit(number)
            .with_for_update(skip_locked=True)
        )
        ids += (await transaction.execute(oldest)).scalars()
    counted = {"tries": delivery.c.tries + 1, "attempts": delivery.c.attempts + 1}
    query = update(delivery).where(delivery.c.id.in_(ids))
    await transaction.execute(query.values(lease=lease, due_at=lease_until, **counted))
    needed = (
        select(delivery, endpoint.c.url, endpoint.c.secret, endpoint.c.former_secret, endpoint.c.former_until)
        .add_columns(event.c.body)
        .join(endpoint, endpoint.c.id == delivery.c.endpoint_id)
        .join(event, event.c.id == delivery.c.event_id)
        .where(delivery.c.id.in_(ids))
    )
    return list(await transaction.execute(needed))


async def insert_attempts(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> None:
    """Record attempts; of each delivery keep the last ATTEMPTS_KEPT."""
    known = insert(transaction, attempt).on_conflict_do_nothing(index_elements=["delivery_id", "number"])
    await transaction.execute(known, list(rows))
    crowded = [row for row in rows if int(str(row["number"])) > ATTEMPTS_KEPT]
    if crowded:
        old = attempt.c.number <= bindparam("b_number") - ATTEMPTS_KEPT
        query = attempt.delete().where(attempt.c.delivery_id == bindparam("b_id"), old)
        await transaction.execute(query, [{"b_id": row["delivery_id"], "b_number": row["number"]} for row in crowded])


async def end_leases(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> None:
    """Store the result of each delivery that is still held under `b_lease`."""
    held = and_(delivery.c.id == bindparam("b_id"), delivery.c.lease == bindparam("b_lease"))
    query = update(delivery).where(held).values(lease=None, **{name: bindparam(f"b_{name}") for name in _ENDS})
    await transaction.execute(query, [{f"b_{name}": value for name, value in row.items()} for row in rows])


async def mark_endpoint_succeeded(transaction: Transaction, endpoint_id: str, now: float) -> None:
    """An endpoint accepted a delivery: reset its failures."""
    query = update(endpoint).where(endpoint.c.id == endpoint_id)
    await transaction.execute(query.values(failing_since=None, failures=0, last_error=None, last_success_at=now))


async def mark_endpoint_failed(transaction: Transaction, endpoint_id: str, failures: Failures) -> None:
    """Add failures of an endpoint. The start of the failures, and the longest requested pause, are kept."""
    held_until = failures.held_until
    held = select(func.max(endpoint.c.held_until)).where(
        endpoint.c.id == endpoint_id, endpoint.c.held_until > held_until
    )
    query = update(endpoint).where(endpoint.c.id == endpoint_id)
    await transaction.execute(
        query.values(
            failing_since=func.coalesce(endpoint.c.failing_since, failures.since),
            failures=endpoint.c.failures + failures.count,
            last_error=failures.error,
            held_until=func.coalesce(held.scalar_subquery(), held_until),
        )
    )


async def deliveries(connection: AsyncConnection, endpoint_id: str | None, state: str | None, limit: int) -> list[Any]:
    """Deliveries with their event's type and subject, newest first."""
    query = _select_deliveries().order_by(delivery.c.created_at.desc(), delivery.c.id).limit(limit)
    if endpoint_id is not None:
        query = query.where(delivery.c.endpoint_id == endpoint_id)
    if state is not None:
        query = query.where(delivery.c.state == state)
    return list(await connection.execute(query))


async def backlog(connection: AsyncConnection) -> list[Any]:
    """The number of deliveries of each endpoint in each state, and when the oldest was made."""
    made = func.min(delivery.c.created_at).label("oldest_at")
    query = select(delivery.c.endpoint_id, delivery.c.state, func.count().label("deliveries"), made)
    return list(await connection.execute(query.group_by(delivery.c.endpoint_id, delivery.c.state)))


async def delivery_by_id(connection: AsyncConnection, delivery_id: str) -> Any:
    """One delivery with its event's type and subject, or None."""
    return (await connection.execute(_select_deliveries().where(delivery.c.id == delivery_id))).one_or_none()


async def attempts_of(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, list[Any]]:
    """The recorded attempts of each of these deliveries, oldest first."""
    query = select(attempt).where(attempt.c.delivery_id.in_(ids)).order_by(attempt.c.delivery_id, attempt.c.number)
    attempts: dict[str, list[Any]] = {}
    for row in await connection.execute(query):
        attempts.setdefault(row.delivery_id, []).append(row)
    return attempts


async def replay(transaction: Transaction, delivery_id: str, now: float) -> None:
    """Deliver again from the first try, unless an attempt is in progress."""
    is_free = or_(delivery.c.lease.is_(None), delivery.c.due_at <= now)
    query = update(delivery).where(delivery.c.id == delivery_id, is_free)
    await transaction.execute(query.values(_reset(now)))


async def replay_parked(transaction: Transaction, endpoint_id: str, since: float, now: float) -> int:
    """Deliver again the parked deliveries made for the endpoint since then; their number."""
    parked = and_(delivery.c.endpoint_id == endpoint_id, delivery.c.state == "parked", delivery.c.created_at >= since)
    return int((await transaction.execute(update(delivery).where(parked).values(_reset(now)))).rowcount)


_ENDS = ("state", "due_at", "finished_at", "last_status", "last_error")


def _reset(now: float) -> dict[str, object]:
    return {"state": "pending", "tries": 0, "due_at": now, "finished_at": None, "lease": None}


def _select_deliveries() -> Any:
    return select(delivery, event.c.type, event.c.subject_id).join(event, event.c.id == delivery.c.event_id)
