"""Which errors of SQLite, PostgreSQL and their drivers mean that the database is unavailable: the only such list."""

import sqlite3
from collections.abc import Iterator

from sqlalchemy.exc import DBAPIError, PendingRollbackError, ResourceClosedError
from sqlalchemy.exc import TimeoutError as PoolTimeout

# Classes of SQLSTATE (PostgreSQL's manual, appendix A) in which the statement is not to blame.
_LOST = ("08", "57")
_RETRIED = (*_LOST, "40")
_RETRIED_STATES = frozenset({
    "25006",  # read only: a standby since a failover; a new connection may reach its successor
    "25P03",  # the server ended a transaction that was idle for too long
    "25P04",  # or that took too long
    "53300",  # too many connections
    "55000",  # the database accepts no connections now
})  # fmt: skip
_UNAVAILABLE = (*_RETRIED, "28", "3D", "53", "55", "58", "F0", "XX")
_UNAVAILABLE_STATES = frozenset({
    *_RETRIED_STATES,
    "0A000",  # a statement prepared before another process migrated the schema; the driver prepares it again
})  # fmt: skip


def is_outage(error: BaseException) -> bool:
    """Whether the database is lost, starting, stopping, full, locked or damaged: the same call may succeed later."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    if isinstance(error, PoolTimeout | PendingRollbackError | ResourceClosedError):
        return True
    for cause in _causes(error):
        state = getattr(cause, "sqlstate", None)
        if state:
            return state in _UNAVAILABLE_STATES or state.startswith(_UNAVAILABLE)
        if isinstance(cause, sqlite3.Error):
            # For a damaged file SQLite raises DatabaseError itself, not a subclass.
            return isinstance(cause, sqlite3.OperationalError) or type(cause) is sqlite3.DatabaseError
        if isinstance(cause, OSError) or _is_drivers(cause):
            return True
    return False


def may_be_retried(error: BaseException) -> bool:
    """Whether the same statements may succeed on another connection of PostgreSQL if they are repeated at once."""
    return _matches(error, _RETRIED)


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection can no longer be used. After a deadlock or a failed serialization (class 40) it is."""
    return _matches(error, _LOST)


def _matches(error: BaseException, classes: tuple[str, ...]) -> bool:
    for cause in _causes(error):
        state = getattr(cause, "sqlstate", None)
        if state:
            return state in _RETRIED_STATES or state.startswith(classes)
        if isinstance(cause, OSError) or _is_drivers(cause):
            return True
    return False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and the driver's own behind it."""
    while error is not None:
        yield error
        is_wrapper = type(error).__module__.startswith("sqlalchemy.")
        error = getattr(error, "orig", None) or (error.__cause__ if is_wrapper else None)


def _is_drivers(error: BaseException) -> bool:
    """An error of asyncpg itself, without SQLSTATE: the connection is closed. Its ValueErrors are wrong arguments."""
    names = {base.__name__ for base in type(error).__mro__ if base.__module__.startswith("asyncpg.")}
    return not isinstance(error, ValueError) and bool(names & {"InterfaceError", "InternalClientError"})
