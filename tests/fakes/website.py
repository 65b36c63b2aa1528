"""A website on loopback whose every answer a test writes, down to the bytes and the pauses between them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from queue import Queue
from urllib.parse import parse_qsl, urlsplit


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

    server = await asyncio.start_server(_tracked(serve), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield Website(f"http://{host}:{port}", asked)
    finally:
        server.close()
        for task in list(_SERVING):
            task.cancel()
        await asyncio.gather(*_SERVING, return_exceptions=True)


@contextmanager
def standing_website(answer: Answer) -> Iterator[Website]:
    """A `website` in a thread of its own, for tests that wait for other processes."""
    told: Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event, Website]] = Queue()

    async def stand() -> None:
        over = asyncio.Event()
        async with website(answer) as site:
            told.put((asyncio.get_running_loop(), over, site))
            await over.wait()

    standing = threading.Thread(target=asyncio.run, args=(stand(),))
    standing.start()
    loop, over, site = told.get(timeout=10)
    try:
        yield site
    finally:
        loop.call_soon_threadsafe(over.set)
        standing.join()


_SERVING: set[asyncio.Task[None]] = set()
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def _tracked(serve: Serve) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
    def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        _SERVING.add(task)
        task.add_done_callback(_SERVING.discard)

    return start


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
