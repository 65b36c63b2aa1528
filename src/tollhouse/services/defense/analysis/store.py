"""Saved analysis queries as rows."""

from typing import Any

from sqlalchemy import Column, Double, LargeBinary, String, Table, delete, func, select

from tollhouse.storage.database import Transaction, metadata

analysis_query = Table(
    "analysis_query",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("key_id", String(32), nullable=False, index=True),
    Column("name", String(100), nullable=False),
    Column("query", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
)


async def insert_query(transaction: Transaction, **values: object) -> None:
    await transaction.execute(analysis_query.insert().values(**values))


async def queries_of_key(connection: Transaction, key_id: str) -> list[Any]:
    """The key's queries, oldest first."""
    query = select(analysis_query).where(analysis_query.c.key_id == key_id)
    return list(await connection.execute(query.order_by(analysis_query.c.created_at, analysis_query.c.id)))


async def query_by_id(connection: Transaction, key_id: str, query_id: str) -> Any:
    query = select(analysis_query).where(analysis_query.c.key_id == key_id, analysis_query.c.id == query_id)
    return (await connection.execute(query)).one_or_none()


async def count_queries(connection: Transaction, key_id: str) -> int:
    query = select(func.count()).where(analysis_query.c.key_id == key_id)
    return int((await connection.execute(query)).scalar_one())


async def delete_query(transaction: Transaction, key_id: str, query_id: str) -> bool:
    """Delete a query; False when there was none."""
    query = delete(analysis_query).where(analysis_query.c.key_id == key_id, analysis_query.c.id == query_id)
    return (await transaction.execute(query)).rowcount == 1
