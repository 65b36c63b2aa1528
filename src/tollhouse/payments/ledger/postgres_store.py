"""The ledger in PostgreSQL: one connection that writes, and a pool that reads.

A batch is one call of a function in the database, committed by itself, and nothing depends on the session.
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it ships no types
import msgspec
from msgspec.structs import replace
from sqlalchemy.engine import URL

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.ledger.store import (
    NEXT_END,
    SET_SUMS_END,
    Store,
    add_sums,
    audit_queries,
    reach_failpoints,
    report,
    unavailable,
)
from tollhouse.payments.ledger.types import (
    AGENT_PREFIX,
    RESPONSE_TTL_SECONDS,
    REVERSAL,
    Delivered,
    Done,
    Gone,
    IdTaken,
    Insufficient,
    LedgerCommand,
    LedgerReport,
    Move,
    Moved,
    Overdrawn,
    Post,
    Release,
    Reserve,
    Reserved,
    Result,
    State,
    StoredResponse,
    Sweep,
    Transfer,
    Used,
    Void,
)
from tollhouse.storage.outages import is_connection_lost, is_outage, may_be_retried
from tollhouse.storage.postgres import CONNECT_SECONDS, driver_options, prepare

NUMBERS: dict[type[LedgerCommand], int] = {Move: 1, Reserve: 2, Post: 3, Void: 4, Release: 5, Delivered: 6, Sweep: 7}
_BESIDE = re.compile(r"LEFT JOIN (\w+) (\w) ON \2\.seq = t\.seq")
_STATES: tuple[State | None, ...] = (None, "pending", "posted", "voided", "settled")


class Batch:
    """The commands of one batch."""

    def __init__(self, commands: Sequence[LedgerCommand]) -> None:
        self.commands = commands
        self._digests: dict[bytes, bytes] = {}
        self._names: dict[str, int] = {}
        self._created: set[str] = set()
        self._known: set[str] = set()
        self._firsts: dict[str, int] = {}
        self._rows = [self._row(number, command) for number, command in enumerate(commands, 1)]

    def arguments(self, part: int, now: float, stored: set[bytes]) -> tuple[Any, ...]:
        """The arguments of the function. Equal bodies are stored once; those whose hash is in `stored` are not sent."""
        new = {digest: body for body, digest in self._digests.items() if digest not in stored}
        columns = [[row[column] for row in self._rows] for column in range(13)]
        names = list(self._names), list(self._created), list(self._known)
        return (part, now, RESPONSE_TTL_SECONDS, *names, *columns, list(new), list(new.values()))

    @property
    def hashes(self) -> set[bytes]:
        """Those of the bodies of its responses."""
        return set(self._digests.values())

    def results(self, rows: Sequence[Mapping[str, Any]], now: float) -> list[Result]:
        """One result per command from the rows of `ledger_apply`."""
        return [self._result(command, row, now) for command, row in zip(self.commands, rows, strict=True)]

    def _row(self, number: int, command: LedgerCommand) -> tuple[Any, ...]:
        kind = NUMBERS[type(command)]
        if isinstance(command, Sweep):
            return (kind, None, number, *[None] * 10)
        if isinstance(command, Move | Reserve):
            return self._transfer_row(number, kind, command)
        first = self._firsts.setdefault(command.id, number)
        if isinstance(command, Post | Void | Release):
            self._known.add(command.id)
        owner, made = (command.origin if isinstance(command, Post | Release) else None) or (None, None)
        amount = command.amount_micros if isinstance(command, Post) else None
        response = command.response if isinstance(command, Post) else None
        stored = self._response(response) if response else (None, None)
        return (kind, command.id, first, None, None, amount, None, None, None, owner, made, *stored)

    def _transfer_row(self, number: int, kind: int, command: Move | Reserve) -> tuple[Any, ...]:
        made = command.transfer
        first = self._firsts.setdefault(made.id, number)
        sides = [self._names.setdefault(name, len(self._names) + 1) for name in (made.debit, made.credit)]
        created = (made.debit, made.credit) if made.kind == REVERSAL else (made.credit,)
        self._created.update(name for name in created if name.startswith(AGENT_PREFIX))
        memo = None if made.memo is None else msgspec.json.encode(made.memo).decode()
        fingerprint = command.fingerprint if isinstance(command, Reserve) else None
        about = (made.amount_micros, made.kind, memo, fingerprint, command.owner, command.number)
        return (kind, made.id, first, *sides, *about, None, None)

    def _response(self, response: StoredResponse) -> tuple[bytes, bytes]:
        digest = self._digests.get(response.body)
        if digest is None:
            digest = self._digests[response.body] = sha256(response.body).digest()
        return msgspec.msgpack.encode(replace(response, body=b"")), digest

    def _result(self, command: LedgerCommand, row: Mapping[str, Any], now: float) -> Result:  # noqa: PLR0911 - by code
        state = _STATES[row["state"] or 0]
        match row["code"]:
            case 1 | 2 as code:
                return Moved(code == 1, self._existing(row, state, now))
            case 3:
                return IdTaken(self._existing(row, state, now))
            case 4:
                assert isinstance(command, Move)
                return Overdrawn(command.transfer.debit, row["micros"])
            case 5:
                assert isinstance(command, Reserve)
                return Reserved(command.transfer.id)
            case 6:
                return Insufficient(row["micros"])
            case 7:
                assert state
                return Used("posted" if state == "settled" else state, self._stored(row))
            case 9:
                return Gone(state)
        return Done()

    def _existing(self, row: Mapping[str, Any], state: State | None, now: float) -> Transfer:
        """The transfer with the command's id: made by a command of this batch, or stored before."""
        assert state
        if row["maker"]:
            maker = self.commands[row["maker"] - 1]
            assert isinstance(maker, Move | Reserve)
            return replace(maker.transfer, amount_micros=row["micros"], at=now, state=state)
        memo = msgspec.json.decode(row["memo"]) if row["memo"] else None
        sides = row["debit"], row["credit"]
        return Transfer(row["id"], *sides, row["micros"], row["kind"], memo, row["at"], state)

    def _stored(self, row: Mapping[str, Any]) -> StoredResponse | None:
        if row["answerer"] > 0:
            post = self.commands[row["answerer"] - 1]
            assert isinstance(post, Post)
            return post.response
        if row["answerer"] == 0 or row["body"] is None:
            return None
        return replace(msgspec.msgpack.decode(row["head"], type=StoredResponse), body=bytes(row["body"]))


