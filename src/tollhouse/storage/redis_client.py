"""A client of one Redis, or of a Redis Cluster, as the setting `redis_url` names it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

TIMEOUT_SECONDS = 2.0
CONNECTIONS = 50
CLUSTER = "+cluster://"


def node_url(url: str) -> str:
    """The URL of one server: that of a cluster without `+cluster`."""
    return url.replace(CLUSTER, "://", 1)


class RedisClient:
    """Runs scripts. Raises RedisError and OSError. A call waits for a free connection, at most TIMEOUT_SECONDS."""

    def __init__(self, url: str) -> None:
        timeouts: dict[str, Any] = {"socket_timeout": TIMEOUT_SECONDS, "socket_connect_timeout": TIMEOUT_SECONDS}
        self._is_cluster = CLUSTER in url
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._first = asyncio.Lock()
        self._is_connected = False
        self._redis: Any
        if self._is_cluster:
            # Its pool refuses those beyond its bound, and a call that ran may not be tried again: it might count twice.
            self._redis = RedisCluster.from_url(
                node_url(url), max_connections=CONNECTIONS, retry=Retry(NoBackoff(), 0), **timeouts
            )
        else:
            pool = BlockingConnectionPool.from_url(
                url, max_connections=CONNECTIONS, timeout=TIMEOUT_SECONDS, **timeouts
            )
            self._redis = Redis.from_pool(pool)

    def script(self, text: str) -> Any:
        """The script, to give to `run`."""
        return self._redis.register_script(text)

    async def run(self, script: Any, keys: Sequence[bytes], args: Sequence[str | int | float]) -> Any:
        """Run a script whose keys are all in one slot."""
        async with self._turn():
            return await script(keys=list(keys), args=list(args))

    async def run_ids(self) -> frozenset[str]:
        """The identity of each server with data, another one after it started again."""
        async with self._turn():
            if not self._is_cluster:
                return frozenset({(await self._redis.info("server")).get("run_id", "")})
            servers = await self._redis.info("server", target_nodes=RedisCluster.PRIMARIES)
            # Of a cluster of one server its answer, of several one for each.
            answers = [servers] if "run_id" in servers else list(servers.values())
            return frozenset(answer["run_id"] for answer in answers)

    async def close(self) -> None:
        await self._redis.aclose()

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if not self._is_cluster:
            yield
            return
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise RedisConnectionError("no free connection") from None
        try:
            if not self._is_connected:
                # Concurrent first calls would use connections that are not made yet.
                async with self._first:
                    await self._redis.initialize()
                    self._is_connected = True
            yield
        finally:
            self._turns.release()
