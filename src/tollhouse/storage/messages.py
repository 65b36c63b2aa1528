"""Messages between the processes of a server: through Redis, PostgreSQL's NOTIFY, or within one process only.

A message may get lost, for example while a connection is replaced, and may arrive twice. It only makes a change known
sooner: code that relies on it also polls the database.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from tollhouse.config.settings import SettingError, Settings
from tollhouse.logs import logger
from tollhouse.storage.database import Database

log = logger("storage")

CHANNEL = "tollhouse"
SEND_SECONDS = 2.0
RECONNECT_SECONDS = 1.0

_NOTIFY = text("SELECT pg_notify(:channel, :message)")

Handler = Callable[[str], None]


class Messages:
    """Messages within this process, which are all there are on SQLite."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {}

    def subscribe(self, topic: str, handler: Handler) -> None:
        """Call `handler` with the text of every message of a topic (a word)."""
        self._handlers.setdefault(topic, []).append(handler)

    async def publish(self, topic: str, content: str) -> None:
        """Send a message of at most 7,000 bytes, after the change that it reports is committed. Never raises."""
        self._deliver(f"{topic} {content}")
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(f"{topic} {content}")
        except Exception as error:  # noqa: BLE001 - a message may be lost, whatever the reason
            log.warning("message not sent", topic=topic, error=str(error) or type(error).__name__)

    async def run(self) -> None:
        """Receive the messages of other processes, until cancelled."""
        while True:
            try:
                await self._receive()
            except Exception as error:  # noqa: BLE001 - whatever it is, the connection is made again
                log.warning("message connection lost", error=str(error) or type(error).__name__)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def close(self) -> None:
        """Close the connections that messages were sent on."""

    async def _send(self, message: str) -> None:
        """Send to the other processes."""

    async def _receive(self) -> None:
        """Deliver what other processes send while the connection lasts."""
        await asyncio.Event().wait()

    def _deliver(self, message: str) -> None:
        topic, _, content = message.partition(" ")
        for handler in self._handlers.get(topic, ()):
            handler(content)


class PostgresMessages(Messages):
    """Messages by NOTIFY, received on a connection of their own.

    A pooler that shares connections between transactions passes no notification on: then all of them are lost.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    async def _send(self, message: str) -> None:
        # A transaction of its own: a commit with NOTIFY waits for all others.
        async with self._database.writing() as connection:
            await connection.execute(_NOTIFY, {"channel": CHANNEL, "message": message})

    async def _receive(self) -> None:
        def received(_connection: object, _process: int, _channel: str, message: str) -> None:
            self._deliver(message)

        is_lost = asyncio.Event()
        async with self._database.driver_connection() as connection:
            connection.add_termination_listener(lambda _: is_lost.set())
            await connection.add_listener(CHANNEL, received)
            await is_lost.wait()


class RedisMessages(Messages):
    """Messages through `redis`, a client. Each node of a Redis Cluster passes them on to the others."""

    def __init__(self, redis: Any) -> None:
        super().__init__()
        self._redis = redis

    async def _send(self, message: str) -> None:
        await self._redis.publish(CHANNEL, message)

    async def _receive(self) -> None:
        async with self._redis.pubsub(ignore_subscribe_messages=True) as connection:
            await connection.subscribe(CHANNEL)
            async for received in connection.listen():
                data = received["data"]
                self._deliver(data.decode() if isinstance(data, bytes) else str(data))

    async def close(self) -> None:
        await self._redis.aclose()


def open_messages(settings: Settings, database: Database) -> Messages:
    """Messages through what the processes of the settings share. Raises SettingError without the driver of Redis."""
    if not settings.redis_url:
        return Messages() if database.is_sqlite else PostgresMessages(database)
    try:
        from redis.asyncio import Redis

        from tollhouse.storage.redis_client import node_url
    except ModuleNotFoundError:
        raise SettingError("redis_url: needs the extra: pip install 'tollhouse[redis]'") from None
    # A cluster passes a message on to all its servers.
    redis = Redis.from_url(
        node_url(settings.redis_url),
        socket_connect_timeout=SEND_SECONDS,
        socket_keepalive=True,
        health_check_interval=5,
    )
    return RedisMessages(redis)
