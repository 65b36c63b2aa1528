"""Leases: one process at a time holds a role. On PostgreSQL a row that expires, on SQLite a locked file.

On PostgreSQL a lease is renewed while its block runs. If that fails, the block is cancelled well before the row
expires, so that a process that lost the database stops before another one starts. A process that was frozen meanwhile
learns it at its next write: each write transaction within the block locks the row, and fails if another process has
taken it.
"""

import asyncio
import contextlib
import fcntl
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tollhouse.errors import Problem
from tollhouse.logs import logger

log = logger("storage")

LEASE_SECONDS = 15.0
"""How long after a holder was killed another process takes the role. A holder that stops releases it."""
RENEW_SECONDS = 3.0
SAFETY_SECONDS = 5.0
"""How long before the lease expires its block is cancelled: the time it has to end."""

_LOCK_NOT_AVAILABLE = "55P03"
_NOW = "extract(epoch FROM clock_timestamp())::float8"
_LIMIT_WAIT = text("SET LOCAL lock_timeout = '2s'")
_EXISTS = text("SELECT 1 FROM lease WHERE role = :role")
_MAKE = text("INSERT INTO lease VALUES (:role, 0, 0) ON CONFLICT (role) DO NOTHING")
# A unique index has the token, so that a change of it waits for the transactions that locked the row FOR KEY SHARE.
_TAKE = text(
    f"UPDATE lease SET token = token + 1, expires_at = {_NOW} + :seconds "  # noqa: S608 - our text
    f"WHERE role = :role AND expires_at < {_NOW} RETURNING token"
)
_RENEW = text(
    f"UPDATE lease SET expires_at = {_NOW} + :seconds WHERE role = :role AND token = :token"  # noqa: S608 - our text
)
_RELEASE = text("UPDATE lease SET expires_at = 0 WHERE role = :role AND token = :token")
_LOCK = text("SELECT 1 FROM lease WHERE role = :role AND token = :token FOR KEY SHARE")


class LeaseLost(Problem):
    """Another process holds the role now, or the database was out of reach for too long to know."""

    def __init__(self, role: str) -> None:
        super().__init__("storage-unavailable", f"The lease of {role!r} was lost.", headers={"Retry-After": "5"})


class _Held(Struct):
    role: str
    token: int
    is_over: bool = False


_held: ContextVar[tuple[_Held, ...]] = ContextVar("held_leases", default=())


@contextlib.asynccontextmanager
async def row_lease(engine: AsyncEngine, role: str) -> AsyncIterator[bool]:
    """Whether this process holds the role on PostgreSQL while the block runs. Raises LeaseLost from the block."""
    begun_at = asyncio.get_running_loop().time()
    token = await _take(engine, role)
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
        raise LeaseLost(role) from None
    finally:
        # Tasks that were started within the block and go on after it, such as a queue's, need no lease.
        lease.is_over = True
        _held.set(outer)
        with contextlib.suppress(Exception):
            async with asyncio.timeout(RENEW_SECONDS), engine.begin() as connection:
                await connection.execute(_RELEASE, {"role": role, "token": token})


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


@contextlib.asynccontextmanager
async def session_lock(engine: AsyncEngine, number: int) -> AsyncIterator[bool]:
    """Whether this connection holds PostgreSQL's advisory lock while the block runs. It ends with the connection."""
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        held = await connection.scalar(text("SELECT pg_try_advisory_lock(:number)"), {"number": number})
        yield bool(held)
        if held:
            await connection.execute(text("SELECT pg_advisory_unlock(:number)"), {"number": number})


async def _take(engine: AsyncEngine, role: str) -> int | None:
    """The new token of the role, unless another process holds it."""
    values = {"role": role, "seconds": LEASE_SECONDS}
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
            async with asyncio.timeout(RENEW_SECONDS), engine.begin() as connection:
                is_ours = (await connection.execute(_RENEW, values)).rowcount == 1
        except Exception as error:  # noqa: BLE001 - whatever it is, the lease is not renewed
            log.warning("lease not renewed", role=lease.role, error=str(error).partition("\n")[0] or repr(error))
            continue
        limit.reschedule(_deadline(begun_at) if is_ours else loop.time())


def _deadline(renewed_at: float) -> float:
    return renewed_at + LEASE_SECONDS - SAFETY_SECONDS
