"""How every connection to PostgreSQL is set up, so that a machine that vanishes is noticed on both sides."""

import contextlib
import socket
from typing import Any

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 4
PROBE_SECONDS = 2
PROBES = 3
UNANSWERED_SECONDS = 10
"""A peer without a sign of life for so long is gone: its transactions end, and its locks are free."""

# Not as startup parameters: a pooler refuses those it does not know.
SESSION = f"""SET tcp_keepalives_idle = {IDLE_SECONDS}; SET tcp_keepalives_interval = {PROBE_SECONDS};
    SET tcp_keepalives_count = {PROBES}; SET tcp_user_timeout = {UNANSWERED_SECONDS * 1_000}"""

_OPTIONS = (
    ("SO_KEEPALIVE", socket.SOL_SOCKET, 1),
    ("TCP_KEEPIDLE", socket.IPPROTO_TCP, IDLE_SECONDS),
    ("TCP_KEEPINTVL", socket.IPPROTO_TCP, PROBE_SECONDS),
    ("TCP_KEEPCNT", socket.IPPROTO_TCP, PROBES),
    ("TCP_USER_TIMEOUT", socket.IPPROTO_TCP, UNANSWERED_SECONDS * 1_000),
)


async def prepare(connection: Any, idle_in_transaction_seconds: float) -> None:
    """Set up a new connection of asyncpg. A transaction that waits longer for its process is ended by the server."""
    await connection.execute(
        f"{SESSION}; SET idle_in_transaction_session_timeout = {int(idle_in_transaction_seconds * 1_000)}"
    )
    peer = connection._transport.get_extra_info("socket")  # noqa: SLF001 - asyncpg offers no other way
    for name, level, value in _OPTIONS:
        # Not every system has every option, and a Unix socket has none.
        if peer is not None and hasattr(socket, name):
            with contextlib.suppress(OSError):
                peer.setsockopt(level, getattr(socket, name), value)
