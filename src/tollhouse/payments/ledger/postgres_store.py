"""The ledger in PostgreSQL: one connection that writes and holds this process's lease, and a pool that reads."""

import asyncio
import contextlib
import secrets
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it ships no types
from sqlalchemy.engine import URL

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.ledger import rules
from tollhouse.payments.ledger.store import (
    ACCOUNT,
    AUDIT,
    ENTRY,
    NEXT_SEQ,
    RESPONSE,
    Store,
    account_row,
    entry_from_row,
    entry_row,
    reach_failpoints,
    report,
    response_from_row,
    response_rows,
    unavailable,
)
from tollhouse.payments.ledger.types import AccountState, BatchChanges, BatchState, LedgerCommand, LedgerReport, Result
from tollhouse.storage.outages import is_outage, may_be_retried
from tollhouse.storage.postgres import CONNECT_SECONDS, prepare

log = logger("ledger")

RETRY_SECONDS = 8.0
"""How long a batch is retried while the database is unreachable, or the outcome of its commit is unknown."""
RETRY_EVERY_SECONDS = 0.1
COMMAND_SECONDS = 10.0
FROZEN_SECONDS = 2.0
"""A process that is frozen within a batch holds up all the others for so long. Its batch is applied again later."""
AUDIT_SECONDS = 3_600.0
CLOSE_SECONDS = 5.0
OLD_LOCK_SECONDS = 1.0
"""How long a new connection waits for the server to notice that the old one is closed."""
_LIMITS = {"timeout": CONNECT_SECONDS, "command_timeout": COMMAND_SECONDS}

_BATCH_LOCK = zlib.crc32(b"ledger")
_OWNERS = zlib.crc32(b"ledger-owners") >> 1
BEGIN = f"BEGIN; SELECT pg_advisory_xact_lock({_BATCH_LOCK})"
# Durable whatever the server's default is.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


class PostgresStore(Store):
    """See Store. The process lease is an advisory lock of the writing session."""

    period = "CAST(floor(t.at / $5) AS BIGINT)"

    def __init__(self, url: URL) -> None:
        _, self._options = url.get_dialect()().create_connect_args(url)
        self.owner = secrets.randbits(31)
        self._writer: asyncpg.Connection | None = None
        self._readers = asyncpg.create_pool(
            min_size=0, max_size=4, **{**_LIMITS, **self._options}, init=partial(prepare, idle_in_transaction_seconds=0)
        )

    async def open(self) -> None:
        """Connect, and acquire the process lease."""
        await self._readers
        try:
            async with _as_problem():
                await self._connect_writer()
        except Problem:
            await self._readers.close()
            raise

    async def apply(self, commands: Sequence[LedgerCommand]) -> list[Result]:
        """See Store. After a lost commit the batch is applied again: ids are taken once."""
        elapsed = asyncio.get_running_loop().time
        deadline = elapsed() + RETRY_SECONDS
        async with _as_problem():
            while True:
                try:
                    return await self._apply(commands)
                except Exception as error:
                    if not may_be_retried(error) or elapsed() > deadline:
                        raise
                    log.warning("ledger connection lost, retrying", error=repr(error))
                    await asyncio.sleep(RETRY_EVERY_SECONDS)

    async def alive(self, owners: Iterable[int]) -> set[int]:
        """See Store."""
        async with _as_problem(), self._readers.acquire() as connection:
            return {owner for owner in owners if await _is_alive(connection, owner)}

    async def check_writable(self) -> None:
        """See Store. The ledger shares a database with everything else: the claim of a payment is such a write."""

    async def audit(self) -> LedgerReport:
        """See Store."""
        async with (
            _as_problem(),
            self._readers.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            results = {name: await connection.fetch(query, timeout=AUDIT_SECONDS) for name, query in AUDIT.items()}
        return report(results)

    async def close(self) -> None:
        """See Store."""
        with _ignored_outage():
            await asyncio.wait_for(self._readers.close(), CLOSE_SECONDS)
        if self._writer:
            with _ignored_outage():
                await self._writer.close(timeout=CLOSE_SECONDS)

    async def _read(self, query: str, *values: object) -> list[asyncpg.Record]:
        async with _as_problem():
            try:
                rows: list[asyncpg.Record] = await self._readers.fetch(query, *values)
            except Exception as error:
                if not may_be_retried(error):
                    raise
                # An idle connection may have been closed: a new one shows whether the server is available.
                rows = await self._readers.fetch(query, *values)
        return rows

    async def _apply(self, commands: Sequence[LedgerCommand]) -> list[Result]:
        connection = await self._connect_writer()
        try:
            await connection.execute(BEGIN)
            changes = rules.apply(commands, await _fetch_state(connection, commands), clock.seconds())
            await _write(connection, changes)
            reach_failpoints(commands, "before-commit")
            await connection.execute("COMMIT")
        except BaseException:
            # Closing the connection ends the transaction. If it was committed, the next attempt finds its rows.
            self._drop()
            raise
        reach_failpoints(commands, "after-commit")
        return changes.results

    async def _connect_writer(self) -> asyncpg.Connection:
        if self._writer is None or self._writer.is_closed():
            connection = await asyncpg.connect(**{**_LIMITS, **self._options})
            try:
                await prepare(connection, FROZEN_SECONDS)
                await connection.execute(_DURABLE)
                await self._acquire_owner(connection)
            except BaseException:
                connection.terminate()
                raise
            self._writer = connection
        return self._writer

    async def _acquire_owner(self, connection: asyncpg.Connection) -> None:
        """Keep the owner number if the server has noticed that the old connection is closed, else take another one.

        Reservations under a number that was given up may be voided by `recover`; posting them then fails.
        """
        for _ in range(int(OLD_LOCK_SECONDS / RETRY_EVERY_SECONDS)):
            if await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _OWNERS, self.owner):
                return
            await asyncio.sleep(RETRY_EVERY_SECONDS)
        self.owner = secrets.randbits(31)
        await connection.execute("SELECT pg_advisory_lock($1, $2)", _OWNERS, self.owner)

    def _drop(self) -> None:
        if self._writer:
            self._writer.terminate()
            self._writer = None


