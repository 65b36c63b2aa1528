"""A paid response, stored until it was delivered, and the grace period before it is deleted."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

RESPONSE_TTL_SECONDS = 600.0
"""How long the same signed request gets the same response again (wire contract, section 3, Agents)."""


class StoredResponse(msgspec.Struct, frozen=True):
    """A response to be sent again, byte for byte, if the first sending failed.

    One that `reopens` has no body: it was passed on while it arrived, so the same request is passed on again.
    """

    status: int
    media_type: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    etag: str = ""
    cache_control: str = ""
    passes_through: bool = False
    reopens: bool = False


GRACE_SECONDS = 2.0
_CHECK_SECONDS = 0.05

K = TypeVar("K", bound=Hashable)


class DeliveryGrace(Generic[K]):
    """Keys of responses that were sent just now: refused at once, and forgotten only after a grace period.

    The HTTP server writes to the connection after it has taken a response. A response that a crash loses in that moment
    was paid for, and must still be stored when its payer asks again.
    """

    def __init__(self, forget: Callable[[K], object]) -> None:
        self._forget = forget
        self._queue: deque[tuple[float, K]] = deque()
        self._keys: set[K] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, key: K) -> bool:
        return key in self._keys

    def add(self, key: K) -> None:
        """The response was sent just now: `forget` is called with its key after the grace period."""
        if key in self._keys:
            return
        loop = asyncio.get_running_loop()
        self._keys.add(key)
        self._queue.append((loop.time() + GRACE_SECONDS, key))
        self._timer = self._timer or loop.call_later(_CHECK_SECONDS, self._check)

    def close(self) -> None:
        """Forget everything now: the server stopped in good order."""
        if self._timer is not None:
            self._timer.cancel()
        self._forget_until(float("inf"))

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        self._forget_until(loop.time())
        self._timer = loop.call_later(_CHECK_SECONDS, self._check) if self._queue else None

    def _forget_until(self, now: float) -> None:
        while self._queue and self._queue[0][0] <= now:
            _, key = self._queue.popleft()
            self._keys.discard(key)
            self._forget(key)
