"""How every connection to PostgreSQL is set up, so that a machine that vanishes is noticed on both sides."""

import contextlib
import socket
from typing import Any

from sqlalchemy.engine import URL

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 4
PROBE_SECONDS = 2
PROBES = 3
UNANSWERED_SECONDS = 10
"""A peer without a sign of life for so long is gone: its transactions end, and its locks are free."""

IDLE_IN_TRANSACTION_SECONDS = 120
"""A process that is frozen within a transaction holds its locks for so long."""

# Not as startup parameters: a pooler refuses those it does not know. The same for every connection: behind a pooler
# they stay with the server's session when another client uses it.
SESSION = f"""SET tcp_keepalives_idle = {IDLE_SECONDS}; SET tcp_keepalives_interval = {PROBE_SECONDS};
    SET tcp_keepalives_count = {PROBES}; SET tcp_user_timeout = {UNANSWERED_SECONDS * 1_000};
    SET idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_SECONDS * 1_000}"""

_OPTIONS = (
    ("SO_KEEPALIVE", socket.SOL_SOCKET, 1),
    ("TCP_KEEPIDLE", socket.IPPROTO_TCP, IDLE_SECONDS),
    ("TCP_KEEPINTVL", socket.IPPROTO_TCP, PROBE_SECONDS),
    ("TCP_KEEPCNT", socket.IPPROTO_TCP, PROBES),
    ("TCP_USER_TIMEOUT", socket.IPPROTO_TCP, UNANSWERED_SECONDS * 1_000),
)


def driver_options(url: URL) -> dict[str, Any]:
    """The arguments of asyncpg's `connect`. With `?prepared_statement_cache_size=0` it uses unnamed statements only."""
    _, arguments = url.get_dialect()().create_connect_args(url)
    size = arguments.pop("prepared_statement_cache_size", None)
    return {**arguments, **({} if size is None else {"statement_cache_size": size})}


def engine_options(url: URL) -> dict[str, Any]:
    """The arguments of the driver beside those in the URL: see `driver_options`."""
    if url.query.get("prepared_statement_cache_size") != "0":
        return {"timeout": CONNECT_SECONDS}
    return {"timeout": CONNECT_SECONDS, "statement_cache_size": 0, "prepared_statement_name_func": str}


async def prepare(connection: Any) -> None:
    await connection.execute(SESSION)
    peer = connection._transport.get_extra_info("socket")  # noqa: SLF001 - asyncpg offers no other way
    for name, level, value in _OPTIONS:
        # Not every system has every option, and a Unix socket has none.
        if peer is not None and hasattr(socket, name):
            with contextlib.suppress(OSError):
                peer.setsockopt(level, getattr(socket, name), value)
