"""How much PostgreSQL reads: rows of tables and indexes, and pages, by its own statistics of a database's tables."""

import asyncio
import contextlib
from typing import Any

import asyncpg
from sqlalchemy import Pool, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import MissingGreenlet

from tollhouse.payments.ledger import postgres_store
from tollhouse.storage.postgres import driver_options

# Not of the system's tables, which each new connection reads, nor of the one row of each process, which recovery reads
# a thousand times.
_READ = """SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) + sum(heap_blks_read + heap_blks_hit)
    + sum(coalesce(idx_blks_read + idx_blks_hit, 0)) + sum(coalesce(toast_blks_read + toast_blks_hit, 0))
    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)
    FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid, relname)
    WHERE relname <> 'ledger_process'"""


ATTEMPTS = 250


class PostgresWork:
    """Counts the rows and pages that all connections of this process read.

    A connection tells the server's statistics at once what it read, before it is given back; else it would within 10 s.
    """

    def __init__(self, monkeypatch: Any, url: str) -> None:
        self._url = make_url(url)
        call = postgres_store.PostgresStore._call

        async def called(store: Any, connection: Any, *given: Any) -> Any:
            result = await call(store, connection, *given)
            await _report(connection)
            return result

        monkeypatch.setattr(postgres_store.PostgresStore, "_call", called)
        monkeypatch.setattr(postgres_store, "_nothing_to_reset", _report)

    async def open(self) -> None:
        self._own = await asyncpg.connect(**driver_options(self._url))
        # As the planner decides for large tables: small ones it reads whole, though an index finds the rows.
        await self._own.execute(f"ALTER DATABASE {self._url.database} SET enable_seqscan = off")
        event.listen(Pool, "checkin", _given_back)

    async def read(self) -> int:
        """The rows and pages read until now."""
        return int(await self._own.fetchval(_READ))

    async def analyze(self) -> None:
        """Let the planner know how many rows there are, as autovacuum does in time."""
        await self._own.execute("VACUUM ANALYZE")
        # A test that writes all its deliveries in one transaction leaves as many versions of these counts. They stay
        # while a transaction of another connection could still see them.
        for _ in range(ATTEMPTS):
            await self._own.execute("VACUUM FULL webhook_backlog")
            if await self._own.fetchval("SELECT pg_relation_size('webhook_backlog') <= 8192"):
                # What this has read counts now, not during a request.
                return await _report(self._own)
            await asyncio.sleep(0.02)
        raise AssertionError("old versions of the counts of deliveries stay")

    async def close(self) -> None:
        event.remove(Pool, "checkin", _given_back)
        await self._own.close()


async def _report(connection: Any) -> None:
    await connection.execute("SELECT pg_stat_force_next_flush()")


def _given_back(connection: Any, _record: Any) -> None:
    # One of SQLite, one that ended, or one that the garbage collector gives back, reports nothing.
    if hasattr(getattr(connection, "driver_connection", None), "get_server_pid"):
        with contextlib.suppress(MissingGreenlet, asyncpg.InterfaceError, asyncpg.PostgresError):
            connection.run_async(_report)
