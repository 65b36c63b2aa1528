"""Tables of API keys, registered wallets and server secrets, and their statements."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, String, Table, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse.storage.database import Database, metadata

api_key = Table(
    "api_key",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("email", String(320), nullable=False, index=True),
    Column("tier", String(16), nullable=False),
    Column("label", String(100)),
    Column("per_day", Integer),
    Column("per_minute", Integer),
    Column("created_at", String(20), nullable=False),
    Column("revoked_at", String(20)),
    # A keyed hash of the client address that created the key; none for the operator's.
    Column("created_by", LargeBinary),
    # Set by a trigger with each change: on PostgreSQL the transaction, on SQLite a number that rises.
    Column("changed_in", BigInteger, index=True),
)

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

server_secret = Table(
    "server_secret",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)


async def insert_key(connection: AsyncConnection, **values: object) -> None:
    await connection.execute(api_key.insert().values(**values))


async def keys_by_hash(database: Database, digests: Collection[bytes]) -> dict[bytes, Any]:
    """The rows of the active keys with these hashes, by hash."""
    return {row.hash: row for row in await database.rows_where(api_key.c.hash, digests) if row.revoked_at is None}


# Transactions before the mark have ended. A later one may commit after another with a greater number was read, so the
# next read begins with the mark, not after the greatest number. Numbers from `ahead` on are those of another database,
# of which this one is a copy.
_POSTGRES_MARK = """SELECT txid_snapshot_xmin(txid_current_snapshot()) AS mark,
    txid_snapshot_xmax(txid_current_snapshot()) AS ahead"""
_SQLITE_MARK = "SELECT coalesce(max(changed_in), 0) AS mark, coalesce(max(changed_in), 0) + 1 AS ahead FROM api_key"
_CHANGED = """SELECT mark, id, changed_in FROM ({mark}) AS moment
    LEFT JOIN api_key ON changed_in >= :since AND changed_in < ahead"""
_NOTHING_YET = 2**62


async def changed_keys(connection: AsyncConnection, since: int | None) -> tuple[int, dict[str, int]]:
    """What changed since a mark: the next mark, and by its id the number of each key's last change.

    A change may be returned again with the next mark. A mark that falls is that of another database.
    """
    query = text(_CHANGED.format(mark=_SQLITE_MARK if connection.dialect.name == "sqlite" else _POSTGRES_MARK))
    values = {"since": _NOTHING_YET if since is None else since}
    rows = (await connection.execute(query, values)).all()
    return rows[0].mark, {row.id: row.changed_in for row in rows if row.id is not None}


async def key_by_id(connection: AsyncConnection, key_id: str) -> Any:
    """The row of the key with this id, active or revoked, or None."""
    return (await connection.execute(select(api_key).where(api_key.c.id == key_id))).one_or_none()


async def active_keys_of(connection: AsyncConnection, email: str, created_by: bytes) -> int:
    """The number of active keys of this (normalised) email address that this creator made."""
    is_active = api_key.c.revoked_at.is_(None)
    query = select(func.count()).where(api_key.c.email == email, api_key.c.created_by == created_by, is_active)
    return int((await connection.execute(query)).scalar_one())


async def all_keys(connection: AsyncConnection) -> list[Any]:
    """Every key, oldest first."""
    return list(await connection.execute(select(api_key).order_by(api_key.c.created_at, api_key.c.id)))


async def change_key(connection: AsyncConnection, key_id: str, **values: object) -> bool:
    """Update an active key; False when there is none."""
    query = update(api_key).where(api_key.c.id == key_id, api_key.c.revoked_at.is_(None)).values(**values)
    return (await connection.execute(query)).rowcount == 1


async def replace_hash(connection: AsyncConnection, key_id: str, old: bytes, new: bytes) -> bool:
    """Replace the hash of an active key; False when it is not `old` any more."""
    is_current = (api_key.c.id == key_id) & (api_key.c.hash == old) & api_key.c.revoked_at.is_(None)
    return (await connection.execute(update(api_key).where(is_current).values(hash=new))).rowcount == 1


async def insert_agent(connection: AsyncConnection, **values: object) -> None:
    await connection.execute(agent.insert().values(**values))


async def set_agent_email(connection: AsyncConnection, agent_id: str, email: str) -> None:
    await connection.execute(update(agent).where(agent.c.id == agent_id).values(email=email))


async def agents_by_wallet(database: Database, wallet_addresses: Collection[str]) -> dict[str, Any]:
    """The rows of the agents with these checksummed addresses, by address."""
    return {row.wallet_address: row for row in await database.rows_where(agent.c.wallet_address, wallet_addresses)}


async def agent_by_wallet(connection: AsyncConnection, wallet_address: str) -> Any:
    """The row of the agent with this checksummed address, or None."""
    return (await connection.execute(select(agent).where(agent.c.wallet_address == wallet_address))).one_or_none()


async def secret_named(connection: AsyncConnection, name: str) -> bytes | None:
    """A secret that this server generated, or None."""
    return (await connection.execute(select(server_secret.c.value).where(server_secret.c.name == name))).scalar()


async def insert_secret(connection: AsyncConnection, name: str, value: bytes) -> None:
    await connection.execute(server_secret.insert().values(name=name, value=value))
