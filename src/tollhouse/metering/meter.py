"""Meters: count calls against a UTC day and a sliding window.

A sliding window is counted in 61 buckets of a 60th of its length, a second for a minute. A call counts until its whole
bucket is past: the limit is never exceeded within any such time, and a call is refused at most one bucket too early.
"""

from array import array
from math import ceil, floor
from typing import Literal, Protocol

from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.storage.counters import MOST_PER_BUCKET, Counters, Tally

SECONDS_PER_DAY = 86_400
MAX_SKEW_SECONDS = 60
"""Clocks of servers may differ by this much. What lies further ahead was counted by a clock that was wrong."""
BUCKETS_PER_WINDOW = 60
"""A window that begins within a bucket touches one more."""

_EMPTY = array("H", bytes(2 * (BUCKETS_PER_WINDOW + 1)))

WindowName = Literal["day", "minute", "hour"]
WINDOW_NAMES: dict[int, WindowName] = {SECONDS_PER_DAY: "day", 60: "minute", 3_600: "hour"}


class Windows(Struct, frozen=True):
    """How many calls fit: per UTC day, and within any `sliding_seconds`. None is unlimited.

    A subject is always counted with the same `sliding_seconds`; with others its sliding window begins anew.
    """

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

    def refusal(self, code: str, detail: str) -> Problem:
        """The problem of a refused call. `detail` may have `{limit}`, `{window}`, and `{wait}` in whole seconds."""
        full = self.refused_by
        assert full is not None, "a window is full"
        # From now, not from the call: others may have been counted in between.
        wait = self.retry_after_seconds(clock.seconds())
        text = detail.format(limit=full.limit, window=full.window, wait=wait)
        return Problem(code, text, retry_after_seconds=wait, window=full.window, limit=full.limit)


def reserve(tally: Tally, windows: Windows, now: float, requests: int = 1) -> Verdict:
    """Count one call if it fits both windows, as so many requests of the day; a refused call counts in neither."""
    _roll(tally, windows, now)
    is_day_full = _is_full(windows.per_day, tally.used + requests - 1)
    is_sliding_full = _is_full(windows.per_sliding, tally.total)
    fits = not (is_day_full or is_sliding_full)
    if fits:
        tally.used += requests
        _add(tally, now)
    day, sliding = _levels(tally, windows, now)
    return Verdict(day, sliding, None if fits else day if is_day_full else sliding)


def release(  # noqa: PLR0913, PLR0917 - as many as reserve and what it counted
    tally: Tally, windows: Windows, reserved_at: float, now: float, requests: int = 1, calls: int = 1
) -> Verdict:
    """Release one counted call, or so many of the same moment, of so many requests together."""
    _roll(tally, windows, now)
    if int(reserved_at // SECONDS_PER_DAY) == tally.day:
        tally.used = max(0, tally.used - requests)
    back = floor((tally.newest - reserved_at) / tally.width)
    if 0 <= back < len(tally.buckets):
        calls = min(calls, tally.buckets[-1 - back])
        tally.buckets[-1 - back] -= calls
        tally.total -= calls
        _trim(tally)
    return Verdict(*_levels(tally, windows, now))


def peek(tally: Tally, windows: Windows, now: float) -> Verdict:
    """How full the windows are, counting nothing."""
    _roll(tally, windows, now)
    return Verdict(*_levels(tally, windows, now))


def _roll(tally: Tally, windows: Windows, now: float) -> None:
    """Drop the buckets outside the window, and those that lie ahead; begin a new day."""
    today = int(now // SECONDS_PER_DAY)
    if today > tally.day or tally.day * SECONDS_PER_DAY > now + MAX_SKEW_SECONDS:
        tally.day, tally.used = today, 0
    width = windows.sliding_seconds // BUCKETS_PER_WINDOW
    if width != tally.width:
        tally.width, tally.total = width, 0
        del tally.buckets[:]
    buckets = tally.buckets
    if not buckets:
        return
    # Mostly nothing is to be dropped.
    if tally.newest - now > MAX_SKEW_SECONDS + width:
        ahead = max(1, ceil((tally.newest - now - MAX_SKEW_SECONDS) / width) - 1)
        tally.total -= sum(buckets[-ahead:])
        del buckets[-ahead:]
        tally.newest -= ahead * width
    if tally.newest - now + windows.sliding_seconds <= (len(buckets) - 1) * width:
        past = len(buckets) - ceil((tally.newest - now + windows.sliding_seconds) / width)
        tally.total -= sum(buckets[:past])
        del buckets[:past]
        _trim(tally)


def _trim(tally: Tally) -> None:
    """The first bucket holds a call; without calls there is none."""
    buckets = tally.buckets
    if tally.total == 0:
        del buckets[:]
        return
    empty = 0
    while not buckets[empty]:
        empty += 1
    del buckets[:empty]


def _add(tally: Tally, now: float) -> None:
    """Count one call in the bucket of its time. The first call of all is at the end of its bucket."""
    buckets = tally.buckets
    if not buckets:
        tally.newest = now
        buckets.append(0)
    elif -tally.width < now - tally.newest <= 0 and buckets[-1] < MOST_PER_BUCKET:
        buckets[-1] += 1
        tally.total += 1
        return
    later = ceil((now - tally.newest) / tally.width)
    if later > 0:
        buckets.extend(_EMPTY[:later])
        tally.newest += later * tally.width
        later = 0
    # A clock that is behind counts in an earlier bucket.
    missing = min(1 - later, BUCKETS_PER_WINDOW + 1) - len(buckets)
    if missing > 0:
        buckets[:0] = _EMPTY[:missing]
    place = max(later - 1, -len(buckets))
    if buckets[place] < MOST_PER_BUCKET:
        buckets[place] += 1
        tally.total += 1


def _is_full(limit: int | None, used: int) -> bool:
    return limit is not None and used >= limit


def _levels(tally: Tally, windows: Windows, now: float) -> tuple[Level, Level]:
    day = Level("day", SECONDS_PER_DAY, windows.per_day, tally.used, float((tally.day + 1) * SECONDS_PER_DAY))
    return day, Level(
        WINDOW_NAMES[windows.sliding_seconds],
        windows.sliding_seconds,
        windows.per_sliding,
        tally.total,
        _frees_at(tally, windows, now),
    )


def _frees_at(tally: Tally, windows: Windows, now: float) -> float:
    """When the sliding window next has a free place, or one more than now."""
    buckets, place = tally.buckets, 0
    if not buckets:
        return now
    over = tally.total - (windows.per_sliding or tally.total)
    if over > 0:
        over -= buckets[0]
        while over >= 0:
            place += 1
            over -= buckets[place]
    return tally.newest - (len(buckets) - 1 - place) * tally.width + windows.sliding_seconds


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
        now = clock.seconds()
        verdict = await self._counters.change(subject, lambda tally: reserve(tally, windows, now, requests))
        return Reservation(subject, windows, now, verdict, requests=requests)

    async def release(self, reservation: Reservation) -> Verdict:
        subject, windows, at = reservation.subject, reservation.windows, reservation.at
        requests = reservation.requests
        now = clock.seconds()
        return await self._counters.change(subject, lambda tally: release(tally, windows, at, now, requests))

    async def peek(self, subject: str, windows: Windows) -> Verdict:
        now = clock.seconds()
        return await self._counters.change(subject, lambda tally: peek(tally, windows, now))

    async def close(self) -> None:
        await self._counters.close()
