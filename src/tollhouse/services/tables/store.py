"""The status of each table: what is served, and what is wrong with its newest edit."""

from msgspec import Struct
from sqlalchemy import Column, Integer, LargeBinary, String, Table, Text, select

from tollhouse.storage.database import Transaction, metadata, upsert

table_load = Table(
    "table_load",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("catalogue", String(40), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("seen_at", String(20), nullable=False),
    Column("loaded_at", String(20), nullable=False),
    Column("row_count", Integer, nullable=False),
    Column("refused_count", Integer, nullable=False),
    Column("refused", LargeBinary, nullable=False),
    Column("fault", Text, nullable=False),
    Column("pending_count", Integer, nullable=False, server_default="0"),
)


class LoadStatus(Struct, frozen=True):
    """`fingerprint` is of the newest content and how it is read; `fault` says why that is not served, "" if it is.

    The rest describes what is served: when it was loaded ("" for never), its number of rows and of refused rows;
    `refused` is JSON of the first of those. `catalogue` is the catalogue that has the rows. While an edit is written in
    several transactions, `pending_count` of its `row_count` rows are not written yet, and `fingerprint` is empty.
    """

    name: str
    catalogue: str
    fingerprint: str
    seen_at: str
    loaded_at: str = ""
    row_count: int = 0
    refused_count: int = 0
    refused: bytes = b"[]"
    fault: str = ""
    pending_count: int = 0


async def read_status(connection: Transaction, name: str) -> LoadStatus | None:
    """The status of a table; None before its first load."""
    query = select(table_load).where(table_load.c.name == name)
    row = (await connection.execute(query)).mappings().one_or_none()
    return LoadStatus(**{str(name): value for name, value in row.items()}) if row else None


async def save_status(connection: Transaction, status: LoadStatus) -> None:
    await upsert(connection, table_load, [{name: getattr(status, name) for name in status.__struct_fields__}])
