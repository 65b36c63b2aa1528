"""Database tables of the catalogues: revisions, change sets, items and price history."""

import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, String, Table, delete, func, select
from sqlalchemy import tuple_ as row_of
from sqlalchemy import update as update_rows

from tollhouse.catalogue.items import batches
from tollhouse.storage.database import Transaction, insert, metadata, upsert

catalogue = Table(
    "catalogue",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("epoch", String(32), nullable=False),
    Column("revision", Integer, nullable=False),
)

# The same revision may be another change set in a database that was restored: its token differs then.
catalogue_change_set = Table(
    "catalogue_change_set",
    metadata,
    Column("catalogue", String(40), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("token", String(16), nullable=False),
)

catalogue_item = Table(
    "catalogue_item",
    metadata,
    Column("catalogue", String(40), primary_key=True),
    Column("id", String(200), primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("removed", Boolean, nullable=False),
    Column("created_at", String(20), nullable=False),
    Column("updated_at", String(20), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("catalogue_item_by_revision", "catalogue", "revision", "id"),
)

catalogue_price = Table(
    "catalogue_price",
    metadata,
    Column("catalogue", String(40), primary_key=True),
    Column("item_id", String(200), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("at", String(20), nullable=False),
    Column("price_micros", BigInteger, nullable=False),
    Column("current_micros", BigInteger, nullable=False),
)

CHUNK = 500
# An index that is further behind is rebuilt.
MAX_CHANGE_SETS = 100_000


async def read_revision(connection: Transaction, name: str) -> tuple[str, int]:
    """The catalogue's epoch (unique per database) and revision; ("", 0) before the first change."""
    query = select(catalogue.c.epoch, catalogue.c.revision).where(catalogue.c.name == name)
    row: Any = (await connection.execute(query)).one_or_none()
    return (row.epoch, row.revision) if row else ("", 0)


async def locked_revision(connection: Transaction, name: str) -> int:
    """The catalogue's revision, locked against other writers until the transaction ends."""
    new = insert(connection, catalogue).values(name=name, epoch=secrets.token_hex(16), revision=0)
    await connection.execute(new.on_conflict_do_nothing())
    query = select(catalogue.c.revision).where(catalogue.c.name == name).with_for_update()
    return int((await connection.execute(query)).scalar_one())


async def set_revision(connection: Transaction, name: str, revision: int) -> None:
    """Set the revision, with a token of its own."""
    await connection.execute(update_rows(catalogue).where(catalogue.c.name == name).values(revision=revision))
    row = {"catalogue": name, "revision": revision, "token": secrets.token_hex(8)}
    await upsert(connection, catalogue_change_set, [row])
    earlier = catalogue_change_set.c.revision <= revision - MAX_CHANGE_SETS
    await connection.execute(delete(catalogue_change_set).where(catalogue_change_set.c.catalogue == name, earlier))


async def read_token(connection: Transaction, name: str, revision: int) -> str:
    """The token of a revision; "" if it is unknown."""
    sets = catalogue_change_set.c
    query = select(sets.token).where(sets.catalogue == name, sets.revision == revision)
    return (await connection.execute(query)).scalar_one_or_none() or ""


async def read_items(connection: Transaction, name: str, identities: Sequence[str]) -> dict[str, Any]:
    """The rows with these ids, including removed items."""
    rows: dict[str, Any] = {}
    for chunk in batches(identities, CHUNK):
        query = select(catalogue_item).where(catalogue_item.c.catalogue == name, catalogue_item.c.id.in_(chunk))
        rows |= {row.id: row for row in await connection.execute(query)}
    return rows


async def write_items(connection: Transaction, name: str, rows: Sequence[dict[str, object]]) -> None:
    for chunk in batches(rows, CHUNK):
        await upsert(connection, catalogue_item, [{"catalogue": name, **row} for row in chunk])


async def write_prices(connection: Transaction, name: str, rows: Sequence[dict[str, object]]) -> None:
    for chunk in batches(rows, CHUNK):
        await connection.execute(catalogue_price.insert(), [{"catalogue": name, **row} for row in chunk])


async def read_changes(connection: Transaction, name: str, after: tuple[int, str], limit: int) -> list[Any]:
    """The next rows after a (revision, id), in that order, including removed items."""
    item = catalogue_item.c
    later = select(catalogue_item).where(item.catalogue == name, row_of(item.revision, item.id) > row_of(*after))
    return list(await connection.execute(later.order_by(item.revision, item.id).limit(limit)))


async def changed_ids(connection: Transaction, name: str, after: int, limit: int) -> list[str]:
    """The ids of items that changed after a revision, removed ones included; at most `limit` of them."""
    item = catalogue_item.c
    query = select(item.id).where(item.catalogue == name, item.revision > after).order_by(item.revision).limit(limit)
    return list((await connection.execute(query)).scalars())


async def read_prices(connection: Transaction, name: str, identities: Sequence[str]) -> list[Any]:
    """The prices of these items, the oldest of each first."""
    rows: list[Any] = []
    for chunk in batches(identities, CHUNK):
        query = select(catalogue_price).where(catalogue_price.c.catalogue == name, catalogue_price.c.item_id.in_(chunk))
        rows += await connection.execute(query.order_by(catalogue_price.c.revision))
    return rows


async def count_items(connection: Transaction, name: str) -> int:
    """The number of items, without removed ones."""
    query = select(func.count()).where(catalogue_item.c.catalogue == name, catalogue_item.c.removed.is_(False))
    return int((await connection.execute(query)).scalar_one())


async def drop(connection: Transaction, name: str) -> None:
    for table in (catalogue_item, catalogue_price, catalogue_change_set):
        await connection.execute(delete(table).where(table.c.catalogue == name))
    await connection.execute(delete(catalogue).where(catalogue.c.name == name))
