"""A connection pooler in transaction mode, stricter than PgBouncer: no session state outlives a transaction.

Each transaction of a client runs in another session than the one before, which is then cleared by DISCARD ALL.
"""

import asyncio
import contextlib
import struct
from collections import deque
from typing import Self

SESSIONS = 4
STARTUP = b"\0\x03\0\0"
SSL_REQUEST = struct.pack("!I", 80877103)
# What a client learns of a session is not the server's number and secret.
KEY_DATA = b"K" + struct.pack("!III", 12, 1, 1)
READY = b"Z" + struct.pack("!I", 5) + b"I"
DISCARD = b"Q" + struct.pack("!I", 16) + b"DISCARD ALL\0"


class Session:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def start(self, startup: bytes) -> bytes:
        """Send a client's first message; the server's parameters, without its key."""
        self.writer.write(startup)
        greeting = b""
        while (message := await read_message(self.reader))[:1] != b"Z":
            assert message[:1] != b"E", message
            greeting += message if message[:1] != b"K" else b""
        return greeting

    async def clear(self) -> None:
        self.writer.write(DISCARD)
        while (message := await read_message(self.reader))[:1] != b"Z":
            assert message[:1] != b"E", message


class TransactionPooler:
    """A TCP server on `port` before the PostgreSQL on `server_port`. All clients use the same database and role."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._free: deque[Session] = deque()
        self._is_free = asyncio.Condition()
        self._count = 0
        self._greeting = b""
        self._clients: set[asyncio.Task[None]] = set()
        self.transactions = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for session in self._free:
            session.writer.close()

    def url(self, url: str) -> str:
        """The URL of a database behind the pooler, without named statements."""
        return f"{url.replace(f':{self._server_port}/', f':{self.port}/')}?prepared_statement_cache_size=0"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._clients.add(task)
        try:
            await self._greet(reader, writer)
            client = asyncio.create_task(read_message(reader))
            while (first := await client)[:1] != b"X":
                client = await self._transaction(first, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._clients.discard(task)
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup = await self._startup(reader)
        if startup[4:8] == SSL_REQUEST:
            writer.write(b"N")
            startup = await self._startup(reader)
        if startup[4:8] != STARTUP:
            # A request to cancel: there is nothing under its key.
            raise asyncio.IncompleteReadError(startup, None)
        while self._count < SESSIONS:
            self._count += 1
            session = Session(*await asyncio.open_connection("127.0.0.1", self._server_port))
            self._greeting = await session.start(startup)
            await self._give_back(session)
        writer.write(self._greeting + KEY_DATA + READY)

    async def _startup(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readexactly(4)
        return head + await reader.readexactly(struct.unpack("!I", head)[0] - 4)

    async def _transaction(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> asyncio.Task[bytes]:
        """Run one; the reading of the client's next message, which is under way."""
        async with self._is_free:
            await self._is_free.wait_for(lambda: self._free)
            session = self._free.popleft()
        self.transactions += 1
        waiting = int(first[:1] in {b"Q", b"S"})
        session.writer.write(first)
        client = asyncio.create_task(read_message(reader))
        server = asyncio.create_task(read_message(session.reader))
        status = b""
        try:
            while waiting or status != b"I":
                await asyncio.wait({client, server}, return_when=asyncio.FIRST_COMPLETED)
                if server.done():
                    message = server.result()
                    if message[:1] == b"Z":
                        waiting, status = waiting - 1, message[-1:]
                    writer.write(message)
                    server = asyncio.create_task(read_message(session.reader))
                elif client.done():
                    message = client.result()
                    waiting += message[:1] in {b"Q", b"S"}
                    session.writer.write(message)
                    client = asyncio.create_task(read_message(reader))
        except BaseException:
            client.cancel()
            session.writer.close()
            self._count -= 1
            raise
        finally:
            server.cancel()
            with contextlib.suppress(BaseException):
                await server
        await session.clear()
        await self._give_back(session)
        return client

    async def _give_back(self, session: Session) -> None:
        async with self._is_free:
            self._free.append(session)
            self._is_free.notify()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """One message with its type and length. Raises IncompleteReadError at the end."""
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)
