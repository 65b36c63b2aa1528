"""The listeners: how Granian reads requests, and the operator's own listener inside a server process."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server as EmbeddedServer

from tollhouse.http.request import Receive, Scope, Send

BACKLOG = 4_096
CONNECTIONS = 32_768
"""Most connections of one process. Granian leaves more in the kernel's queue, where they get no answer."""


def http_options(idle_timeout_seconds: int) -> dict[str, Any]:
    """Options of Granian. A request head, also the next one on a connection, arrives in time or ends the connection."""
    return {
        # Over HTTP/2, and while the version is not known, Granian waits for a head without a limit.
        "http": HTTPModes.http1,
        "http1_settings": HTTP1Settings(header_read_timeout=idle_timeout_seconds * 1_000),
        "websockets": False,
    }


@contextlib.asynccontextmanager
async def listening(
    address: str, idle_timeout_seconds: int, handle: Callable[[Scope, Receive, Send], Awaitable[None]]
) -> AsyncIterator[None]:
    """Listen on `host:port` in this process, beside the listener that started it. Raises OSError."""
    host, port = split_address(address)
    server = EmbeddedServer(
        handle,
        address=host,
        port=port,
        interface=Interfaces.ASGINL,
        log_level=LogLevels.error,
        **http_options(idle_timeout_seconds),
    )
    running = asyncio.ensure_future(server.serve())
    # It binds its socket before it first waits.
    await asyncio.sleep(0)
    if running.done():
        running.result()
    try:
        yield
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        await running


def split_address(address: str) -> tuple[str, int]:
    """`host:port` as host and port; an IPv6 address is in brackets."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def raise_descriptor_limit() -> None:
    """Let this process and its children open as many files and connections as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS refuses "no limit".
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
