"""Health of the sources of the feeds, stored for all processes."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tollhouse import clock
from tollhouse.logs import masked
from tollhouse.services.defense import store
from tollhouse.storage.database import Database

LONGEST_ERROR = 300


class SourceHealth(Struct, frozen=True):
    """The health of one source. `failures` counts failed attempts since the last success."""

    name: str
    status: str
    last_success_at: str | None
    age_seconds: int | None
    last_error_at: str | None
    last_error: str | None
    failures: int


async def succeeded(database: Database, source: str) -> None:
    async with database.writing() as connection:
        await store.write_health(connection, source=source, last_success_at=clock.iso(clock.now()), failures=0)


async def failed(database: Database, source: str, error: Exception, failures: int) -> None:
    """Record a failure of a source, the `failures`-th in a row."""
    text = masked(f"{type(error).__name__}: {error}".splitlines()[0])[:LONGEST_ERROR]
    async with database.writing() as connection:
        await store.write_health(
            connection, source=source, last_error_at=clock.iso(clock.now()), last_error=text, failures=failures
        )


async def keep_only(database: Database, prefix: str, sources: Sequence[str]) -> None:
    """Delete the health of sources with this name prefix that are no longer configured."""
    async with database.writing() as connection:
        await store.keep_health(connection, prefix, sources)


async def list_sources(database: Database) -> list[SourceHealth]:
    """The health of every source that was tried."""
    async with database.reading() as connection:
        rows = await store.list_health(connection)
    return [_from_row(row) for row in rows]


def _from_row(row: Any) -> SourceHealth:
    age = clock.age_seconds(row.last_success_at) if row.last_success_at else None
    status = "ok" if row.failures == 0 else "failing"
    return SourceHealth(row.source, status, row.last_success_at, age, row.last_error_at, row.last_error, row.failures)
