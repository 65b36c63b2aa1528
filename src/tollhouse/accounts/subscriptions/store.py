"""Database tables of the checkout: which customer pays for which key, and which events were processed.

Times are Unix timestamps in seconds.
"""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct
from sqlalchemy import Boolean, Column, Double, Index, Integer, String, Table, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.storage.database import Transaction, insert, metadata

account = Table(
    "checkout_account",
    metadata,
    Column("key_id", String(32), primary_key=True),
    Column("customer_id", String(255), unique=True),
    Column("customer_tries", Integer, key="customer_attempts", nullable=False),
    Column("session_id", String(255)),
    Column("session_price", String(255), key="session_price_id"),
    Column("session_expires_at", Double),
    Column("sessions", Integer, key="session_attempts", nullable=False),
    Column("looks", Integer, key="syncs_started", nullable=False),
    Column("look_applied", Integer, key="last_applied_sync", nullable=False),
    Column("look_again_at", Double, key="next_sync_at"),
    Column("tier_given", String(16), key="applied_tier", nullable=False),
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
    Column("heard_at", Double, key="processed_at", nullable=False),
)

# The database keeps the names of its first schema.
Index("ix_checkout_account_look_again_at", account.c.next_sync_at)
Index("ix_checkout_event_heard_at", event.c.processed_at)


class Account(Struct, frozen=True):
    """One key's account at Stripe: its customer, its open checkout session and the subscription that pays for it."""

    key_id: str
    applied_tier: str
    customer_id: str | None = None
    customer_attempts: int = 0
    session_id: str | None = None
    session_price_id: str | None = None
    session_expires_at: float | None = None
    session_attempts: int = 0
    syncs_started: int = 0
    last_applied_sync: int = 0
    next_sync_at: float | None = None
    subscription_id: str | None = None
    subscription_status: str | None = None
    price_id: str | None = None
    cancels_at_period_end: bool = False
    period_ends_at: float | None = None


async def get_or_create_account(transaction: Transaction, key_id: str, default_plan: str) -> tuple[Account, bool]:
    """The account of this key, and whether it was created by this call."""
    new = Account(key_id, default_plan)
    values = {name: getattr(new, name) for name in new.__struct_fields__}
    result = await transaction.execute(insert(transaction, account).values(**values).on_conflict_do_nothing())
    return await get_account(transaction, key_id), result.rowcount == 1


async def find_account(connection: AsyncConnection, key_id: str) -> Account | None:
    """The account of this key, or None."""
    row = (await connection.execute(select(account).where(account.c.key_id == key_id))).one_or_none()
    # SQLAlchemy's `_mapping` is public: a row's members are attributes.
    return None if row is None else Account(**{column.key: row._mapping[column] for column in account.c})  # noqa: SLF001


async def get_account(connection: AsyncConnection, key_id: str) -> Account:
    """The account of this key, which exists."""
    known = await find_account(connection, key_id)
    assert known is not None, "an account that is not there"
    return known


async def key_of_customer(connection: AsyncConnection, customer_id: str) -> str | None:
    """The id of the key this customer pays for."""
    query = select(account.c.key_id).where(account.c.customer_id == customer_id)
    return (await connection.execute(query)).scalar_one_or_none()


async def update_account(
    transaction: Transaction, key_id: str, values: Mapping[str, object], expected: Mapping[str, object] | None = None
) -> None:
    """Set columns of an account, if other columns still have the `expected` values."""
    unchanged = [account.c[name].is_not_distinct_from(value) for name, value in (expected or {}).items()]
    await transaction.execute(update(account).where(account.c.key_id == key_id, *unchanged).values(**values))


async def start_sync(transaction: Transaction, key_id: str) -> Account:
    """Number a new sync; the account with that number as `syncs_started`."""
    number = {account.c.syncs_started: account.c.syncs_started + 1}
    await transaction.execute(update(account).where(account.c.key_id == key_id).values(number))
    return await get_account(transaction, key_id)


async def due_keys(connection: AsyncConnection, now: float) -> list[str]:
    """The ids of keys whose subscription is due for a sync, the longest due first."""
    query = select(account.c.key_id).where(account.c.next_sync_at <= now).order_by(account.c.next_sync_at)
    return list((await connection.execute(query)).scalars())


async def subscriptions_by_plan(connection: AsyncConnection) -> list[Any]:
    """Plan, status and number of the subscriptions at Stripe that have not ended."""
    columns = (account.c.applied_tier.label("plan"), account.c.subscription_status.label("status"))
    query = select(*columns, func.count().label("subscriptions")).where(
        account.c.subscription_id.is_not(None), account.c.subscription_status.not_in(("canceled", "incomplete_expired"))
    )
    return list(await connection.execute(query.group_by(*columns).order_by(*columns)))


async def processed_events(connection: AsyncConnection, event_ids: Collection[str]) -> set[str]:
    """Those of the events that were processed completely."""
    return set((await connection.execute(select(event.c.id).where(event.c.id.in_(event_ids)))).scalars())


async def insert_event(transaction: Transaction, **values: object) -> None:
    await transaction.execute(insert(transaction, event).values(**values).on_conflict_do_nothing())


async def delete_events(transaction: Transaction, before: float) -> None:
    """Delete the events processed before this time."""
    await transaction.execute(event.delete().where(event.c.processed_at < before))
