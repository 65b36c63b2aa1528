"""A webhook receiver for the tour's alert, which verifies signatures."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

from tollhouse.webhooks.attempt import signatures

MAX_BYTES = 1_000_000


class Delivery(Struct, frozen=True):
    """One delivery as received. Header names are lower-case."""

    headers: Mapping[str, str]
    body: bytes

    def is_signed_with(self, secret: str) -> bool:
        """Whether the signature was made with the secret (Standard Webhooks)."""
        moment = int(self.headers["webhook-timestamp"])
        expected = signatures(self.headers["webhook-id"], moment, self.body, [secret])
        return hmac.compare_digest(expected, self.headers["webhook-signature"])


class Receiver(Struct, frozen=True):
    """A running receiver: its URL and the deliveries it has received."""

    url: str
    deliveries: asyncio.Queue[Delivery]


@asynccontextmanager
async def run_receiver() -> AsyncIterator[Receiver]:
    """Run a receiver on loopback."""
    deliveries: asyncio.Queue[Delivery] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            deliveries.put_nowait(await _read(reader))
            writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield Receiver(f"http://127.0.0.1:{port}/receiver", deliveries)


async def _read(reader: asyncio.StreamReader) -> Delivery:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    named = [line.partition(":") for line in head[1:] if line]
    headers = {name.lower(): value.strip() for name, _, value in named}
    length = int(headers["content-length"])
    if length > MAX_BYTES:
        raise ValueError("the delivery is too large")
    return Delivery(headers, await reader.readexactly(length))
