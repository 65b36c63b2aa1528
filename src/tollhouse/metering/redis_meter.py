"""A meter in Redis, for processes on several machines: the rule of `windows.py` as one atomic script."""

from collections.abc import Sequence
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.metering.meter import SECONDS_PER_DAY, WINDOW_NAMES, Level, Reservation, Verdict, Windows

log = logger("metering")

TIMEOUT_SECONDS = 2.0
CONNECTIONS = 50

# KEYS: the day's count, the recent calls. ARGV: what to do, now, sliding seconds, per day, per sliding (-1 is
# unlimited), the reservation's moment. Answers used, recent count, the call whose leaving frees a place, and the
# window that refused (0 none, 1 day, 2 sliding).
_SCRIPT = """
local now, span = tonumber(ARGV[2]), tonumber(ARGV[3])
local per_day, per_sliding = tonumber(ARGV[4]), tonumber(ARGV[5])
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
  if per_day >= 0 and used >= per_day then refused = 1
  elseif per_sliding >= 0 and recent >= per_sliding then refused = 2
  else
    used = redis.call('INCR', KEYS[1])
    recent = redis.call('RPUSH', KEYS[2], ARGV[2])
    redis.call('EXPIRE', KEYS[1], 172800)
    redis.call('EXPIRE', KEYS[2], math.ceil(span) + 1)
  end
elseif ARGV[1] == 'release' then
  if used > 0 then used = redis.call('DECR', KEYS[1]) end
  recent = recent - redis.call('LREM', KEYS[2], 1, ARGV[6])
end
local place = 0
if per_sliding >= 0 and recent > per_sliding then place = recent - per_sliding end
return {used, recent, redis.call('LINDEX', KEYS[2], place) or ARGV[2], refused}
"""


class RedisMeter:
    """See Meter."""

    def __init__(self, url: str) -> None:
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

    async def reserve(self, subject: str, windows: Windows) -> Reservation:
        """See Meter."""
        now = clock.seconds()
        return Reservation(subject, windows, now, await self._run("reserve", subject, windows, now))

    async def release(self, reservation: Reservation) -> Verdict:
        """See Meter."""
        return await self._run("release", reservation.subject, reservation.windows, reservation.at)

    async def peek(self, subject: str, windows: Windows) -> Verdict:
        """See Meter."""
        return await self._run("peek", subject, windows, clock.seconds())

    async def close(self) -> None:
        """Give the connections back."""
        await self._redis.aclose()

    async def _run(self, action: str, subject: str, windows: Windows, at: float) -> Verdict:
        day = int(at // SECONDS_PER_DAY)
        now = clock.seconds() if action == "release" else at
        keys = [f"tollhouse:{{{subject}}}:{day}", f"tollhouse:{{{subject}}}:recent:{windows.sliding_seconds}"]
        limits = [-1 if limit is None else limit for limit in (windows.per_day, windows.per_sliding)]
        arguments: list[str | int] = [action, repr(now), windows.sliding_seconds, *limits, repr(at)]
        try:
            answer = await self._script(keys=keys, args=arguments)
        except (RedisError, OSError) as error:
            log.warning("redis unavailable", error=str(error))
            raise Problem(
                "storage-unavailable",
                "Usage cannot be counted right now. Try again shortly.",
                headers={"Retry-After": "1"},
                retry_after_seconds=1,
            ) from error
        return _verdict(answer, windows, day, now)


def _verdict(answer: Sequence[Any], windows: Windows, day: int, now: float) -> Verdict:
    used, recent, first, refused = int(answer[0]), int(answer[1]), float(answer[2]), int(answer[3])
    span = windows.sliding_seconds
    frees_at = first + span if recent else now
    daily = Level("day", SECONDS_PER_DAY, windows.per_day, used, float((day + 1) * SECONDS_PER_DAY))
    sliding = Level(WINDOW_NAMES[span], span, windows.per_sliding, recent, frees_at)
    return Verdict(daily, sliding, refused_by=(None, daily, sliding)[refused])
