"""The first part of a graceful stop: no connection is accepted any more, and those that are open end with an answer.

Granian closes its listener and idle connections as soon as its stop begins. What was on its way to them, in the
queue of the listener or on a connection, would get no answer.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, MutableMapping
from typing import Any

from tollhouse.http.overload import open_sockets
from tollhouse.http.request import Send
from tollhouse.logs import logger

log = logger("http")

QUIET_SECONDS = 0.5
"""After so long without a request, connections that are still open are idle."""
MOST_SECONDS = 5.0
LOOK_SECONDS = 0.02
STOP_SIGNAL = signal.SIGINT
"""Stops Granian as SIGTERM does, which is ours."""

_SO_ATTACH_FILTER = 26
# Classic BPF on a TCP header: drop a packet with SYN and without ACK, pass on the others, which end begun handshakes.
_NO_NEW_CONNECTIONS = (
    (0x30, 0, 0, 13),  # load the byte of flags
    (0x54, 0, 0, 0x12),  # and: SYN, ACK
    (0x15, 0, 1, 0x02),  # if it is SYN alone
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # pass on
)


class GracefulStop:
    """Ends the connections of the ports, then tells Granian to stop."""

    def __init__(self, ports: frozenset[int]) -> None:
        self._ports = ports
        self.is_begun = False
        self.begun_requests = 0
        self._task: asyncio.Task[None] | None = None

    def install(self) -> None:
        """Begin with SIGTERM."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.begin)

    def begin(self) -> None:
        """Refuse new connections, and stop once the open ones have ended or are idle."""
        if self._task is None:
            self.is_begun = True
            self._task = asyncio.create_task(self._run())

    def closing(self, send: Send) -> Send:
        """Send with a header that closes the connection after the answer."""
        self.begun_requests += 1

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        return sending

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        begun_at = quiet_since = loop.time()
        requests = self.begun_requests
        try:
            _for_each(self._ports, _refuse_connections, is_listening=True)
            while loop.time() - begun_at < MOST_SECONDS and loop.time() - quiet_since < QUIET_SECONDS:
                await asyncio.sleep(LOOK_SECONDS)
                if not _for_each(self._ports, None, is_listening=False):
                    break
                if requests != self.begun_requests:
                    requests, quiet_since = self.begun_requests, loop.time()
        except OSError as error:
            log.warning("connections not ended", error=str(error))
        finally:
            os.kill(os.getpid(), STOP_SIGNAL)


def _for_each(ports: frozenset[int], work: Callable[[socket.socket], None] | None, *, is_listening: bool) -> int:
    """Do the work with each socket of the ports that listens, or was accepted; how many there are."""
    count = 0
    for each in open_sockets():
        with contextlib.suppress(OSError):
            if each.getsockname()[1] in ports and bool(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) == (
                is_listening
            ):
                count += 1
                if work:
                    work(each)
    return count


def _refuse_connections(listener: socket.socket) -> None:
    """Let the kernel drop what opens a connection: the client tries again, and meets no listener or another one."""
    if sys.platform != "linux":
        return
    code = b"".join(struct.pack("HBBI", *each) for each in _NO_NEW_CONNECTIONS)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HL", len(_NO_NEW_CONNECTIONS), ctypes.addressof(buffer))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
