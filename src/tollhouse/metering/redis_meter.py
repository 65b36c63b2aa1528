"""A meter in Redis, for processes on several machines: the rules of `meter.py` as one atomic script.

The day's counts are copied to the database every second. Redis holds a key, the epoch, that is set once the copies are
loaded: a Redis that was emptied has none, so it is noticed before anything is counted.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.metering.meter import SECONDS_PER_DAY, WINDOW_NAMES, Level, Reservation, Verdict, Windows
from tollhouse.storage.counters import StoredCounts

log = logger("metering")

EPOCH = "tollhouse:epoch"
COPY_EVERY_SECONDS = 1.0
KEEP_DAY_SECONDS = 172_800
RESTORED_AT_ONCE = 1_000
TIMEOUT_SECONDS = 2.0
CONNECTIONS = 50

# KEYS: the day's count, the recent calls, the epoch. ARGV: what to do, now, sliding seconds, per day, per sliding (-1
# is unlimited), the reservation's moment, how many requests of the day it is. Answers used, recent count, the call
# whose leaving frees a place, and the window that refused (0 none, 1 day, 2 sliding); only -1 where there is no epoch.
_SCRIPT = """
if redis.call('EXISTS', KEYS[3]) == 0 then return {-1} end
local now, span = tonumber(ARGV[2]), tonumber(ARGV[3])
local per_day, per_sliding, requests = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[7])
local oldest = redis.call('LINDEX', KEYS[2], 0)
while oldest and tonumber(oldest) <= now - span do
  redis.call('LPOP', KEYS[2])
  oldest = redis.call('LINDEX', KEYS[2], 0)
end
local newest = redis.call('LINDEX', KEYS[2], -1)
while newest and tonumber(newest) > now + 60 do
  redis.call('RPOP', KEYS[2])
  newest = redis.call('LINDEX', KEYS[2], -1)
end
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
local recent = redis.call('LLEN', KEYS[2])
local refused = 0
if ARGV[1] == 'reserve' then
  if per_day >= 0 and used + requests > per_day then refused = 1
  elseif per_sliding >= 0 and recent >= per_sliding then refused = 2
  else
    used = redis.call('INCRBY', KEYS[1], requests)
    recent = redis.call('RPUSH', KEYS[2], ARGV[2])
    redis.call('EXPIRE', KEYS[1], 172800)
    redis.call('EXPIRE', KEYS[2], math.ceil(span) + 1)
  end
elseif ARGV[1] == 'release' then
  if used > 0 then used = redis.call('DECRBY', KEYS[1], math.min(used, requests)) end
  recent = recent - redis.call('LREM', KEYS[2], 1, ARGV[6])
end
local place = 0
if per_sliding >= 0 and recent > per_sliding then place = recent - per_sliding end
return {used, recent, redis.call('LINDEX', KEYS[2], place) or ARGV[2], refused}
"""

# KEYS: counts of days. ARGV: seconds to keep them, then a count for each. The larger count stays.
_RESTORE = """
for place, key in ipairs(KEYS) do
  local used = tonumber(ARGV[place + 1])
  if tonumber(redis.call('GET', key) or '0') < used then redis.call('SET', key, used, 'EX', ARGV[1]) end
