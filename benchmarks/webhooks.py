"""Webhook deliveries a second to one receiver on loopback, from the outbox to the settled record.

The baseline posts the same bodies with plain httpx2, eight at once, signing and storing nothing. Goal: at least half
of it. Then the same with many endpoints and a long queue: how long a poll takes, against the former query that looked
at each endpoint, and how much two worker processes deliver.

`python benchmarks/webhooks.py [--database-url URL] [--queued N]`: an empty PostgreSQL database; SQLite without one.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import httpx2
from sqlalchemy import text

from tollhouse import clock, logs
from tollhouse.config.settings import Settings
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate
from tollhouse.storage.secret_box import SecretBox
from tollhouse.webhooks import outbox, store
from tollhouse.webhooks.attempt import new_secret
from tollhouse.webhooks.webhooks import Webhooks, open_webhooks

EVENTS = 1_000
ROUNDS = 3
AT_ONCE = 8
GOAL_OF_PLAIN = 0.5
SIZES = (10, 1_000, 10_000)
QUEUED = 100_000
GOAL_POLL_MS, GOAL_PER_SECOND = 5.0, 1_000
WORKERS, WARM_UP_SECONDS, SECONDS = 2, 3.0, 10.0
POLLS = 20
ROWS_AT_ONCE = 10_000
DELIVERIES = """INSERT INTO webhook_delivery (id, event_id, endpoint_id, state, created_at, due_at, tries, attempts)
    SELECT 'dlv_' || e.id || p.id, e.id, p.id, 'pending', :now, :now, 0, 0 FROM webhook_event e, webhook_endpoint p"""
FORMER_POLL = """SELECT id, failing_since, last_success_at FROM webhook_endpoint WHERE removed_at IS NULL
    AND disabled_at IS NULL AND held_until <= :now AND EXISTS (SELECT 1 FROM webhook_delivery
    WHERE endpoint_id = webhook_endpoint.id AND state = 'pending' AND due_at <= :now)"""
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


async def start_receiver() -> tuple[asyncio.subprocess.Process, str]:
    receiver = await asyncio.create_subprocess_exec(sys.executable, "-c", RECEIVER, stdout=asyncio.subprocess.PIPE)
    assert receiver.stdout is not None
    return receiver, f"http://127.0.0.1:{int(await receiver.stdout.readline())}/hook"


async def stop(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.wait()


async def measure(settings: Settings) -> dict[str, object]:
    receiver, url = await start_receiver()
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
    await stop(receiver)
    ratio = statistics.median(rate / alone for rate, alone in zip(rates, plains, strict=True))
    return {
        "claim": "webhooks are delivered at half the rate of plain posts, or faster",
        "deliveries_per_second": round(statistics.median(rates)),
        "plain_posts_per_second": round(statistics.median(plains)),
        "ratio": round(ratio, 2),
        "goal_ratio": GOAL_OF_PLAIN,
        "is_met": ratio >= GOAL_OF_PLAIN,
    }


async def fill(database: Database, settings: Settings, url: str, endpoints: int, queued: int) -> None:
    """So many endpoints with the same number of deliveries that are due."""
    now, box = clock.seconds() - 60.0, SecretBox(settings)
    events = max(queued // endpoints, 1)
    async with database.writing() as transaction:
        for table in (store.attempt, store.delivery, store.event, store.endpoint, store.counted):
            await transaction.execute(table.delete() if database.is_sqlite else text(f"TRUNCATE {table.name}"))
        names = [f"whk_{number:06}" for number in range(endpoints)]
        rows: list[dict[str, Any]] = [
            {"id": name, "service": "mattress", "url": f"{url}/{name}", "email": "a@example.org", "types": "",
             "secret": box.seal(new_secret(), name), "created_at": now, "failures": 0, "held_until": 0.0,
             "last_success_at": now, "next_due_at": now}
            for name in names
        ]  # fmt: skip
        for some in portions(iter(rows)):
            await transaction.execute(store.endpoint.insert(), some)
        happening = (
            {"id": f"evt_{number:08}", "service": "mattress", "type": "product.created", "subject_id": "p",
             "body": b'{"type":"product.created","data":{"price":799.0}}', "created_at": now}
            for number in range(events)
        )  # fmt: skip
        for some in portions(happening):
            await transaction.execute(store.event.insert(), some)
        await transaction.execute(text(DELIVERIES), {"now": now})
    async with database.writing() as transaction:
        await transaction.execute(text("ANALYZE"))


def portions(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while some := [row for row, _ in zip(rows, range(ROWS_AT_ONCE), strict=False)]:
        yield some


async def poll(database: Database, *, is_former: bool) -> float:
    """Milliseconds of a poll, the median."""
    taken = []
    for _ in range(POLLS):
        now = clock.seconds()
        begun = perf_counter()
        async with database.reading() as connection:
            if is_former:
                (await connection.execute(text(FORMER_POLL), {"now": now})).all()
            else:
                await store.has_work(connection, now)
        taken.append(1_000 * (perf_counter() - begun))
    return statistics.median(taken)


async def rate(database: Database, settings: Settings) -> float:
    """Deliveries a second of some worker processes."""
    command = [sys.executable, __file__, "--worker", settings.data_dir, "--database-url", settings.database_url]
    workers = [await asyncio.create_subprocess_exec(*command) for _ in range(WORKERS)]

    async def attempts() -> int:
        async with database.reading() as connection:
            return int(await connection.scalar(text("SELECT count(*) FROM webhook_attempt WHERE status = 204")))

    while not await attempts():  # noqa: ASYNC110 - in the database
        await asyncio.sleep(0.1)
    await asyncio.sleep(WARM_UP_SECONDS)
    before, begun = await attempts(), perf_counter()
    await asyncio.sleep(SECONDS)
    result = (await attempts() - before) / (perf_counter() - begun)
    for worker in workers:
        await stop(worker)
    return result


async def grow(settings: Settings, queued: int, plain_rate: float) -> list[dict[str, object]]:
    database = open_database(settings)
    receiver, url = await start_receiver()
    results = []
    for endpoints in SIZES:
        await fill(database, settings, url, endpoints, queued)
        former, milliseconds = await poll(database, is_former=True), await poll(database, is_former=False)
        per_second = await rate(database, settings)
        results.append(
            {
                "endpoints": endpoints,
                "queued": queued,
                "poll_ms": round(milliseconds, 2),
                "former_poll_ms": round(former, 2),
                "poll_ratio": round(milliseconds / former, 3),
                "deliveries_per_second": round(per_second),
                "ratio_of_plain_posts": round(per_second / plain_rate, 2),
                "is_met": milliseconds <= GOAL_POLL_MS and per_second >= GOAL_PER_SECOND,
            }
        )
        print(json.dumps(results[-1]), file=sys.stderr)
    await stop(receiver)
    await database.close()
    return results


async def work(settings: Settings) -> None:
    """Deliver until killed: one of the worker processes."""
    await open_webhooks(settings, open_database(settings)).run_deliveries()


def main() -> None:
    logs.configure("warning")
    parser = argparse.ArgumentParser()
    parser.add_argument("--database-url", default="")
    parser.add_argument("--queued", type=int, default=QUEUED)
    parser.add_argument("--worker", default="")
    options = parser.parse_args()

    def chosen(folder: str) -> Settings:
        return Settings(data_dir=folder, database_url=options.database_url, webhook_allow_loopback=True)

    if options.worker:
        asyncio.run(work(chosen(options.worker)))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(measure(chosen(folder)))
        sizes = asyncio.run(grow(chosen(folder), options.queued, float(str(result["plain_posts_per_second"]))))
    last, first = sizes[-1], sizes[0]
    growth = round(float(str(last["poll_ms"])) / float(str(first["poll_ms"])), 2)
    print(json.dumps(result | {"sizes": sizes, "poll_growth_10_to_10000_endpoints": growth}, indent=2))


if __name__ == "__main__":
    main()
