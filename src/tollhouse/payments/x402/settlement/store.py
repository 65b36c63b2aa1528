"""What gas cost each UTC day, and the payers whose transaction failed, as rows. Times are seconds since 1970."""

from typing import Any

from sqlalchemy import BigInteger, Column, Double, Index, Integer, String, Table, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.storage.database import Transaction, insert, metadata

FIRST_REFUSAL_SECONDS = 86_400
MAX_REFUSAL_SECONDS = 30 * 86_400
MAX_REFUSED = 10_000

gas_day = Table(
    "x402_gas_day",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("spent_nanos", BigInteger, nullable=False),
)

refused = Table(
    "x402_refused",
    metadata,
    # A payer's address, or the hash of a wallet's code: lower-case hex with 0x.
    Column("subject", String(66), primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("failed_at", Double, nullable=False),
    Column("refused_until", Double, nullable=False),
    Index("x402_refused_failed", "failed_at"),
)


async def spent(connection: AsyncConnection, day: str) -> int:
    """What gas cost on that day (`2026-11-22`), in nano-USD."""
    return int(await connection.scalar(select(gas_day.c.spent_nanos).where(gas_day.c.day == day)) or 0)


async def add_spent(transaction: Transaction, day: str, nanos: int) -> int:
    """Add to what gas cost on that day; the sum."""
    query = insert(transaction, gas_day).values(day=day, spent_nanos=max(0, nanos))
    summed = query.on_conflict_do_update(
        index_elements=["day"], set_={"spent_nanos": gas_day.c.spent_nanos + nanos}
    ).returning(gas_day.c.spent_nanos)
    return int((await transaction.execute(summed)).scalar_one())


async def refusals(connection: AsyncConnection, since: float) -> list[Any]:
    """The refusals stored since then, the newest first."""
    query = select(refused).where(refused.c.failed_at >= since).order_by(refused.c.failed_at.desc())
    return list(await connection.execute(query.limit(MAX_REFUSED)))


async def refuse(transaction: Transaction, subject: str, now: float) -> float:
    """Refuse a payer or a wallet's code for a day, and for twice as long each time; the end of it."""
    failures: int = await transaction.scalar(select(refused.c.failures).where(refused.c.subject == subject)) or 0
    until = now + float(min(FIRST_REFUSAL_SECONDS * 2**failures, MAX_REFUSAL_SECONDS))
    values = {"failures": failures + 1, "failed_at": now, "refused_until": until}
    query = insert(transaction, refused).values(subject=subject, **values)
    await transaction.execute(query.on_conflict_do_update(index_elements=["subject"], set_=values))
    return until


async def delete_old_refusals(transaction: Transaction, now: float) -> None:
    """Forget payers that have behaved since; of very many, keep the newest."""
    await transaction.execute(delete(refused).where(refused.c.refused_until < now - MAX_REFUSAL_SECONDS))
    oldest = select(refused.c.failed_at).order_by(refused.c.failed_at.desc()).offset(MAX_REFUSED).limit(1)
    await transaction.execute(delete(refused).where(refused.c.failed_at <= oldest.scalar_subquery()))