log = logger("ledger")

RETRY_SECONDS = 8.0
"""How long a batch is retried while the database is unreachable, or the outcome of its commit is unknown."""
RETRY_EVERY_SECONDS = 0.1
COMMAND_SECONDS = 10.0
AUDIT_SECONDS = 3_600.0
CLOSE_SECONDS = 5.0
CANCEL_SECONDS = 1.0
LEASE_SECONDS = 15.0
"""How long after the last renewal a process counts as alive. One whose session ended does not."""
RENEW_SECONDS = 4.0
READERS = 2
STORED_HASHES = 10_000
"""So many hashes of bodies that the database has are remembered; such a body is not sent again."""
_LIMITS = {"timeout": CONNECT_SECONDS, "command_timeout": COMMAND_SECONDS}

# With the session of the writing connection, or without: then what is known of it stays.
RENEW = "SELECT ledger_renew($1, $2, $3)"
# Where the sums end, until the end of the transaction.
_LOCK_SUMS = """INSERT INTO period_sum_end VALUES (1, 0)
    ON CONFLICT (id) DO UPDATE SET seq = period_sum_end.seq RETURNING seq"""
CALL = """SELECT * FROM ledger_apply($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
    $19, $20, $21)"""


class PostgresStore(Store):
    """See Store. The process lease is a row that a task renews."""

    period = "CAST(floor(t.at / {width}) AS BIGINT)"
    among = "t.seq = ANY(ARRAY({numbers}))"
    side_from = "(t.{side}, t.seq) >= ($1, {number}) AND (t.{side}, t.seq) < ($1, 9223372036854775807)"

    def __init__(self, url: URL) -> None:
        self._options = {**_LIMITS, **driver_options(url)}
        self.owner = secrets.randbits(31)
        self._part = 0
        self._stored: set[bytes] = set()
        self._writer: asyncpg.Connection | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._readers = asyncpg.create_pool(
            min_size=0, max_size=READERS, **self._options, init=prepare, reset=_nothing_to_reset
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
        self._renewing = asyncio.create_task(self._renew())

    async def apply(self, commands: Sequence[LedgerCommand]) -> list[Result]:
        """See Store. After a lost commit the batch is applied again: ids are taken once."""
        elapsed = asyncio.get_running_loop().time
        deadline = elapsed() + RETRY_SECONDS
        batch = Batch(commands)
        async with _as_problem():
            while True:
                try:
                    return await self._apply(batch)
                except Exception as error:
                    if not may_be_retried(error) or elapsed() > deadline:
                        raise
                    log.warning("ledger batch failed, retrying", error=repr(error))
                    await asyncio.sleep(RETRY_EVERY_SECONDS)

    async def alive(self, owners: Iterable[int]) -> set[int]:
        """See Store."""
        rows = await self._read("SELECT ledger_alive($1)", list(owners))
        return {row[0] for row in rows}

    async def check_writable(self) -> None:
        """See Store. The ledger shares a database with everything else: the claim of a payment is such a write."""

    async def sum_up(self) -> bool:
        """See Store. Batches wait only until it is known which transfers are final."""
        async with _as_problem(), self._readers.acquire() as connection:
            final = await connection.fetchval("SELECT ledger_final_seq()")
            if final is None:
                return False
            async with connection.transaction():
                since = await connection.fetchval(_LOCK_SUMS)
                until = await connection.fetchval(NEXT_END, since, final, self.summed_at_once)
                if until is None:
                    return False
                await connection.execute(self._by_number(add_sums(self.period)), since, until)
                await connection.execute(SET_SUMS_END, until)
        return True

    async def audit(self) -> LedgerReport:
        """See Store."""
        async with (
            _as_problem(),
            self._readers.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            results = {
                name: await connection.fetch(_of_all_parts(query), timeout=AUDIT_SECONDS)
                for name, query in audit_queries(self.period).items()
            }
        return report(results)

    async def close(self) -> None:
        """See Store."""
        if self._renewing:
            self._renewing.cancel()
        with _ignored_outage():
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._readers.execute("DELETE FROM ledger_process WHERE owner = $1", self.owner)
                await self._readers.close()
        if self._writer:
            with _ignored_outage():
                await self._writer.close(timeout=CLOSE_SECONDS)

    async def _read(self, query: str, *values: object) -> list[asyncpg.Record]:
        query = _of_all_parts(query)
        async with _as_problem():
            try:
                rows: list[asyncpg.Record] = await self._readers.fetch(query, *values)
            except Exception as error:
                if not may_be_retried(error):
                    raise
                # An idle connection may have been closed: a new one shows whether the server is available.
                rows = await self._readers.fetch(query, *values)
        return rows

    def _by_number(self, query: str) -> str:
        """See Store. The planner cannot know how few transfers are new, and would read every resolution."""
        return _BESIDE.sub(
            r"LEFT JOIN LATERAL (SELECT * FROM \1 AS one WHERE one.seq = t.seq OFFSET 0) \2 ON true", query
        )

    async def _apply(self, batch: Batch) -> list[Result]:
        connection = await self._connect_writer()
        now = clock.seconds()
        reach_failpoints(batch.commands, "before-commit")
        try:
            rows = await self._call(connection, batch, now)
            for command in batch.commands:
                if isinstance(command, Sweep):
                    await connection.execute("DELETE FROM kept WHERE at < $1", command.before)
                    await connection.execute("SELECT ledger_sweep()")
        except BaseException as error:
            # If it was committed, the next attempt finds its rows.
            if not isinstance(error, asyncpg.PostgresError) or is_connection_lost(error):
                await self._drop(connection)
            raise
        reach_failpoints(batch.commands, "after-commit")
        return batch.results(rows, now)

    async def _call(self, connection: asyncpg.Connection, batch: Batch, now: float) -> list[asyncpg.Record]:
        try:
            rows: list[asyncpg.Record] = await connection.fetch(CALL, *batch.arguments(self._part, now, self._stored))
        except asyncpg.NoDataFoundError:
            # A body that was stored has been swept away since.
            self._stored.clear()
            rows = await connection.fetch(CALL, *batch.arguments(self._part, now, self._stored))
        if len(self._stored) > STORED_HASHES:
            self._stored.clear()
        self._stored |= batch.hashes
        return rows

    async def _connect_writer(self) -> asyncpg.Connection:
        if self._writer is None or self._writer.is_closed():
            connection = await asyncpg.connect(**self._options)
            try:
                await prepare(connection)
                session = connection.get_server_pid()
                self._part = await connection.fetchval(RENEW, self.owner, LEASE_SECONDS, session)
            except BaseException:
                connection.terminate()
                raise
            self._writer = connection
        return self._writer

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._readers.fetchval(RENEW, self.owner, LEASE_SECONDS, None)
            except Exception as error:  # noqa: BLE001 - whatever it is, the lease is not renewed
                log.warning("ledger lease not renewed", error=str(error).partition("\n")[0] or repr(error))

    async def _drop(self, connection: asyncpg.Connection) -> None:
        """Close the connection. What waits for a lock in the server is cancelled first, and does not happen."""
        self._writer = None
        with contextlib.suppress(Exception):
            await connection.close(timeout=CANCEL_SECONDS)
        connection.terminate()


async def _nothing_to_reset(_connection: asyncpg.Connection) -> None:
    """In place of the pool's own statements, which would undo `prepare`."""


def _of_all_parts(query: str) -> str:
    """A query of the tables that both databases have, over the views that add up their parts."""
    return (
        query.replace("FROM account", "FROM account_total")
        .replace("JOIN open_reservation", "JOIN every_open_reservation")
        .replace("FROM open_reservation", "FROM every_open_reservation")
    )


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
