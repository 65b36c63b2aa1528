"""Webhook endpoints, events, deliveries and attempts as rows. Times are seconds since 1970."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    LargeBinary,
    Select,
    String,
    Table,
    and_,
    any_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
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
    # When a delivery is due next, as far as is known: never later than it is. Null: none is pending.
    Column("next_due_at", Double, server_default="0"),
    # Failed or slow at the last attempt.
    Column("is_suspect", Integer, nullable=False, server_default="0"),
    Index("webhook_endpoint_due", "is_suspect", "next_due_at"),
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
    # The only endpoint it is for.
    Column("endpoint_id", String(40)),
    # The endpoints up to this id have their deliveries; null: all of them have.
    Column("fan_out_after", String(40)),
    Index("webhook_event_fan_out", "created_at", "id",
          postgresql_where=text("fan_out_after IS NOT NULL"), sqlite_where=text("fan_out_after IS NOT NULL")),
)  # fmt: skip

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
    Index("webhook_delivery_made", "endpoint_id", "state", "created_at"),
    Index("webhook_delivery_pending", "endpoint_id", "due_at", "id",
          postgresql_where=text("state = 'pending'"), sqlite_where=text("state = 'pending'")),
    Index("webhook_delivery_leased", "endpoint_id",
          postgresql_where=text("lease IS NOT NULL"), sqlite_where=text("lease IS NOT NULL")),
    Index("webhook_delivery_created", "created_at"),
)  # fmt: skip
# Triggers of the database count.
counted = Table(
    "webhook_backlog",
    metadata,
    Column("endpoint_id", String(40), primary_key=True),
    Column("state", String(10), primary_key=True),
    Column("deliveries", BigInteger, nullable=False),
)
# A literal, not a parameter: only then does the database know that the partial index answers.
_PENDING = text("webhook_delivery.state = 'pending'")

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
    await transaction.execute(endpoint.insert().values(failures=0, held_until=0.0, next_due_at=None, **values))


async def endpoint_by_id(connection: AsyncConnection, endpoint_id: str) -> Any:
    """The row of an endpoint that is not removed, or None."""
    query = select(endpoint).where(endpoint.c.id == endpoint_id, endpoint.c.removed_at.is_(None))
    return (await connection.execute(query)).one_or_none()


async def all_endpoints(connection: AsyncConnection) -> list[Any]:
    """Every endpoint that is not removed, oldest first."""
    query = select(endpoint).where(endpoint.c.removed_at.is_(None)).order_by(endpoint.c.created_at, endpoint.c.id)
    return list(await connection.execute(query))


async def endpoints_in_clear(connection: AsyncConnection, prefix: str) -> list[Any]:
    """The endpoints with a secret that does not begin like an encrypted one."""
    clear = [and_(secret != "", ~secret.startswith(prefix)) for secret in (endpoint.c.secret, endpoint.c.former_secret)]
    return list(await connection.execute(select(endpoint).where(endpoint.c.removed_at.is_(None), or_(*clear))))


async def change_endpoint(transaction: Transaction, endpoint_id: str, **values: object) -> bool:
    """Update an endpoint that is not removed; False if there is none."""
    query = update(endpoint).where(endpoint.c.id == endpoint_id, endpoint.c.removed_at.is_(None)).values(**values)
    return (await transaction.execute(query)).rowcount == 1


async def end_pending(transaction: Transaction, endpoint_id: str, state: str, reason: str, now: float) -> None:
    """Set the state of an endpoint's pending deliveries; an attempt in progress no longer counts."""
    await lock_endpoints(transaction, [endpoint_id])
    query = update(delivery).where(delivery.c.endpoint_id == endpoint_id, _PENDING)
    await transaction.execute(query.values(state=state, last_error=reason, finished_at=now, lease=None))
    await change_endpoint(transaction, endpoint_id, next_due_at=None)


async def receivers(
    connection: AsyncConnection, service: str, only: Collection[str] | None = None, after: str = "", limit: int = 1
) -> list[Any]:
    """Id, types, created_at and disabled_at of the endpoints given, or of the service's next ones by id."""
    query = select(endpoint.c.id, endpoint.c.types, endpoint.c.created_at, endpoint.c.disabled_at)
    query = query.where(endpoint.c.service == service, endpoint.c.removed_at.is_(None))
    if only is not None:
        query = query.where(_among(connection, endpoint.c.id, only))
    else:
        query = query.where(endpoint.c.id > after).limit(limit)
    return list(await connection.execute(query.order_by(endpoint.c.id)))