# One round trip for all rows of a batch: each column is one array. A part without rows does nothing.
_WRITE = """WITH
    added AS (INSERT INTO transfer SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[],
        $6::text[], $7::text[], $8::float8[], $9::bool[], $10::bigint[], $11::bigint[])),
    resolved AS (INSERT INTO resolution SELECT * FROM unnest($12::bigint[], $13::text[], $14::float8[],
        $15::bigint[])),
    opened AS (INSERT INTO open_reservation SELECT * FROM unnest($16::bigint[], $17::bytea[])),
    closed AS (DELETE FROM open_reservation WHERE seq = ANY($18::bigint[])),
    forgotten AS (DELETE FROM kept WHERE seq = ANY($19::bigint[]))
    INSERT INTO account (name, balance, reserved, total_in, total_out, posted_count, last_at)
    SELECT * FROM unnest($20::text[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[],
        $26::float8[])
    ON CONFLICT (name) DO UPDATE SET balance = excluded.balance, reserved = excluded.reserved,
    total_in = excluded.total_in, total_out = excluded.total_out, posted_count = excluded.posted_count,
    last_at = excluded.last_at"""
_INSERT_RESPONSES = (
    "INSERT INTO kept SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::float8[], $4::bytea[], $5::bytea[])"
)
_KNOWN_BODIES = "SELECT hash FROM kept_body WHERE hash = ANY($1::bytea[])"
_INSERT_BODIES = "INSERT INTO kept_body SELECT * FROM unnest($1::bytea[], $2::bytea[])"
_DELETE_UNUSED_BODIES = "DELETE FROM kept_body b WHERE NOT EXISTS (SELECT FROM kept k WHERE k.hash = b.hash)"


@contextlib.asynccontextmanager
async def _as_problem() -> AsyncIterator[None]:
    try:
        yield
    except Exception as error:
        if is_outage(error):
            raise unavailable(error) from error
        raise


@contextlib.contextmanager
def _ignored_outage() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not is_outage(error):
            raise


async def _is_alive(connection: asyncpg.Connection, owner: int) -> bool:
    is_free = bool(await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _OWNERS, owner))
    if is_free:
        await connection.execute("SELECT pg_advisory_unlock($1, $2)", _OWNERS, owner)
    return not is_free


async def _fetch_state(connection: asyncpg.Connection, commands: Sequence[LedgerCommand]) -> BatchState:
    rows = await connection.fetch(f"{ENTRY} WHERE t.id = ANY($1::text[])", rules.transfer_ids(commands))
    entries = {entry.transfer.id: entry for entry in map(entry_from_row, rows)}
    names = rules.account_names(commands, entries)
    accounts = await connection.fetch(f"{ACCOUNT} WHERE name = ANY($1::text[])", names)
    seqs = rules.reclaimed_seqs(commands, entries)
    stored = await connection.fetch(f"{RESPONSE} WHERE k.seq = ANY($1::bigint[])", seqs) if seqs else []
    next_seq = await connection.fetchval(NEXT_SEQ)
    responses = dict(map(response_from_row, stored))
    return BatchState(entries, {row[0]: AccountState(*row) for row in accounts}, responses, next_seq)


async def _write(connection: asyncpg.Connection, changes: BatchChanges) -> None:
    if changes.deleted:
        # First: an id that was released may be taken again in the same batch.
        await connection.execute("DELETE FROM transfer WHERE seq = ANY($1::bigint[])", changes.deleted)
    await connection.execute(
        _WRITE,
        *_columns(11, [entry_row(entry) for entry in changes.added]),
        *_columns(4, changes.resolved),
        *_columns(2, [(entry.seq, entry.fingerprint) for entry in changes.opened]),
        changes.closed,
        changes.forgotten,
        *_columns(7, [account_row(account) for account in changes.accounts]),
    )
    if changes.responses:
        rows, bodies = response_rows(changes.responses)
        for known in await connection.fetch(_KNOWN_BODIES, list(bodies)):
            del bodies[known[0]]
        if bodies:
            await connection.execute(_INSERT_BODIES, *_columns(2, list(bodies.items())))
        await connection.execute(_INSERT_RESPONSES, *_columns(5, rows))
    if changes.forget_before is not None:
        await connection.execute("DELETE FROM kept WHERE at < $1", changes.forget_before)
        await connection.execute(_DELETE_UNUSED_BODIES)


def _columns(count: int, rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [[row[column] for row in rows] for column in range(count)]