end
"""


class RedisMeter:
    """See Meter. Without `stored` the day's counts are lost with Redis."""

    def __init__(self, url: str, stored: StoredCounts | None = None) -> None:
        # A call waits for a free connection: the default pool refuses those beyond its bound.
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=TIMEOUT_SECONDS,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
        )
        self._redis = Redis.from_pool(pool)
        self._script = self._redis.register_script(_SCRIPT)
        self._restore_script = self._redis.register_script(_RESTORE)
        self._stored = stored
        self._uncopied: dict[str, tuple[int, int]] = {}
        self._copying: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()
        self._restoring = asyncio.Lock()
        self._run_id: object = None
        # After an error another server may answer at this address, or the same one with the counts of its last dump.
        self._must_check = True

    async def reserve(self, subject: str, windows: Windows, requests: int = 1) -> Reservation:
        """See Meter."""
        now = clock.seconds()
        verdict = await self._run("reserve", subject, windows, now, requests)
        return Reservation(subject, windows, now, verdict, requests=requests)

    async def release(self, reservation: Reservation) -> Verdict:
        """See Meter."""
        return await self._run(
            "release", reservation.subject, reservation.windows, reservation.at, reservation.requests
        )

    async def peek(self, subject: str, windows: Windows) -> Verdict:
        """See Meter."""
        return await self._run("peek", subject, windows, clock.seconds())

    async def close(self) -> None:
        """Copy the counts, and give the connections back."""
        self._is_closing.set()
        if self._copying:
            await self._copying
        await self._redis.aclose()

    async def _run(self, action: str, subject: str, windows: Windows, at: float, requests: int = 1) -> Verdict:
        day = int(at // SECONDS_PER_DAY)
        now = clock.seconds() if action == "release" else at
        keys = [_day_key(subject, day), f"tollhouse:{{{subject}}}:recent:{windows.sliding_seconds}", EPOCH]
        limits = [-1 if limit is None else limit for limit in (windows.per_day, windows.per_sliding)]
        arguments: list[str | int] = [action, repr(now), windows.sliding_seconds, *limits, repr(at), requests]
        try:
            if self._must_check:
                await self._check_server()
            answer = await self._script(keys=keys, args=arguments)
            if answer[0] == -1:
                await self._restore(is_needed=self._has_no_epoch)
                answer = await self._script(keys=keys, args=arguments)
        except (RedisError, OSError) as error:
            self._must_check = True
            log.warning("redis unavailable", error=str(error))
            raise _unavailable() from error
        if answer[0] == -1:
            raise _unavailable()
        if self._stored and windows.per_day is not None and action != "peek":
            self._uncopied[subject] = day, int(answer[0])
            if self._copying is None:
                self._copying = asyncio.create_task(self._copy_until_closing(self._stored))
        return _verdict(answer, windows, day, now)

    async def _check_server(self) -> None:
        run_id = (await self._redis.info("server")).get("run_id")
        known, self._run_id, self._must_check = self._run_id, run_id, False
        if known is not None and run_id != known:
            try:
                await self._restore(is_needed=None)
            except BaseException:
                self._run_id = known
                raise

    async def _has_no_epoch(self) -> bool:
        return not await self._redis.exists(EPOCH)

    async def _restore(self, is_needed: Callable[[], Awaitable[bool]] | None) -> None:
        """Load the copies of the day's counts, then set the epoch. Raises Problem, RedisError."""
        async with self._restoring:
            if is_needed and not await is_needed():
                return
            yesterday = int(clock.seconds() // SECONDS_PER_DAY) - 1
            copies = (
                {(subject, day): used for subject, day, used in await self._stored.since(yesterday)}
                if self._stored
                else {}
            )
            for subject, (day, used) in self._uncopied.items():
                copies[subject, day] = max(used, copies.get((subject, day), 0))
            rows = list(copies.items())
            for start in range(0, len(rows), RESTORED_AT_ONCE):
                part = rows[start : start + RESTORED_AT_ONCE]
                keys = [_day_key(subject, day) for (subject, day), _ in part]
                await self._restore_script(keys=keys, args=[KEEP_DAY_SECONDS, *(used for _, used in part)])
            await self._redis.set(EPOCH, repr(clock.seconds()))
            if rows:
                log.warning("redis had lost its counts; the day's are restored", subjects=len(rows))

    async def _copy_until_closing(self, stored: StoredCounts) -> None:
        cleaned_on = 0
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closing.wait(), COPY_EVERY_SECONDS)
            copied, self._uncopied = self._uncopied, {}
            yesterday = int(clock.seconds() // SECONDS_PER_DAY) - 1
            try:
                if copied:
                    await stored.save(copied)
                if cleaned_on != yesterday:
                    await stored.forget_before(yesterday)
                    cleaned_on = yesterday
            except Problem as problem:
                self._uncopied = copied | self._uncopied
                log.warning("usage counts not copied to the database", code=problem.code, subjects=len(copied))


def _day_key(subject: str, day: int) -> str:
    return f"tollhouse:{{{subject}}}:{day}"


def _unavailable() -> Problem:
    return Problem(
        "storage-unavailable",
        "Usage cannot be counted right now. Try again shortly.",
        headers={"Retry-After": "1"},
        retry_after_seconds=1,
    )


def _verdict(answer: Sequence[Any], windows: Windows, day: int, now: float) -> Verdict:
    used, recent, first, refused = int(answer[0]), int(answer[1]), float(answer[2]), int(answer[3])
    span = windows.sliding_seconds
    frees_at = first + span if recent else now
    daily = Level("day", SECONDS_PER_DAY, windows.per_day, used, float((day + 1) * SECONDS_PER_DAY))
    sliding = Level(WINDOW_NAMES[span], span, windows.per_sliding, recent, frees_at)
    return Verdict(daily, sliding, refused_by=(None, daily, sliding)[refused])
