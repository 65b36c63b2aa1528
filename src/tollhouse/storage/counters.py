"""Counts of use, changed one at a time: who has called how often today and in the last moments."""

from collections import deque
from collections.abc import Callable
from struct import pack, unpack
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Tally:
    """One subject's use: `used` calls on `day` (days since 1970), and the moments of its recent calls in seconds."""

    __slots__ = ("day", "recent", "used")

    def __init__(self, day: int = 0, used: int = 0, recent: deque[float] | None = None) -> None:
        self.day = day
        self.used = used
        self.recent: deque[float] = recent if recent is not None else deque()

    def packed(self) -> bytes:
        """The recent moments as 8-byte floats, for a column."""
        return pack(f"<{len(self.recent)}d", *self.recent)

    @classmethod
    def of(cls, day: int, used: int, packed: bytes) -> "Tally":
        """The tally that `packed` came from."""
        return cls(day, used, deque(unpack(f"<{len(packed) // 8}d", packed)))


class Counters(Protocol):
    """Where tallies are kept. `change` runs alone on its subject, whatever else runs anywhere."""

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """Apply `rule`, which may alter the tally, and keep what it left. Raises Problem `storage-unavailable`."""

    async def close(self) -> None:
        """Write what is not written yet."""


class NoCounters:
    """For a process that answers no calls and so has nothing to count."""

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """See Tallies."""
        raise AssertionError(f"{subject} was counted by {rule} in a process that answers no calls")

    async def close(self) -> None:
        """Nothing to write."""
