"""Usage counters: how often each caller has called today and in the last moments."""

from array import array
from collections.abc import Callable
from math import ceil
from struct import Struct
from typing import Protocol, TypeVar

from tollhouse.errors import Problem

Result = TypeVar("Result")

MOST_PER_BUCKET = 65_535
"""The most calls that a bucket counts."""

_SLIDING = Struct("<dIH")
_ADVANCE_TICKS = 16
"""Parts of a second."""
_ADVANCE_BITS = 24


class Tally:
    """Usage of one subject: `used` requests on `day` (days since 1970), and the calls of its sliding window.

    `buckets` counts the calls of `width` seconds each, oldest first: from the first bucket with a call to the one that
    ends at `newest` (seconds since 1970; a bucket ends with that moment). `total` is their sum. `advance_ends` is 0, or
    until when calls counted in advance may be given back: 24 bits of a number of 16ths of a second.
    """

    __slots__ = ("advance_ends", "buckets", "day", "newest", "total", "used", "width")

    def __init__(self, day: int = 0, used: int = 0) -> None:
        self.day = day
        self.used = used
        self.newest = 0.0
        self.total = 0
        self.width = 1
        self.buckets = array("H")
        self.advance_ends = 0

    def packed_sliding(self) -> bytes:
        """The sliding window: `newest`, `total` and `width` (8, 4 and 2 bytes), then 2 bytes for each bucket."""
        return _SLIDING.pack(self.newest, self.total, self.width) + self.buckets.tobytes()

    @classmethod
    def from_packed(cls, day: int, used: int, sliding: bytes) -> "Tally":
        """The tally of a stored row. Without `sliding` the window is empty."""
        tally = cls(day, used)
        if sliding:
            tally.newest, tally.total, tally.width = _SLIDING.unpack_from(sliding)
            tally.buckets.frombytes(sliding[_SLIDING.size :])
        return tally

    def advance(self, now: float, seconds: float) -> None:
        """Note that calls counted now may be given back within so many seconds."""
        self.advance_ends = ceil((now + seconds) * _ADVANCE_TICKS) % (1 << _ADVANCE_BITS) or 1

    def advance_seconds(self, now: float) -> float:
        """For how long calls may be given back: at most a second, 0 if there are none."""
        ticks = (self.advance_ends - int(now * _ADVANCE_TICKS)) % (1 << _ADVANCE_BITS)
        return ticks / _ADVANCE_TICKS if self.advance_ends and ticks <= _ADVANCE_TICKS else 0.0

    def is_over(self, now: float) -> bool:
        """Whether the tally counts nothing that any window still holds: an hour after its last call, on another day."""
        return now // 86_400 > self.day and now > self.newest + 3_660


class Counters(Protocol):
    """Stores tallies. `change` has exclusive access to its subject, across processes."""

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """Apply `rule`, which may modify the tally, and store it. Raises Problem `storage-unavailable`.

        The rule may be applied again to a tally that another process has changed meanwhile: it does nothing else.
        """

    async def close(self) -> None:
        """Write pending changes."""


def uncountable() -> Problem:
    return Problem(
        "storage-unavailable", "Usage cannot be counted right now. Try again shortly.", retry_after_seconds=1
    )


class NoCounters:
    """For a process that handles no requests and so counts none."""

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        raise AssertionError(f"{subject} was counted by {rule} in a process that handles no requests")

    async def close(self) -> None:
        """Nothing to write."""
