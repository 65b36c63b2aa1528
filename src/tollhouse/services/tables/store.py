"""What became of the newest edit of each table's file: taken in, with how many rows, or refused, and why."""

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
)


class Load(Struct, frozen=True):
    """`fingerprint` is of the file seen last and how it is read; `fault` says why that one is not served, "" if it is.

    The rest tells of the edit that is served: when it was taken in ("" for never), how many rows it had, and how many
    were refused; `refused` is JSON of the first of those. `catalogue` is the catalogue its rows are in.
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


async def load_of(connection: Transaction, name: str) -> Load | None:
    """What is known of a table's file; None when it was never looked at."""
    query = select(table_load).where(table_load.c.name == name)
    row = (await connection.execute(query)).mappings().one_or_none()
    return Load(**{str(name): value for name, value in row.items()}) if row else None


async def keep_load(connection: Transaction, load: Load) -> None:
    """Keep this in place of what was known of the table's file."""
    await upsert(connection, table_load, [{name: getattr(load, name) for name in load.__struct_fields__}])
