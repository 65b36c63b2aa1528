"""Servers of fakes: on loopback, and, for tests that wait for other processes, in a thread of their own."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from queue import Queue
from typing import TypeVar

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Opened = TypeVar("Opened")

START_SECONDS = 60


@asynccontextmanager
async def listen(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port that `serve` has each connection to; connections left at the end are cut."""
    serving: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        task = asyncio.ensure_future(serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        for writer in writers:
            writer.close()
        # A transport lets go of its socket in the next turn of the loop.
        await asyncio.sleep(0)


@contextmanager
def run_in_background(opened: AbstractAsyncContextManager[Opened]) -> Iterator[Opened]:
    """What it opens, kept open by an event loop in a thread of its own."""
    opened_by_thread: Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event, Opened]] = Queue()

    async def run() -> None:
        over = asyncio.Event()
        async with opened as made:
            opened_by_thread.put((asyncio.get_running_loop(), over, made))
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    loop, over, made = opened_by_thread.get(timeout=START_SECONDS)
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
