"""A meter of processes that share a file: calls of a busy caller are counted in advance, several under one lock.

Such an allotment is at most a small part of what remains of each limit. What its process does not use in a moment it
gives back, and a call is refused only when no other process has an allotment any more. So limits are kept as by
CounterMeter: calls are never counted later than they are admitted, and within the same bucket.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial
from itertools import takewhile

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.metering.meter import CounterMeter, Level, Reservation, Verdict, Windows, release, reserve
from tollhouse.storage.counters import MOST_PER_BUCKET, Counters, Tally

ALLOTMENT_SECONDS = 0.1
CHECK_SECONDS = 0.05
GIVEN_BACK_SECONDS = 0.25
"""After so long, what is left of an allotment was given back, unless its process stood still."""
MOST_CALLS = 255
PART = 64
"""An allotment is at most one part in so many of what remains: near a limit there is none."""
MOST_WAITS = 3


class _Allotment:
    """Calls counted in advance, as so many requests of the day; `remaining` of them are not used.

    It holds from `since` until before `until`, in seconds since 1970, within one bucket and one day. `verdict` is that
    of the call before them.
    """

    __slots__ = ("calls", "remaining", "remaining_requests", "requests", "since", "until", "verdict", "windows")

    def __init__(self, verdict: Verdict, windows: Windows, since: float) -> None:
        self.verdict = verdict
        self.windows = windows
        self.since = since
        self.until = since + ALLOTMENT_SECONDS
        self.calls = self.remaining = self.requests = self.remaining_requests = 0

    @property
    def is_used_up(self) -> bool:
        return not (self.remaining or self.remaining_requests)

    def holds(self, at: float) -> bool:
        return self.since <= at < self.until

    def has(self, requests: int, windows: Windows, now: float) -> bool:
        return (
            self.remaining > 0 and self.remaining_requests >= requests and self.holds(now) and self.windows == windows
        )

    def use(self, calls: int, requests: int) -> Verdict:
        """Use so many calls. The verdict after them."""
        self.remaining -= calls
        self.remaining_requests -= requests
        return _counted_more(self.verdict, self.calls - self.remaining, self.requests - self.remaining_requests)

    def take(self, tally: Tally, expected: int, requests: int) -> None:
        """Count up to so many more calls, of so many requests each. The tally has counted the call before them."""
        newest, day, sliding = tally.newest, self.verdict.day, self.verdict.sliding
        if not newest - tally.width < self.since <= newest:
            # The clock is behind that of another process.
            return
        calls = min(expected, MOST_CALLS, MOST_PER_BUCKET - tally.buckets[-1])
        if day.remaining is not None:
            calls = min(calls, day.remaining // (PART * requests))
        if sliding.remaining is not None:
            calls = min(calls, sliding.remaining // PART)
        if calls > 0:
            self.calls = self.remaining = calls
            self.requests = self.remaining_requests = calls * requests
            self.until = min(self.until, newest, day.resets_at, sliding.resets_at)
            tally.used += self.requests
            tally.buckets[-1] += calls
            tally.total += calls
            tally.advance(self.since, GIVEN_BACK_SECONDS)

    def give_back(self, tally: Tally) -> None:
        if not self.is_used_up:
            release(tally, self.windows, self.since, clock.seconds(), self.remaining_requests, self.remaining)

    def expected(self, now: float) -> int:
        """How many calls to take next: twice as many if they were used in time."""
        return self.calls * 2 + 1 if self.holds(now) else max(0, self.calls - self.remaining)


class AllotmentMeter(CounterMeter):
    """The meter of one of several processes. A process that is killed leaves its allotments counted."""

    def __init__(self, counters: Counters) -> None:
        super().__init__(counters)
        # Oldest first.
        self._allotments: dict[str, _Allotment] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._giving_back: asyncio.Task[None] | None = None

    async def reserve(self, subject: str, windows: Windows, requests: int = 1) -> Reservation:
        now = clock.seconds()
        own = self._allotments.get(subject)
        if own is not None and own.has(requests, windows, now):
            return Reservation(subject, windows, now, own.use(1, requests), requests=requests)
        for _ in range(MOST_WAITS):
            now = clock.seconds()
            verdict, others_seconds = await self._count(subject, windows, requests, now)
            if verdict.refused_by is None or not others_seconds:
                break
            await asyncio.sleep(others_seconds)
        return Reservation(subject, windows, now, verdict, requests=requests)

    async def release(self, reservation: Reservation) -> Verdict:
        own, now = self._allotments.get(reservation.subject), clock.seconds()
        if own is not None and own.holds(reservation.at) and own.has(0, reservation.windows, now):
            return own.use(-1, -reservation.requests)
        return self._without_unused(reservation.subject, await super().release(reservation))

    async def peek(self, subject: str, windows: Windows) -> Verdict:
        return self._without_unused(subject, await super().peek(subject, windows))

    async def close(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._giving_back:
            await self._giving_back
        await self._give_back(dict(self._allotments))
        await super().close()

    async def _count(self, subject: str, windows: Windows, requests: int, now: float) -> tuple[Verdict, float]:
        """Count a call, and take an allotment for the next ones.

        The verdict, and for how many seconds others may give calls back.
        """

        def rule(tally: Tally) -> tuple[_Allotment, float]:
            others_seconds = tally.advance_seconds(now)
            own = self._allotments.get(subject)
            expected = own.expected(now) if own else 0
            if own:
                own.give_back(tally)
            made = _Allotment(reserve(tally, windows, now, requests), windows, now)
            if expected and made.verdict.refused_by is None:
                made.take(tally, expected, requests)
            return made, others_seconds

        made, others_seconds = await self._counters.change(subject, rule)
        # Nothing else ran since the rule was applied: a call that waits for the lock applies it later.
        self._allotments.pop(subject, None)
        self._allotments[subject] = made
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._end_some)
        return made.verdict, others_seconds

    def _without_unused(self, subject: str, verdict: Verdict) -> Verdict:
        own = self._allotments.get(subject)
        return (
            _counted_more(verdict, -own.remaining, -own.remaining_requests)
            if own is not None and own.calls
            else verdict
        )

    def _end_some(self) -> None:
        """End the allotments whose time is over, oldest first: those of rare callers are many, and hold no calls."""
        now, self._timer = clock.seconds(), None
        over = dict(takewhile(lambda one: not one[1].holds(now), self._allotments.items()))
        for subject in [subject for subject, own in over.items() if own.is_used_up]:
            del self._allotments[subject], over[subject]
        if over and (self._giving_back is None or self._giving_back.done()):
            self._giving_back = asyncio.create_task(self._give_back(over))
        if self._allotments:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._end_some)

    async def _give_back(self, allotments: Mapping[str, _Allotment]) -> None:
        """Release what is left of them. What the file does not take stays counted.

        Until then they are this process's own, so that a call in the meantime is not given the verdict of unused ones.
        """
        for subject, own in allotments.items():
            if not own.is_used_up:
                with contextlib.suppress(Problem):
                    await self._counters.change(subject, partial(self._release_unused, subject, own))
            if self._allotments.get(subject) is own:
                del self._allotments[subject]
            await asyncio.sleep(0)

    def _release_unused(self, subject: str, own: _Allotment, tally: Tally) -> None:
        if self._allotments.get(subject) is own:
            own.give_back(tally)


def _counted_more(verdict: Verdict, calls: int, requests: int) -> Verdict:
    day, sliding = verdict.day, verdict.sliding
    return Verdict(
        Level(day.window, day.seconds, day.limit, day.used + requests, day.resets_at),
        Level(sliding.window, sliding.seconds, sliding.limit, sliding.used + calls, sliding.resets_at),
    )
