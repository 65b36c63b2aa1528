"""Webhook deliveries a second to one receiver on loopback, from the outbox to the settled record.

The baseline posts the same bodies with plain httpx2, eight at once, signing and storing nothing. Goal: at least half
of it.
"""

import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import httpx2

from tollhouse import logs
from tollhouse.config.settings import Settings
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate
from tollhouse.webhooks import outbox
from tollhouse.webhooks.webhooks import Webhooks, open_webhooks

EVENTS = 1_000
ROUNDS = 3
AT_ONCE = 8
GOAL_OF_PLAIN = 0.5
RECEIVER = """
import asyncio

class Receiver(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.buffer = transport, b""

    def data_received(self, data):
        self.buffer += data
        while b"\\r\\n\\r\\n" in self.buffer:
            head, rest = self.buffer.split(b"\\r\\n\\r\\n", 1)
            length = int(head.lower().split(b"content-length: ")[1].split(b"\\r\\n")[0])
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            self.transport.write(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")

async def main():
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


def happened(turn: int) -> list[outbox.Event]:
    return [
        outbox.Event("product.created", {"turn": turn, "id": number, "price": 799.0}, f"prod_{number}")
        for number in range(EVENTS)
    ]


async def plain(url: str) -> float:
    """Posts a second of httpx2 alone."""
    numbers = iter(range(EVENTS))
    async with httpx2.AsyncClient(trust_env=False) as client:

        async def post() -> None:
            for number in numbers:
                body = {"type": "product.created", "timestamp": "2026-01-01T00:00:00Z", "data": {"id": number}}
                (await client.post(url, json=body)).raise_for_status()

        begun = perf_counter()
        await asyncio.gather(*(post() for _ in range(AT_ONCE)))
        return EVENTS / (perf_counter() - begun)


async def delivered(room: Webhooks, database: Database, turn: int) -> float:
    """Deliveries a second of what one transaction put."""
    async with database.writing() as transaction:
        await outbox.put_all(transaction, "mattress", happened(turn))
    begun = perf_counter()
    made = await room.deliver_due()
    assert made == EVENTS, "each is delivered at its first attempt"
    return EVENTS / (perf_counter() - begun)


async def measure(folder: Path) -> dict[str, object]:
    receiver = await asyncio.create_subprocess_exec(sys.executable, "-c", RECEIVER, stdout=asyncio.subprocess.PIPE)
    assert receiver.stdout is not None
    url = f"http://127.0.0.1:{int(await receiver.stdout.readline())}/hook"
    settings = Settings(data_dir=str(folder), webhook_allow_loopback=True)
    database = open_database(settings)
    await migrate(database)
    room = open_webhooks(settings, database)
    async with database.writing() as transaction:
        await room.subscriptions.add(transaction, "mattress", url, "bench@example.org")
    await delivered(room, database, ROUNDS)
    rates, plains = [], []
    for turn in range(ROUNDS):
        plains.append(await plain(url))
        rates.append(await delivered(room, database, turn))
        print(f"round {turn + 1}/{ROUNDS}: {rates[-1]:.0f}/s, plain {plains[-1]:.0f}/s", file=sys.stderr)
    await room.close()
    await database.close()
    receiver.kill()
    await receiver.wait()
    ratio = statistics.median(rate / alone for rate, alone in zip(rates, plains, strict=True))
    return {
        "claim": "webhooks are delivered at half the rate of plain posts, or faster",
        "deliveries_per_second": round(statistics.median(rates)),
        "plain_posts_per_second": round(statistics.median(plains)),
        "ratio": round(ratio, 2),
        "goal_ratio": GOAL_OF_PLAIN,
        "is_met": ratio >= GOAL_OF_PLAIN,
    }


def main() -> None:
    logs.configure("warning")
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(Path(folder))), indent=2))


if __name__ == "__main__":
    main()
