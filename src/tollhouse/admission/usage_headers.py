"""What is left of the plan, as headers: the documents' own and the IETF's RateLimit fields."""

from functools import lru_cache
from math import ceil

from tollhouse import clock
from tollhouse.metering.windows import SECONDS_PER_DAY, Level, Verdict

Headers = list[tuple[bytes, bytes]]


def usage_headers(plan: str, verdict: Verdict) -> Headers:
    """X-RateLimit-* speak of the day where the plan has a daily limit, else of the minute."""
    day, sliding = verdict.day, verdict.sliding
    now = clock.seconds()
    told = sliding if day.limit is None else day
    left = [_left(level, now) for level in (day, sliding) if level.limit is not None]
    return [
        *_fixed(plan, day.limit, sliding.limit, sliding.window, sliding.seconds),
        (b"x-ratelimit-remaining", b"%d" % (told.remaining or 0)),
        (b"ratelimit", ", ".join(left).encode()),
    ]


@lru_cache(maxsize=256)
def _fixed(tier: str, per_day: int | None, per_sliding: int | None, sliding: str, sliding_seconds: int) -> Headers:
    """The part that only depends on the plan."""
    windows = (("day", per_day, SECONDS_PER_DAY), (sliding, per_sliding, sliding_seconds))
    policy = ", ".join(f'"{name}";q={quota};w={seconds}' for name, quota, seconds in windows if quota is not None)
    return [
        (b"x-credits-tier", tier.encode()),
        (b"x-ratelimit-limit", str(per_sliding if per_day is None else per_day).encode()),
        (b"ratelimit-policy", policy.encode()),
    ]


def _left(level: Level, now: float) -> str:
    return f'"{level.window}";r={level.remaining};t={max(0, ceil(level.resets_at - now))}'
