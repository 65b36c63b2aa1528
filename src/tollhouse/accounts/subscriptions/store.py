"""Who pays for which key, and which events were heard, as rows. Moments are seconds since 1970."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Boolean, Column, Double, Integer, String, Table, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.storage.database import Transaction, metadata

account = Table(
    "checkout_account",
    metadata,
    Column("key_id", String(32), primary_key=True),
    Column("customer_id", String(255), unique=True),
    Column("customer_tries", Integer, nullable=False),
    Column("session_id", String(255)),
    Column("session_price", String(255)),
    Column("session_expires_at", Double),
    Column("sessions", Integer, nullable=False),
    Column("looks", Integer, nullable=False),
    Column("look_applied", Integer, nullable=False),
    Column("look_again_at", Double, index=True),
    Column("tier_given", String(16), nullable=False),
    Column("subscription_id", String(255)),
    Column("subscription_status", String(32)),
    Column("price_id", String(255)),
    Column("cancels_at_period_end", Boolean, nullable=False),
    Column("period_ends_at", Double),
)

event = Table(
    "checkout_event",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("type", String(100), nullable=False),
    Column("created", Double, nullable=False),
    Column("heard_at", Double, nullable=False, index=True),
)

_NEW = {
    "customer_tries": 0,
    "sessions": 0,
    "looks": 0,
    "look_applied": 0,
    "tier_given": "free",
    "cancels_at_period_end": False,
}


async def open_account(transaction: Transaction, key_id: str) -> tuple[Any, bool]:
    """The account of this key, made where there is none; and whether it was made now."""
    query = _insert(transaction, account).values(key_id=key_id, **_NEW).on_conflict_do_nothing()
    is_new = (await transaction.execute(query)).rowcount == 1
    return await account_of_key(transaction, key_id), is_new


async def account_of_key(connection: AsyncConnection, key_id: str) -> Any:
    """The account of this key, or None."""
    return (await connection.execute(select(account).where(account.c.key_id == key_id))).one_or_none()


async def key_of_customer(connection: AsyncConnection, customer_id: str) -> str | None:
    """The key that this customer pays for."""
    query = select(account.c.key_id).where(account.c.customer_id == customer_id)
    return (await connection.execute(query)).scalar_one_or_none()


async def change_account(transaction: Transaction, key_id: str, **values: object) -> None:
    """Alter an account."""
    await transaction.execute(update(account).where(account.c.key_id == key_id).values(**values))


async def name_customer(transaction: Transaction, key_id: str, former: str | None, customer_id: str) -> None:
    """Keep the customer of a key, unless somebody else has replaced the former one already."""
    is_unchanged = account.c.customer_id.is_(None) if former is None else account.c.customer_id == former
    query = update(account).where(account.c.key_id == key_id, is_unchanged).values(customer_id=customer_id)
    await transaction.execute(query)


async def another_customer_try(transaction: Transaction, key_id: str, tries: int) -> None:
    """The try of this number is known to have failed: the next one is another."""
    query = update(account).where(account.c.key_id == key_id, account.c.customer_tries == tries)
    await transaction.execute(query.values(customer_tries=tries + 1))


async def next_session(transaction: Transaction, key_id: str, sessions: int, **values: object) -> None:
    """Count a session, unless it was counted already; `values` tell what is kept of it."""
    query = update(account).where(account.c.key_id == key_id, account.c.sessions == sessions)
    await transaction.execute(query.values(sessions=sessions + 1, **values))


async def begin_look(transaction: Transaction, key_id: str) -> Any:
    """Number a look at the provider; the account's row with that number as `looks`."""
    query = update(account).where(account.c.key_id == key_id).values(looks=account.c.looks + 1)
    return (await transaction.execute(query.returning(*account.c))).one()


async def due_for_a_look(connection: AsyncConnection, moment: float) -> list[str]:
    """The keys whose subscription should be looked at again by this moment, the longest due first."""
    query = select(account.c.key_id).where(account.c.look_again_at <= moment).order_by(account.c.look_again_at)
    return list((await connection.execute(query)).scalars())


async def heard_among(connection: AsyncConnection, event_ids: Collection[str]) -> set[str]:
    """Those of the events that were heard before: all that they ask for was done."""
    return set((await connection.execute(select(event.c.id).where(event.c.id.in_(event_ids)))).scalars())


async def keep_event(transaction: Transaction, **values: object) -> None:
    """Remember that an event was heard."""
    await transaction.execute(_insert(transaction, event).values(**values).on_conflict_do_nothing())


async def forget_events(transaction: Transaction, before: float) -> None:
    """Forget the events heard before this moment."""
    await transaction.execute(event.delete().where(event.c.heard_at < before))


def _insert(transaction: Transaction, table: Table) -> Any:
    """An INSERT of the database's own kind: only those can be told what to do about rows that are there already."""
    return (sqlite if transaction.dialect.name == "sqlite" else postgresql).insert(table)