async def insert_events(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> set[str]:
    """Store the events that are new; their ids."""
    query = insert(transaction, event).on_conflict_do_nothing(index_elements=["id"]).returning(event.c.id)
    return set((await transaction.execute(query, list(rows))).scalars())


async def known_events(connection: AsyncConnection, ids: Collection[str]) -> list[Any]:
    """Id, service and type of the events with these ids."""
    query = select(event.c.id, event.c.service, event.c.type).where(_among(connection, event.c.id, ids))
    return list(await connection.execute(query))


async def insert_deliveries(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> None:
    """Store deliveries, once for each event and endpoint."""
    if rows:
        query = insert(transaction, delivery).on_conflict_do_nothing(index_elements=["event_id", "endpoint_id"])
        await transaction.execute(query, [{"tries": 0, "attempts": 0, **row} for row in rows])


async def to_fan_out(transaction: Transaction, limit: int, event_id: str = "") -> list[Any]:
    """The oldest events, or that one, not handed to all endpoints yet, but for those another process works on."""
    query = select(event.c.id, event.c.service, event.c.type, event.c.created_at, event.c.endpoint_id)
    query = query.add_columns(event.c.fan_out_after).where(event.c.fan_out_after.is_not(None))
    query = query.where(event.c.id == event_id) if event_id else query
    query = query.order_by(event.c.created_at, event.c.id).limit(limit).with_for_update(skip_locked=True)
    return list(await transaction.execute(query))


async def move_fan_out(transaction: Transaction, ids: Collection[str], after: str | None) -> None:
    """The endpoints up to this one have their deliveries of these events; None: all have."""
    await transaction.execute(update(event).where(_among(transaction, event.c.id, ids)).values(fan_out_after=after))


async def delete_some_before(transaction: Transaction, moment: float, limit: int = 500) -> bool:
    """Delete some older events that no delivery waits for, with their records; whether there may be more.

    At most `limit` events, or `limit` deliveries.
    """
    waits = exists().where(delivery.c.event_id == event.c.id, _PENDING)
    old = select(event.c.id).where(event.c.created_at < moment, event.c.fan_out_after.is_(None), ~waits)
    events = list(await transaction.scalars(old.order_by(event.c.created_at).limit(limit)))
    if not events:
        return False
    query = select(delivery.c.id, delivery.c.endpoint_id).where(_among(transaction, delivery.c.event_id, events))
    rows = (await transaction.execute(query.limit(limit))).all()
    deliveries = [row.id for row in rows]
    if deliveries:
        await lock_endpoints(transaction, {row.endpoint_id for row in rows})
        await transaction.execute(attempt.delete().where(_among(transaction, attempt.c.delivery_id, deliveries)))
        await transaction.execute(delivery.delete().where(_among(transaction, delivery.c.id, deliveries)))
    if len(deliveries) < limit:
        await transaction.execute(event.delete().where(_among(transaction, event.c.id, events)))
    return len(deliveries) == limit or len(events) == limit


async def delete_removed_endpoints(transaction: Transaction, moment: float) -> None:
    """Delete the endpoints that were removed before that time."""
    removed = select(endpoint.c.id).where(endpoint.c.removed_at < moment)
    await transaction.execute(counted.delete().where(counted.c.endpoint_id.in_(removed), counted.c.deliveries == 0))
    await transaction.execute(endpoint.delete().where(endpoint.c.removed_at < moment))


State = Literal["pending", "delivered", "parked", "cancelled"]

ATTEMPTS_KEPT = 20


class Failures(Struct):
    """Failures of an endpoint: count, since when, the last error, and how long it asked to be left alone."""

    count: int = 0
    since: float = 0.0
    error: str | None = None
    held_until: float = 0.0


async def has_work(connection: AsyncConnection, now: float) -> bool:
    """Whether a delivery may be due, or an event is to be handed to its endpoints."""
    return any((await connection.execute(work_query(now))).one())


def work_query(now: float) -> Select[Any]:
    """Whether an event waits, and whether an endpoint is due. Each looks at the first row of an index."""
    waiting = select(event.c.id).where(event.c.fan_out_after.is_not(None)).order_by(event.c.created_at).limit(1)
    checks: list[ColumnElement[Any]] = [waiting.exists()]
    for is_suspect in (0, 1):
        # In the order of the index, which the planner might not use for an EXISTS alone.
        first = select(endpoint.c.next_due_at).where(endpoint.c.is_suspect == is_suspect, _IS_ACTIVE)
        first = first.where(endpoint.c.next_due_at.is_not(None)).order_by(endpoint.c.next_due_at).limit(1)
        checks.append(first.scalar_subquery() <= now)
    return select(*checks)


async def take_endpoints(transaction: Transaction, now: float, *, is_suspect: bool, limit: int) -> list[Any]:
    """The endpoints with due deliveries, the longest unserved first, but for those another process works on.

    Nothing of theirs changes until the transaction ends.
    """
    query = select(endpoint).where(endpoint.c.is_suspect == int(is_suspect), endpoint.c.next_due_at <= now)
    query = query.where(endpoint.c.held_until <= now, _IS_ACTIVE)
    query = query.order_by(endpoint.c.next_due_at, endpoint.c.id).limit(limit).with_for_update(skip_locked=True)
    return list(await transaction.execute(query))


async def lock_endpoints(transaction: Transaction, ids: Collection[str]) -> None:
    """Let nothing of these endpoints change until the transaction ends. Endpoints come before deliveries everywhere."""
    if transaction.dialect.name == "sqlite":
        return
    query = select(endpoint.c.id).where(_among(transaction, endpoint.c.id, ids)).order_by(endpoint.c.id)
    await transaction.execute(query.with_for_update())


async def in_flight(connection: AsyncConnection, ids: Collection[str], now: float) -> dict[str, int]:
    """The number of deliveries of each endpoint that a process is sending."""
    query = select(delivery.c.endpoint_id, func.count().label("deliveries")).where(
        _among(connection, delivery.c.endpoint_id, ids), delivery.c.lease.is_not(None), delivery.c.due_at > now
    )
    return {row.endpoint_id: row.deliveries for row in await connection.execute(query.group_by(delivery.c.endpoint_id))}


async def take(
    transaction: Transaction, shares: Mapping[str, int], now: float, lease: str, lease_until: float
) -> list[Any]:
    """Take this many due deliveries of each endpoint, which must be locked, the oldest first, with their bodies.

    Until its lease expires, no other process takes a delivery. A try counts when it starts, so that one that crashes
    the process is not repeated forever.
    """
    due = and_(_PENDING, delivery.c.due_at <= now)
    oldest = select(delivery.c.id).order_by(delivery.c.due_at, delivery.c.id)
    ids: list[str] = []
    if transaction.dialect.name == "sqlite":
        for endpoint_id, number in shares.items():
            ids += await transaction.scalars(oldest.where(delivery.c.endpoint_id == endpoint_id, due).limit(number))
    else:
        names, numbers = bindparam("ids", [*shares], ARRAY(String)), bindparam("shares", [*shares.values()], _INTEGERS)
        share = func.unnest(names, numbers).table_valued("endpoint_id", "share", name="share").render_derived()
        some = oldest.where(delivery.c.endpoint_id == share.c.endpoint_id, due).limit(share.c.share).lateral()
        ids += await transaction.scalars(select(some.c.id).select_from(share.join(some, true())))
    counted = {"tries": delivery.c.tries + 1, "attempts": delivery.c.attempts + 1}
    query = update(delivery).where(_among(transaction, delivery.c.id, ids))
    await transaction.execute(query.values(lease=lease, due_at=lease_until, **counted))
    needed = select(delivery, event.c.body).join(event, event.c.id == delivery.c.event_id)
    return list(await transaction.execute(needed.where(_among(transaction, delivery.c.id, ids))))


async def schedule(transaction: Transaction, ids: Collection[str], now: float) -> None:
    """Set when each of these endpoints, which must be locked, has something due next; at `now` if it has already.

    So it goes behind those that wait for longer.
    """
    pending = select(func.min(delivery.c.due_at)).where(delivery.c.endpoint_id == endpoint.c.id, _PENDING)
    due_at = pending.correlate(endpoint).scalar_subquery()
    earliest = case((endpoint.c.held_until > now, endpoint.c.held_until), else_=now)
    query = update(endpoint).where(_among(transaction, endpoint.c.id, ids), _IS_ACTIVE)
    await transaction.execute(query.values(next_due_at=case((due_at < earliest, earliest), else_=due_at)))


async def postpone(transaction: Transaction, ids: Collection[str], until: float) -> None:
    """Look at these endpoints again when one of their attempts has ended, or at that time."""
    await transaction.execute(update(endpoint).where(_among(transaction, endpoint.c.id, ids)).values(next_due_at=until))


async def wake(transaction: Transaction, ids: Collection[str], now: float) -> None:
    """Something of these endpoints, which must be locked, is due now."""
    due_at = case((endpoint.c.held_until > now, endpoint.c.held_until), else_=now)
    is_later = or_(endpoint.c.next_due_at.is_(None), endpoint.c.next_due_at > due_at)
    query = update(endpoint).where(_among(transaction, endpoint.c.id, ids), is_later, _IS_ACTIVE)
    await transaction.execute(query.values(next_due_at=due_at))


async def wake_overdue(transaction: Transaction, now: float) -> None:
    """Wake the endpoints with due deliveries of which a server of an earlier version has not said so."""
    overdue = exists().where(
        delivery.c.endpoint_id == endpoint.c.id, _PENDING, delivery.c.due_at <= now, delivery.c.lease.is_(None)
    )
    is_later = or_(endpoint.c.next_due_at.is_(None), endpoint.c.next_due_at > now)
    query = select(endpoint.c.id).where(_IS_ACTIVE, endpoint.c.held_until <= now, is_later, overdue)
    if ids := list(await transaction.scalars(query)):
        await lock_endpoints(transaction, ids)
        await wake(transaction, ids, now)


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
    """Store the result of each delivery that is still held under `lease`."""
    columns = {name: delivery.c[name] for name in ("id", "lease", *_ENDS)}
    if transaction.dialect.name == "sqlite":
        held = and_(delivery.c.id == bindparam("b_id"), delivery.c.lease == bindparam("b_lease"))
        values: dict[str, Any] = {name: bindparam(f"b_{name}") for name in _ENDS}
        query = update(delivery).where(held).values(lease=None, **values)
        await transaction.execute(query, [{f"b_{name}": value for name, value in row.items()} for row in rows])
        return
    # One statement: a thousandth of the round trips, and a quarter of the time.
    arrays = [
        bindparam(f"each_{name}", [row[name] for row in rows], ARRAY(column.type)) for name, column in columns.items()
    ]
    ended = func.unnest(*arrays).table_valued(*columns, name="ended").render_derived()
    held = and_(delivery.c.id == ended.c.id, delivery.c.lease == ended.c.lease)
    await transaction.execute(
        update(delivery).where(held).values(lease=None, **{name: ended.c[name] for name in _ENDS})
    )


async def mark_succeeded(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> None:
    """These endpoints (`b_id`) accepted a delivery at `b_at`: reset their failures. `b_slow`: it took long."""
    query = update(endpoint).where(endpoint.c.id == bindparam("b_id"))
    query = query.values(failing_since=None, failures=0, last_error=None)
    if rows:
        query = query.values(last_success_at=bindparam("b_at"), is_suspect=bindparam("b_slow"))
        await transaction.execute(query, list(rows))


async def mark_endpoint_failed(transaction: Transaction, endpoint_id: str, failures: Failures) -> None:
    """Add failures of an endpoint. The start of the failures, and the longest requested pause, are kept."""
    until = failures.held_until
    query = update(endpoint).where(endpoint.c.id == endpoint_id)
    await transaction.execute(
        query.values(
            failing_since=func.coalesce(endpoint.c.failing_since, failures.since),
            failures=endpoint.c.failures + failures.count,
            last_error=failures.error,
            is_suspect=1,
            held_until=case((endpoint.c.held_until > until, endpoint.c.held_until), else_=until),
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
    is_of = and_(delivery.c.endpoint_id == counted.c.endpoint_id, delivery.c.state == counted.c.state)
    oldest = select(func.min(delivery.c.created_at)).where(is_of).correlate(counted).scalar_subquery()
    return list(await connection.execute(select(counted, oldest.label("oldest_at")).where(counted.c.deliveries > 0)))


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


async def replay(transaction: Transaction, delivery_id: str, endpoint_id: str, now: float) -> None:
    """Deliver again from the first try, unless an attempt is in progress."""
    await lock_endpoints(transaction, [endpoint_id])
    is_free = or_(delivery.c.lease.is_(None), delivery.c.due_at <= now)
    query = update(delivery).where(delivery.c.id == delivery_id, is_free)
    await transaction.execute(query.values(_reset(now)))
    await wake(transaction, [endpoint_id], now)


async def replay_parked(transaction: Transaction, endpoint_id: str, since: float, now: float) -> int:
    """Deliver again the parked deliveries made for the endpoint since then; their number."""
    await lock_endpoints(transaction, [endpoint_id])
    parked = and_(delivery.c.endpoint_id == endpoint_id, delivery.c.state == "parked", delivery.c.created_at >= since)
    number = int((await transaction.execute(update(delivery).where(parked).values(_reset(now)))).rowcount)
    await wake(transaction, [endpoint_id], now)
    return number


_INTEGERS = ARRAY(Integer)
_IS_ACTIVE = and_(endpoint.c.removed_at.is_(None), endpoint.c.disabled_at.is_(None))
_ENDS = ("state", "due_at", "finished_at", "last_status", "last_error")


def _reset(now: float) -> dict[str, object]:
    return {"state": "pending", "tries": 0, "due_at": now, "finished_at": None, "lease": None}


def _select_deliveries() -> Any:
    return select(delivery, event.c.type, event.c.subject_id).join(event, event.c.id == delivery.c.event_id)


def _among(connection: AsyncConnection, column: Column[Any], values: Collection[str]) -> Any:
    """Whether a column has one of these values: on PostgreSQL one statement, however many they are."""
    if connection.dialect.name == "sqlite":
        return column.in_(values)
    return column == any_(bindparam(None, list(values), ARRAY(String)))
