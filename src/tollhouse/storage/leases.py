"""Leases: one process at a time holds a role. On PostgreSQL a row that expires, on SQLite a locked file.

On PostgreSQL a lease is renewed while its block runs. If that fails, the block is cancelled well before the row
expires, so that a process that lost the database stops before another one starts. A process that was frozen meanwhile
learns it at its next write: each write transaction within the block locks the row, and fails if its token, the fencing
number, has changed. PostgreSQL ends such a transaction if its process says nothing for some seconds, so that one whose
machine vanished does not delay its successor.

A process with fewer jobs than another may request one of its leases: the holder then ends its block.
"""

import asyncio
import contextlib
import fcntl
from collections.abc import AsyncIterator, Collection
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tollhouse.errors import Problem
from tollhouse.logs import logger

log = logger("storage")

LEASE_SECONDS = 10.0
"""How long after a holder was killed another process takes the role. A holder that stops releases it."""
RENEW_SECONDS = 2.0
SAFETY_SECONDS = 3.0
"""How long before the lease expires its block is cancelled: the time it has to end."""
IDLE_MILLISECONDS = 10_000
"""How long a write transaction within the block may wait for its process."""
REQUEST_SECONDS = 10.0
JOB = "job-"
"""What the roles begin with that processes share out among themselves."""

_LOCK_NOT_AVAILABLE = "55P03"
_NOW = "extract(epoch FROM clock_timestamp())::float8"
_LIMIT_WAIT = text("SET LOCAL lock_timeout = '2s'")
_EXISTS = text("SELECT 1 FROM lease WHERE role = :role")
_MAKE = text("INSERT INTO lease (role, token, expires_at) VALUES (:role, 0, 0) ON CONFLICT DO NOTHING")
# A unique index has the token, so that a change of it waits for the transactions that locked the row FOR KEY SHARE.
_TAKE = text(
    f"UPDATE lease SET token = token + 1, expires_at = {_NOW} + :seconds, holder = :holder, requested_until = 0 "  # noqa: S608 - our text
    f"WHERE role = :role AND expires_at < {_NOW} RETURNING token"
)
_RENEW = text(
    f"UPDATE lease SET expires_at = {_NOW} + :seconds WHERE role = :role AND token = :token "  # noqa: S608 - our text
    f"RETURNING requested_until > {_NOW} AS requested"
)
_RELEASE = text("UPDATE lease SET expires_at = 0, holder = NULL WHERE role = :role AND token = :token")
_LOCK = text(
    f"SELECT set_config('idle_in_transaction_session_timeout', '{IDLE_MILLISECONDS}', true) FROM lease "  # noqa: S608 - our text
    "WHERE role = :role AND token = :token FOR KEY SHARE"
)
_HELD = text(f"SELECT role, holder FROM lease WHERE role LIKE '{JOB}%' AND expires_at >= {_NOW}")  # noqa: S608 - our text
# One lease of the process that holds most, if it holds at least two more than we do.
_REQUEST = text(f"""
    WITH held AS (
        SELECT holder, count(*) FILTER (WHERE requested_until < {_NOW}) AS leases FROM lease
        WHERE role LIKE '{JOB}%' AND expires_at >= {_NOW} AND holder IS NOT NULL GROUP BY holder
    )
    UPDATE lease SET requested_until = {_NOW} + :seconds WHERE role = (
        SELECT role FROM lease JOIN held USING (holder)
        WHERE role = ANY(:roles) AND expires_at >= {_NOW} AND requested_until < {_NOW}
            AND leases >= :holds + 2 AND holder <> :holder
        ORDER BY leases DESC, random() LIMIT 1
    )""")  # noqa: S608 - our text
# Earlier versions do all background work under this role. Each process that shares out jobs keeps it from them.
_SUPERSEDE = text(f"""
    INSERT INTO lease AS known (role, token, expires_at, holder)
    VALUES ('background-work', 1, {_NOW} + :seconds, 'jobs 1')
    ON CONFLICT (role) DO UPDATE SET expires_at = {_NOW} + :seconds,
        token = known.token + (known.holder IS DISTINCT FROM 'jobs ' || known.token)::int,
        holder = 'jobs ' || (known.token + (known.holder IS DISTINCT FROM 'jobs ' || known.token)::int)
    """)  # noqa: S608 - our text
SUPERSEDE_SECONDS = 30.0


class LeaseLost(Problem):
    """Another process holds or requested the role, or the database was out of reach for too long to know."""

    def __init__(self, role: str, *, is_requested: bool = False) -> None:
        super().__init__("storage-unavailable", f"The lease of {role!r} was lost.", retry_after_seconds=5)
        self.is_requested = is_requested


class _Held(Struct):
    role: str
    token: int
    is_over: bool = False
    is_requested: bool = False


_held: ContextVar[tuple[_Held, ...]] = ContextVar("held_leases", default=())


