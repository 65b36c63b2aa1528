"""A server that is stopped under load answers every request on a connection that it accepted."""

import asyncio
import contextlib
from collections import Counter

from tests.waiting import until

CLIENTS = 24


async def call_until_refused(server, outcomes, *, keeps):
    """Call again and again, on one connection or on a new one each time, until no connection is accepted."""
    head = f"GET /defense/health HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    writer = None
    while True:
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        except OSError:
            return
        # The server ends connections that have been idle.
        was_open = not reader.at_eof()
        ends = True
        try:
            writer.write(head)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
            length = next(int(line.partition(":")[2]) for line in answer if line.startswith("content-length"))
            await reader.readexactly(length)
            outcomes[answer[0].split()[1]] += 1
            ends = "connection: close" in answer
            outcomes["closing"] += ends
        except (OSError, EOFError):
            outcomes["lost"] += was_open
        if ends or not keeps:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            writer = None


async def stop_under_load(server):
    outcomes: Counter[str] = Counter()
    clients = [
        asyncio.create_task(call_until_refused(server, outcomes, keeps=bool(number % 2))) for number in range(CLIENTS)
    ]
    await until(lambda: outcomes["200"] > 10 * CLIENTS)
    server.terminate()
    assert await asyncio.to_thread(server.wait) == 0
    await asyncio.gather(*clients)
    return outcomes


def test_stop_under_load_loses_no_request_and_ends_kept_connections_with_an_answer(start_server):
    for _ in range(2):
        outcomes = asyncio.run(stop_under_load(start_server()))
        assert outcomes["lost"] == 0
        assert set(outcomes) <= {"200", "closing", "lost"}
        assert outcomes["closing"] >= CLIENTS // 2


def test_workers_lose_no_request_either(start_server):
    outcomes = asyncio.run(stop_under_load(start_server("--workers", 2)))
    assert outcomes["lost"] == 0
    assert outcomes["closing"] > 0
