"""Endpoints, and the outbox of what they are to be told, as rows. Moments are seconds since 1970."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Double, Index, Integer, LargeBinary, String, Table, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.storage.database import Transaction, metadata

endpoint = Table(
    "webhook_endpoint",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("service", String(16), nullable=False, index=True),
    Column("url", String(2000), nullable=False),
    Column("email", String(320), nullable=False),
    Column("types", String(1000), nullable=False),
    Column("secret", String(64), nullable=False),
    Column("former_secret", String(64)),
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
    """Keep a new endpoint."""
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
    """Alter an endpoint that is not removed; False when there is none."""
    query = update(endpoint).where(endpoint.c.id == endpoint_id, endpoint.c.removed_at.is_(None)).values(**values)
    return (await transaction.execute(query)).rowcount == 1


async def end_pending(transaction: Transaction, endpoint_id: str, state: str, reason: str, now: float) -> None:
    """Move what an endpoint was still to be told to another state; an attempt under way no longer counts."""
    query = update(delivery).where(delivery.c.endpoint_id == endpoint_id, delivery.c.state == "pending")
    await transaction.execute(query.values(state=state, last_error=reason, finished_at=now, lease=None))


async def receivers(connection: AsyncConnection, service: str, only: Collection[str] | None) -> list[Any]:
    """Id, types and disabled_at of the service's endpoints, or of those named."""
    query = select(endpoint.c.id, endpoint.c.types, endpoint.c.disabled_at)
    query = query.where(endpoint.c.service == service, endpoint.c.removed_at.is_(None))
    if only is not None:
        query = query.where(endpoint.c.id.in_(only))
    return list(await connection.execute(query.order_by(endpoint.c.created_at, endpoint.c.id)))


async def insert_events(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> set[str]:
    """Keep the events that are not there already; tells their ids."""
    query = insert(transaction, event).on_conflict_do_nothing(index_elements=["id"]).returning(event.c.id)
    return set((await transaction.execute(query, list(rows))).scalars())


async def known_events(connection: AsyncConnection, ids: Collection[str]) -> list[Any]:
    """Id, service and type of the events of these ids."""
    query = select(event.c.id, event.c.service, event.c.type).where(event.c.id.in_(ids))
    return list(await connection.execute(query))


async def insert_deliveries(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> None:
    """Keep what is to be delivered, once for each event and endpoint."""
    if rows:
        query = insert(transaction, delivery).on_conflict_do_nothing(index_elements=["event_id", "endpoint_id"])
        await transaction.execute(query, [{"tries": 0, "attempts": 0, **row} for row in rows])


async def forget_before(transaction: Transaction, moment: float) -> None:
    """Delete older events that nobody waits for, with all that was recorded of them, and endpoints removed before."""
    waiting = select(delivery.c.event_id).where(delivery.c.state == "pending")
    old = select(event.c.id).where(event.c.created_at < moment, event.c.id.not_in(waiting))
    deliveries = select(delivery.c.id).where(delivery.c.event_id.in_(old))
    await transaction.execute(attempt.delete().where(attempt.c.delivery_id.in_(deliveries)))
    await transaction.execute(delivery.delete().where(delivery.c.event_id.in_(old)))
    await transaction.execute(event.delete().where(event.c.created_at < moment, event.c.id.not_in(waiting)))
    await transaction.execute(endpoint.delete().where(endpoint.c.removed_at < moment))


def insert(transaction: Transaction, table: Table) -> Any:
    """An INSERT of the database's own kind: only those can be told what to do about rows that are there already."""
    dialect = sqlite if transaction.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)
