"""The table of alerts: rules, results and notifications. Times are seconds since 1970."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    Boolean,
    Column,
    Double,
    Integer,
    LargeBinary,
    String,
    Table,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)

from tollhouse.accounts.store import api_key
from tollhouse.services.defense.store import bump_revision, gdelt_slot, mark_removed, removed_at
from tollhouse.storage.database import Transaction, metadata
from tollhouse.webhooks.store import delivery, endpoint

alert = Table(
    "alert",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("key_id", String(32), nullable=False, index=True),
    Column("name", String(100), nullable=False),
    Column("version", Integer, nullable=False),
    Column("rule", LargeBinary, nullable=False),
    Column("endpoint_id", String(40), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("changed_at", Double, nullable=False),
    Column("stated_at", Double, nullable=False),
    Column("revision", Integer, nullable=False, index=True),
    Column("is_met", Boolean, nullable=False),
    Column("value", Double),
    Column("is_met_since", Double),
    Column("told_at", Double, key="notified_at"),
    Column("told_state", String(100), key="notified_state"),
)

ALERTS = "alerts"

_ENDPOINT = [
    endpoint.c[name]
    for name in ["url", "disabled_at", "disabled_reason", "failing_since", "failures", "last_error", "last_success_at"]
]


async def insert_alert(transaction: Transaction, **values: object) -> None:
    number = await bump_revision(transaction, ALERTS)
    await transaction.execute(alert.insert().values(is_met=False, revision=number, **values))


async def change_alert(transaction: Transaction, alert_id: str, **values: object) -> None:
    number = await bump_revision(transaction, ALERTS)
    await transaction.execute(update(alert).where(alert.c.id == alert_id).values(revision=number, **values))


async def delete_alert(transaction: Transaction, alert_id: str) -> None:
    await mark_removed(transaction, ALERTS, await bump_revision(transaction, ALERTS))
    await transaction.execute(delete(alert).where(alert.c.id == alert_id))


async def alerts_of_key(connection: Transaction, key_id: str, alert_id: str | None = None) -> list[Any]:
    """The key's alerts with their endpoint's URL and health, oldest first; with `alert_id`, only that one."""
    query = (
        select(alert, *_ENDPOINT)
        .join(endpoint, endpoint.c.id == alert.c.endpoint_id)
        .where(alert.c.key_id == key_id)
        .order_by(alert.c.created_at, alert.c.id)
    )
    if alert_id is not None:
        query = query.where(alert.c.id == alert_id)
    return list(await connection.execute(query))


async def parked_counts(connection: Transaction, endpoint_ids: Collection[str]) -> dict[str, int]:
    """The number of parked deliveries of each of these endpoints that has any."""
    query = (
        select(delivery.c.endpoint_id, func.count())
        .where(delivery.c.endpoint_id.in_(endpoint_ids), delivery.c.state == "parked")
        .group_by(delivery.c.endpoint_id)
    )
    return {endpoint_id: int(number) for endpoint_id, number in await connection.execute(query)}


async def count_alerts(connection: Transaction, key_id: str) -> int:
    query = select(func.count()).where(alert.c.key_id == key_id)
    return int((await connection.execute(query)).scalar_one())


async def changed_since(connection: Transaction, number: int) -> list[Any]:
    """The alerts that were created or changed after that revision."""
    return list(await connection.execute(select(alert).where(alert.c.revision > number)))


async def ids_if_removed(connection: Transaction, number: int) -> set[str] | None:
    """The ids of all alerts if any was deleted after that revision, else None."""
    if await removed_at(connection, ALERTS) <= number:
        return None
    return set((await connection.execute(select(alert.c.id))).scalars())


async def write_results(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> None:
    """Store results, each with the members b_id, b_version, b_is_met, b_value and b_since.

    The result of a later version is left as it is.
    """
    query = (
        update(alert)
        .where(alert.c.id == bindparam("b_id"), alert.c.version == bindparam("b_version"))
        .values(is_met=bindparam("b_is_met"), value=bindparam("b_value"), is_met_since=bindparam("b_since"))
    )
    if rows:
        await transaction.execute(query, list(rows))


class Claim(Struct, frozen=True):
    """A notification at `at` of a version's window state, allowed if the last one was not after `not_after`."""

    id: str
    version: int
    window_state: str
    at: float
    not_after: float


async def claim_notification(transaction: Transaction, claim: Claim) -> bool:
    """Record the notification. False if it was recorded before, a cooldown runs, or the alert has changed."""
    query = update(alert).where(
        alert.c.id == claim.id,
        alert.c.version == claim.version,
        or_(alert.c.notified_state.is_(None), alert.c.notified_state != claim.window_state),
        or_(alert.c.notified_at.is_(None), alert.c.notified_at <= claim.not_after),
    )
    result = await transaction.execute(query.values(notified_at=claim.at, notified_state=claim.window_state))
    return result.rowcount == 1


async def notifications(connection: Transaction, ids: Collection[str]) -> dict[str, Any]:
    """The last notification of each of these alerts, as the columns notified_at and notified_state."""
    query = select(alert.c.id, alert.c.notified_at, alert.c.notified_state).where(alert.c.id.in_(ids))
    return {row.id: row for row in await connection.execute(query)}


async def entitled(connection: Transaction, ids: Collection[str], plans: Collection[str]) -> set[str]:
    """Of these alerts, those whose key is active and on one of these plans."""
    query = (
        select(alert.c.id)
        .join(api_key, api_key.c.id == alert.c.key_id)
        .where(alert.c.id.in_(ids), api_key.c.tier.in_(plans), api_key.c.revoked_at.is_(None))
    )
    return set((await connection.execute(query)).scalars())


async def slots_after(connection: Transaction, pool: str, after: str) -> list[str]:
    """The slots of a pool after that moment, oldest first."""
    query = select(gdelt_slot.c.slot).where(gdelt_slot.c.pool == pool, gdelt_slot.c.slot > after)
    return list((await connection.execute(query.order_by(gdelt_slot.c.slot))).scalars())
