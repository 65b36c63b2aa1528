"""How bytes go to a node and come back over HTTP: pooled, bounded in time and size, never naming the address."""

import asyncio
import logging

import httpx2
from msgspec import Struct

from tollhouse.payments.chain.errors import ChainUnavailable

# It would tell the whole address of every request.
logging.getLogger("httpx2").setLevel(logging.WARNING)

# A node's refusal may come with these, its JSON inside.
_WITH_ANSWER = frozenset({200, 400})


class Bounds(Struct, frozen=True):
    """How long and how large a conversation with a node may get.

    `attempt_seconds` bounds one exchange, `deadline_seconds` all attempts at one question together.
    """

    attempt_seconds: float = 5.0
    deadline_seconds: float = 12.0
    most_attempts: int = 3
    retry_pause_seconds: float = 0.2
    body_bytes: int = 8 * 1024 * 1024
    connections: int = 32
    most_failures: int = 5
    open_seconds: float = 5.0


class Endpoint:
    """One node's HTTP address. Every failure is a ChainUnavailable without a cause that could name it."""

    def __init__(self, url: str, bounds: Bounds) -> None:
        self._url = url
        self._bounds = bounds
        self._client = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=bounds.connections, max_keepalive_connections=bounds.connections),
            # Whatever comes is counted as it comes: no unpacking, so no body that grows.
            headers={"Accept-Encoding": "identity", "Content-Type": "application/json"},
            timeout=bounds.attempt_seconds,
            follow_redirects=False,
        )

    async def post(self, body: bytes) -> bytes:
        """What the node answers to one POST. Raises ChainUnavailable."""
        try:
            async with asyncio.timeout(self._bounds.attempt_seconds):
                return await self._exchange(body)
        except (TimeoutError, httpx2.TimeoutException):
            failure = f"no whole answer within {self._bounds.attempt_seconds:g} seconds"
        # A port that cannot be, for one, comes as a group.
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, ExceptionGroup) as cause:
            failure = type(cause).__name__
        raise ChainUnavailable(failure)

    async def close(self) -> None:
        """Give every connection back."""
        await self._client.aclose()

    async def _exchange(self, body: bytes) -> bytes:
        async with self._client.stream("POST", self._url, content=body) as response:
            if response.status_code not in _WITH_ANSWER:
                raise ChainUnavailable(f"status {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ChainUnavailable("an encoding that was not asked for")
            answer = bytearray()
            async for chunk in response.aiter_raw():
                answer += chunk
                if len(answer) > self._bounds.body_bytes:
                    raise ChainUnavailable(f"more than {self._bounds.body_bytes} bytes")
            return bytes(answer)
