"""A paid response, stored until it was delivered, and the grace period before it is deleted."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

KEPT_SECONDS = 600.0
"""How long the same signed request gets the same answer again (wire contract, section 3, Agents)."""


class StoredResponse(msgspec.Struct, frozen=True):
    """What has to be sent again, byte for byte, when the first sending broke off."""

    status: int
    media_type: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    etag: str = ""
    cache_control: str = ""


LEAVING_SECONDS = 2.0
_ROUND_SECONDS = 0.05

K = TypeVar("K", bound=Hashable)


class Leaving(Generic[K]):
    """Refuses at once what was handed over, and has it forgotten only once it has surely left.

    The HTTP server writes to the connection after it has taken an answer. What a crash keeps from leaving in those
    moments was paid for, and must still be there when its payer asks again.
    """

    def __init__(self, forget: Callable[[K], object]) -> None:
        self._forget = forget
        self._line: deque[tuple[float, K]] = deque()
        self._keys: set[K] = set()
        self._round: asyncio.TimerHandle | None = None

    def __contains__(self, key: K) -> bool:
        return key in self._keys

    def add(self, key: K) -> None:
        """Its answer was handed over just now: `forget` is called with it two seconds later."""
        if key in self._keys:
            return
        loop = asyncio.get_running_loop()
        self._keys.add(key)
        self._line.append((loop.time() + LEAVING_SECONDS, key))
        self._round = self._round or loop.call_later(_ROUND_SECONDS, self._look)

    def close(self) -> None:
        """The server has ended in good order: everything has left."""
        if self._round is not None:
            self._round.cancel()
        self._let_go(float("inf"))

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._let_go(loop.time())
        self._round = loop.call_later(_ROUND_SECONDS, self._look) if self._line else None

    def _let_go(self, now: float) -> None:
        while self._line and self._line[0][0] <= now:
            _, key = self._line.popleft()
            self._keys.discard(key)
            self._forget(key)