@contextlib.asynccontextmanager
async def row_lease(engine: AsyncEngine, role: str, holder: str) -> AsyncIterator[bool]:
    """Whether the process `holder` has the role on PostgreSQL while the block runs. Raises LeaseLost from the block."""
    begun_at = asyncio.get_running_loop().time()
    token = await _take(engine, role, holder)
    if token is None:
        yield False
        return
    lease, outer = _Held(role, token), _held.get()
    _held.set((*outer, lease))
    try:
        async with asyncio.timeout_at(_deadline(begun_at)) as limit:
            renewing = asyncio.create_task(_renew(engine, lease, limit))
            try:
                yield True
            finally:
                renewing.cancel()
                await asyncio.wait([renewing])
    except TimeoutError:
        if not limit.expired():
            raise
        raise LeaseLost(role, is_requested=lease.is_requested) from None
    finally:
        # Tasks that were started within the block and go on after it, such as a queue's, need no lease.
        lease.is_over = True
        _held.set(outer)
        with contextlib.suppress(Exception):
            await _execute(engine, _RELEASE, {"role": role, "token": token})


async def lock_leases(connection: AsyncConnection) -> None:
    """Keep the leases in whose blocks this task was started from being taken until the transaction ends.

    Raises LeaseLost.
    """
    for lease in _held.get():
        if lease.is_over:
            continue
        if await connection.scalar(_LOCK, {"role": lease.role, "token": lease.token}) is None:
            raise LeaseLost(lease.role)


@contextlib.asynccontextmanager
async def file_lease(path: Path) -> AsyncIterator[bool]:
    """Whether this process holds the locked file while the block runs. The lock ends with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


async def held_jobs(engine: AsyncEngine) -> dict[str, str]:
    """The jobs that a process holds, and that process. Keeps processes of earlier versions from all of them."""
    await _execute(engine, _SUPERSEDE, {"seconds": SUPERSEDE_SECONDS})
    return {row.role: row.holder for row in await _execute(engine, _HELD, {})}


async def request_job(engine: AsyncEngine, roles: Collection[str], holder: str, holds: int) -> bool:
    """Request one of these roles of a process with at least two leases more than `holder`; whether there is one."""
    values = {"roles": list(roles), "holder": holder, "holds": holds, "seconds": REQUEST_SECONDS}
    return bool(await _execute(engine, _REQUEST, values))


async def _take(engine: AsyncEngine, role: str, holder: str) -> int | None:
    """The new token of the role, unless another process holds it."""
    values = {"role": role, "seconds": LEASE_SECONDS, "holder": holder}
    try:
        async with engine.begin() as connection:
            await connection.execute(_LIMIT_WAIT)
            token: int | None = await connection.scalar(_TAKE, values)
            if token is not None or await connection.scalar(_EXISTS, {"role": role}) is not None:
                return token
        # The first time. The row is made in a transaction of its own: with the update in the same one, processes that
        # make it at the same moment could wait for each other.
        async with engine.begin() as connection:
            await connection.execute(_MAKE, {"role": role})
        async with engine.begin() as connection:
            await connection.execute(_LIMIT_WAIT)
            return await connection.scalar(_TAKE, values)  # type: ignore[no-any-return]
    except DBAPIError as error:
        # A transaction of the former holder has not ended.
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            return None
        raise


async def _renew(engine: AsyncEngine, lease: _Held, limit: asyncio.Timeout) -> None:
    """Renew the lease, and with it the time limit of its block."""
    loop = asyncio.get_running_loop()
    values = {"role": lease.role, "token": lease.token, "seconds": LEASE_SECONDS}
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        begun_at = loop.time()
        try:
            requested = [row.requested for row in await _execute(engine, _RENEW, values)]
        except Exception as error:  # noqa: BLE001 - whatever it is, the lease is not renewed
            log.warning("lease not renewed", role=lease.role, error=str(error).partition("\n")[0] or repr(error))
            continue
        lease.is_requested = any(requested)
        limit.reschedule(_deadline(begun_at) if requested == [False] else loop.time())


async def _execute(engine: AsyncEngine, statement: TextClause, values: dict[str, object]) -> list[Any]:
    """The rows of one statement, or one None for each row that it changed. Raises TimeoutError after RENEW_SECONDS.

    What does not answer is left behind: even the rollback of a statement may wait for a machine that is gone.
    """

    async def execute() -> list[Any]:
        async with engine.begin() as connection:
            result = await connection.execute(statement, values)
            return list(result) if result.returns_rows else [None] * result.rowcount

    task = asyncio.create_task(execute())
    done, _ = await asyncio.wait([task], timeout=RENEW_SECONDS)
    if not done:
        task.cancel()
        raise TimeoutError
    return task.result()


def _deadline(renewed_at: float) -> float:
    return renewed_at + LEASE_SECONDS - SAFETY_SECONDS
