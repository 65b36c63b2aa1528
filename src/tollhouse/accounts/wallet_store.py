"""The registered wallets as rows: one agent for each address, for good."""

from typing import Any

from sqlalchemy import Column, String, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.storage.database import metadata

agent = Table(
    "agent",
    metadata,
    Column("id", String(32), primary_key=True),
    # Checksummed, so that each wallet has one spelling.
    Column("wallet_address", String(42), nullable=False, unique=True),
    Column("label", String(100)),
    Column("email", String(320)),
    Column("created_at", String(20), nullable=False),
)


async def insert_agent(connection: AsyncConnection, **values: object) -> None:
    """Keep a new agent."""
    await connection.execute(agent.insert().values(**values))


async def agent_by_wallet(connection: AsyncConnection, wallet_address: str) -> Any:
    """The row of the agent with this checksummed address, or None."""
    query = select(agent).where(agent.c.wallet_address == wallet_address)
    return (await connection.execute(query)).one_or_none()
