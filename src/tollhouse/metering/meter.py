"""Meters: count calls against a UTC day and a sliding window."""

from contextlib import suppress
from math import ceil
from typing import Literal, Protocol

from msgspec import Struct

from tollhouse import clock
from tollhouse.storage.counters import Counters, Tally

SECONDS_PER_DAY = 86_400
MAX_SKEW_SECONDS = 60
"""Clocks of servers may differ by this much. What lies further ahead was counted by a clock that was wrong."""

WindowName = Literal["day", "minute", "hour"]
WINDOW_NAMES: dict[int, WindowName] = {SECONDS_PER_DAY: "day", 60: "minute", 3_600: "hour"}


class Windows(Struct, frozen=True):
    """How many calls fit: per UTC day, and within any `sliding_seconds`. None is unlimited."""

    per_day: int | None
    per_sliding: int | None
    sliding_seconds: int = 60


class Level(Struct, frozen=True):
    """How full one window is; `resets_at` is in seconds since 1970."""

    window: WindowName
    seconds: int
    limit: int | None
    used: int
    resets_at: float

    @property
    def remaining(self) -> int | None:
        """Calls left, None where there is no limit."""
        return None if self.limit is None else max(0, self.limit - self.used)


class Verdict(Struct, frozen=True):
    """Whether one more call fits, and how full the windows are after it. `refused_by` is the window that is full."""

    day: Level
    sliding: Level
    refused_by: Level | None = None

    def retry_after_seconds(self, now: float) -> int:
        """Whole seconds until a refused call fits both windows, rounded up, never 0."""
        if self.refused_by is None:
            return 1
        # Just before midnight the minute may be full for longer than the day.
        full = (level for level in (self.day, self.sliding) if level.remaining == 0 or level == self.refused_by)
        return max(1, *(ceil(level.resets_at - now) for level in full))


def reserve(tally: Tally, windows: Windows, now: float, requests: int = 1) -> Verdict:
    """Count one call if it fits both windows, as so many requests of the day; a refused call counts in neither."""
    _roll(tally, windows, now)
    is_day_full = _is_full(windows.per_day, tally.used + requests - 1)
    is_sliding_full = _is_full(windows.per_sliding, len(tally.recent) - tally.past)
    fits = not (is_day_full or is_sliding_full)
    if fits:
        tally.used += requests
        tally.recent.append(now)
    day, sliding = _levels(tally, windows, now)
    return Verdict(day, sliding, None if fits else day if is_day_full else sliding)


def release(tally: Tally, windows: Windows, reserved_at: float, now: float, requests: int = 1) -> Verdict:
    """Release one counted call."""
    _roll(tally, windows, now)
    if int(reserved_at // SECONDS_PER_DAY) == tally.day:
        tally.used = max(0, tally.used - requests)
    with suppress(ValueError):
        del tally.recent[tally.recent.index(reserved_at, tally.past)]
    return Verdict(*_levels(tally, windows, now))


def peek(tally: Tally, windows: Windows, now: float) -> Verdict:
    """How full the windows are, counting nothing."""
    _roll(tally, windows, now)
    return Verdict(*_levels(tally, windows, now))


def _roll(tally: Tally, windows: Windows, now: float) -> None:
    """Drop calls outside the windows, and those that lie ahead."""
    today = int(now // SECONDS_PER_DAY)
    if today > tally.day or tally.day * SECONDS_PER_DAY > now + MAX_SKEW_SECONDS:
        tally.day, tally.used = today, 0
    recent, oldest, past = tally.recent, now - windows.sliding_seconds, tally.past
    while past < len(recent) and recent[past] <= oldest:
        past += 1
    if past * 2 > len(recent):
        del recent[:past]
        past = 0
    tally.past = past
    while len(recent) > past and recent[-1] > now + MAX_SKEW_SECONDS:
        recent.pop()


def _is_full(limit: int | None, used: int) -> bool:
    return limit is not None and used >= limit


def _levels(tally: Tally, windows: Windows, now: float) -> tuple[Level, Level]:
    day = Level("day", SECONDS_PER_DAY, windows.per_day, tally.used, float((tally.day + 1) * SECONDS_PER_DAY))
    return day, Level(
        WINDOW_NAMES[windows.sliding_seconds],
        windows.sliding_seconds,
        windows.per_sliding,
        len(tally.recent) - tally.past,
        _frees_at(tally, windows, now),
    )


def _frees_at(tally: Tally, windows: Windows, now: float) -> float:
    """When the sliding window next has a free place, or one more than now."""
    count = len(tally.recent) - tally.past
    if not count:
        return now
    over = max(0, count - (windows.per_sliding or count))
    return tally.recent[tally.past + over] + windows.sliding_seconds


class Reservation(Struct, frozen=True):
    """One call's place in a subject's windows. `at` is in seconds since 1970; it counts as `requests` of the day.

    `wider` are the places of the same call in the networks around its address.
    """

    subject: str
    windows: Windows
    at: float
    verdict: Verdict
    wider: tuple["Reservation", ...] = ()
    requests: int = 1


class Meter(Protocol):
    """Counts exactly under concurrency. Every method raises Problem `storage-unavailable` when it cannot."""

    async def reserve(self, subject: str, windows: Windows, requests: int = 1) -> Reservation:
        """Count one call, as so many requests of the day, if it fits; else `verdict.refused_by` is set."""

    async def release(self, reservation: Reservation) -> Verdict:
        """Release a counted call."""

    async def peek(self, subject: str, windows: Windows) -> Verdict:
        """How full the windows are, counting nothing."""

    async def close(self) -> None:
        """Write pending counts and close."""


class CounterMeter:
    """A meter over counters in memory, a file or PostgreSQL."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    async def reserve(self, subject: str, windows: Windows, requests: int = 1) -> Reservation:
        """See Meter."""
        now = clock.seconds()
        verdict = await self._counters.change(subject, lambda tally: reserve(tally, windows, now, requests))
        return Reservation(subject, windows, now, verdict, requests=requests)

    async def release(self, reservation: Reservation) -> Verdict:
        """See Meter."""
        subject, windows, at = reservation.subject, reservation.windows, reservation.at
        requests = reservation.requests
        now = clock.seconds()
        return await self._counters.change(subject, lambda tally: release(tally, windows, at, now, requests))

    async def peek(self, subject: str, windows: Windows) -> Verdict:
        """See Meter."""
        now = clock.seconds()
        return await self._counters.change(subject, lambda tally: peek(tally, windows, now))

    async def close(self) -> None:
        """See Meter."""
        await self._counters.close()
