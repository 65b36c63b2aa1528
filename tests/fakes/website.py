"""A website on loopback whose every answer a test writes, down to the bytes and the pauses between them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.background_server import listen, run_in_background


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))


@dataclass(frozen=True)
class Reply:
    """`chunks` are sent one by one with `pause_seconds` before each, without Content-Length."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    chunks: Iterable[bytes] = ()
    pause_seconds: float = 0.0


@dataclass
class Website:
    url: str
    asked: list[Asked]


Answer = Callable[[Asked], Reply]


@asynccontextmanager
async def website(answer: Answer) -> AsyncIterator[Website]:
    """Serves what `answer` says for every request, and keeps the requests. One connection, one answer."""
    asked: list[Asked] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                request = await _read(reader)
                asked.append(request)
                await _send(writer, answer(request))
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    async with listen(serve) as port:
        yield Website(f"http://127.0.0.1:{port}", asked)


def background_website(answer: Answer) -> AbstractContextManager[Website]:
    """A `website` in a thread of its own, for tests that wait for other processes."""
    return run_in_background(website(answer))


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Asked(method, parts.path, dict(parse_qsl(parts.query)), headers, body)


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    headers = {"Connection": "close", **reply.headers}
    if not reply.chunks:
        headers.setdefault("Content-Length", str(len(reply.body)))
    lines = [f"HTTP/1.1 {reply.status} Test", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1") + reply.body)
    await writer.drain()
    for chunk in reply.chunks:
        await asyncio.sleep(reply.pause_seconds)
        writer.write(chunk)
        await writer.drain()
