"""What is left of the plan, as headers: the documents' own and the IETF's RateLimit fields."""

from functools import lru_cache
from math import ceil

from tollhouse import clock
from tollhouse.caller import KeyCaller
from tollhouse.metering.windows import Level, Verdict

Headers = list[tuple[bytes, bytes]]


def usage_headers(caller: KeyCaller, verdict: Verdict) -> Headers:
    """X-RateLimit-* speak of the day where the plan has a daily limit, else of the minute."""
    now = clock.seconds()
    told = verdict.day if verdict.day.limit is not None else verdict.sliding
    levels = [level for level in (verdict.day, verdict.sliding) if level.limit is not None]
    return [
        *_fixed(caller.tier, told.limit, tuple((level.window, level.limit, level.seconds) for level in levels)),
        (b"x-ratelimit-remaining", b"%d" % (told.remaining or 0)),
        (b"ratelimit", ", ".join(_left(level, now) for level in levels).encode()),
    ]


@lru_cache(maxsize=256)
def _fixed(tier: str, limit: int | None, levels: tuple[tuple[str, int | None, int], ...]) -> Headers:
    """The part that only depends on the plan."""
    policy = ", ".join(f'"{name}";q={quota};w={seconds}' for name, quota, seconds in levels)
    return [
        (b"x-credits-tier", tier.encode()),
        (b"x-ratelimit-limit", str(limit).encode()),
        (b"ratelimit-policy", policy.encode()),
    ]


def _left(level: Level, now: float) -> str:
    return f'"{level.window}";r={level.remaining};t={max(0, ceil(level.resets_at - now))}'
