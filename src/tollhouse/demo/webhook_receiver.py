"""An endpoint for the tour's alert: takes what is posted to it, and knows whether its sender had the secret."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

from tollhouse.webhooks.attempt import signatures

LARGEST_BYTES = 1_000_000


class Delivery(Struct, frozen=True):
    """One delivery as it came, its headers' names in lower case."""

    headers: Mapping[str, str]
    body: bytes

    def is_signed_with(self, secret: str) -> bool:
        """Whether it comes from who holds the secret (Standard Webhooks)."""
        moment = int(self.headers["webhook-timestamp"])
        expected = signatures(self.headers["webhook-id"], moment, self.body, [secret])
        return hmac.compare_digest(expected, self.headers["webhook-signature"])


class Receiver(Struct, frozen=True):
    """Where it listens, and what it has got."""

    url: str
    deliveries: asyncio.Queue[Delivery]


@asynccontextmanager
async def run_receiver() -> AsyncIterator[Receiver]:
    """An endpoint on loopback, for as long as the block lasts."""
    got: asyncio.Queue[Delivery] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            got.put_nowait(await _read(reader))
            writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield Receiver(f"http://127.0.0.1:{port}/receiver", got)


async def _read(reader: asyncio.StreamReader) -> Delivery:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    named = [line.partition(":") for line in head[1:] if line]
    headers = {name.lower(): value.strip() for name, _, value in named}
    length = int(headers["content-length"])
    if length > LARGEST_BYTES:
        raise ValueError("a delivery is smaller than that")
    return Delivery(headers, await reader.readexactly(length))
