"""A meter in Redis or Redis Cluster, for processes on several machines: the rules of `meter.py` as one atomic script.

The day's counts are copied to the database every second. Beside the tallies of each group of subjects Redis holds the
epoch, which is set once the copies are loaded: where Redis was emptied there is none, so it is noticed before anything
is counted. A process that meets a later epoch first raises the counts to those that it saw last.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.metering.meter import SECONDS_PER_DAY, WINDOW_NAMES, Level, Reservation, Verdict, Windows
from tollhouse.metering.redis_script import (
    COUNT,
    GROUPS,
    NEW_EPOCH,
    NEWEST_EPOCH,
    RESTORE,
    epoch_key,
    group_of,
    tally_key,
)
from tollhouse.storage.counters_postgres import StoredCounts
from tollhouse.storage.redis_client import RedisClient

log = logger("metering")

COPY_EVERY_SECONDS = 1.0
RESTORED_AT_ONCE = 500
MOST_TRIES = 4

Counts = Mapping[str, tuple[int, int]]
"""The day (days since 1970) and the requests of that day by subject."""


class RedisMeter:
    """See Meter. Without `stored` the day's counts are lost with Redis."""

    def __init__(self, url: str, stored: StoredCounts | None = None) -> None:
        self._redis = RedisClient(url)
        self._count_script = self._redis.script(COUNT)
        self._restore_script = self._redis.script(RESTORE)
        self._epoch_script = self._redis.script(NEW_EPOCH)
        self._stored = stored
        self._uncopied: dict[str, tuple[int, int]] = {}
        self._copied: dict[str, tuple[int, int]] = {}
        self._copying: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()
        self._mending: asyncio.Task[None] | None = None
        self._epoch = 0.0
        self._run_ids: frozenset[str] = frozenset()
        # After an error another server may answer at this address, or the same one with the counts of its last dump.
        self._must_check = True

    async def reserve(self, subject: str, windows: Windows, requests: int = 1) -> Reservation:
        """See Meter."""
        now = clock.seconds()
        verdict = await self._run("reserve", subject, windows, repr(now), repr(now), requests)
        return Reservation(subject, windows, now, verdict, requests=requests)

    async def release(self, reservation: Reservation) -> Verdict:
        """See Meter."""
        subject, windows, requests = reservation.subject, reservation.windows, reservation.requests
        return await self._run("release", subject, windows, repr(clock.seconds()), repr(reservation.at), requests)

    async def peek(self, subject: str, windows: Windows) -> Verdict:
        """See Meter."""
        now = repr(clock.seconds())
        return await self._run("peek", subject, windows, now, now, 1)

    async def close(self) -> None:
        """Copy the counts, and give the connections back."""
        self._is_closing.set()
        if self._copying:
            await self._copying
        await self._redis.close()

    async def _run(self, action: str, subject: str, windows: Windows, *values: str | int) -> Verdict:
        """Run the script. `values` are now, the reservation's moment and its requests."""
        now, reserved_at, requests = values
        keys = [tally_key(subject), epoch_key(group_of(subject))]
        limits = [-1 if limit is None else limit for limit in (windows.per_day, windows.per_sliding)]
        arguments = [action, now, windows.sliding_seconds, *limits, reserved_at, requests]
        try:
            if self._must_check:
                await self._once(self._check_servers)
            answer = await self._count(keys, arguments)
        except (RedisError, OSError) as error:
            self._must_check = True
            log.warning("redis unavailable", error=str(error))
            raise _unavailable() from error
        if windows.per_day is not None and action != "peek" and not answer[4]:
            self._uncopied[subject] = int(answer[0]), int(answer[1])
            if self._copying is None:
                self._copying = asyncio.create_task(self._copy_until_closing())
        return _verdict(answer, windows)

    async def _count(self, keys: Sequence[bytes], arguments: Sequence[str | int]) -> Sequence[Any]:
        """Run the script in the epoch of its group. Raises Problem, RedisError, OSError."""
        for _ in range(MOST_TRIES):
            known = self._epoch
            answer: Sequence[Any] = await self._redis.run(self._count_script, keys, [*arguments, repr(known)])
            if len(answer) > 1:
                return answer
            await self._once(partial(self._join, known, answer))
        raise _unavailable()

    async def _once(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do this, or wait for what another call does. Raises what that raises."""
        if self._mending is None:
            self._mending = asyncio.create_task(work())
            self._mending.add_done_callback(self._forget_mending)
        await asyncio.shield(self._mending)

    def _forget_mending(self, task: asyncio.Task[None]) -> None:
        self._mending = None
        if not task.cancelled():
            # Seen by those that wait for it, if they still do.
            task.exception()

    async def _check_servers(self) -> None:
        """Restore the counts if a server is another one than before."""
        run_ids = await self._redis.run_ids()
        if self._run_ids and run_ids != self._run_ids:
            await self._restore_all()
        self._run_ids, self._must_check = run_ids, False

    async def _join(self, known: float, answer: Sequence[Any]) -> None:
        """Take over the epoch that another process has begun; begin one where there is none."""
        if self._epoch != known:
            return
        if not answer or answer[0] is None:
            await self._restore_all()
        elif self._epoch:
            epoch = float(answer[0])
            await self._restore({**self._copied, **self._uncopied}, "")
            self._epoch = epoch
        else:
            self._epoch = float(answer[0])

    async def _restore_all(self) -> None:
        """Load the copies of the day's counts, then begin an epoch. Raises Problem, RedisError."""
        yesterday = int(clock.seconds() // SECONDS_PER_DAY) - 1
        stored = await self._stored.since(yesterday) if self._stored else []
        counts = {subject: (day, used) for subject, day, used in stored}
        for subject, count in {**self._copied, **self._uncopied}.items():
            counts[subject] = max(count, counts.get(subject, count))
        known, proposed = repr(self._epoch), repr(max(clock.seconds(), self._epoch + 1e-3))
        epoch = float(await self._redis.run(self._epoch_script, [NEWEST_EPOCH], [known, proposed]))
        await self._restore(counts, repr(epoch))
        self._epoch = epoch
        if counts:
            log.warning("redis had lost its counts; the day's are restored", subjects=len(counts))

    async def _restore(self, counts: Counts, epoch: str) -> None:
        """Raise the counts to these, and set the epoch of every group unless it is empty."""
        groups: dict[int, list[str]] = {group: [] for group in range(GROUPS)} if epoch else {}
        for subject in counts:
            groups.setdefault(group_of(subject), []).append(subject)
        await asyncio.gather(*(self._restore_group(group, names, counts, epoch) for group, names in groups.items()))

    async def _restore_group(self, group: int, names: Sequence[str], counts: Counts, epoch: str) -> None:
        for start in range(0, max(1, len(names)), RESTORED_AT_ONCE):
            part = names[start : start + RESTORED_AT_ONCE]
            is_last = start + RESTORED_AT_ONCE >= len(names)
            arguments: list[str | int] = [epoch if is_last else "", repr(clock.seconds())]
            arguments += [value for name in part for value in counts[name]]
            await self._redis.run(self._restore_script, [*map(tally_key, part), epoch_key(group)], arguments)

    async def _copy_until_closing(self) -> None:
        cleaned_on = 0
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closing.wait(), COPY_EVERY_SECONDS)
            copied, self._uncopied = self._uncopied, {}
            self._copied = copied
            if not self._stored:
                continue
            yesterday = int(clock.seconds() // SECONDS_PER_DAY) - 1
            try:
                if copied:
                    await self._stored.save(copied)
                if cleaned_on != yesterday:
                    await self._stored.forget_before(yesterday)
                    cleaned_on = yesterday
            except Problem as problem:
                self._uncopied = copied | self._uncopied
                log.warning("usage counts not copied to the database", code=problem.code, subjects=len(copied))


def _unavailable() -> Problem:
    return Problem(
        "storage-unavailable",
        "Usage cannot be counted right now. Try again shortly.",
        headers={"Retry-After": "1"},
        retry_after_seconds=1,
    )


def _verdict(answer: Sequence[Any], windows: Windows) -> Verdict:
    day, used, total, refused = (int(answer[place]) for place in (0, 1, 2, 4))
    frees_at = float(answer[3])
    span = windows.sliding_seconds
    daily = Level("day", SECONDS_PER_DAY, windows.per_day, used, float((day + 1) * SECONDS_PER_DAY))
    sliding = Level(WINDOW_NAMES[span], span, windows.per_sliding, total, frees_at)
    return Verdict(daily, sliding, refused_by=(None, daily, sliding)[refused])
