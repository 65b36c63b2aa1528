"""What an answer says about the limits of its caller: the usage headers, and the 429."""

from functools import lru_cache
from math import ceil

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.terms import Terms
from tollhouse.metering.meter import SECONDS_PER_DAY, Level, Reservation, Verdict, Windows

Headers = list[tuple[bytes, bytes]]


def usage_headers(plan: str, verdict: Verdict) -> Headers:
    """Usage headers. X-RateLimit-* describe the day where the plan limits it, else the minute."""
    day, sliding = verdict.day, verdict.sliding
    now = clock.seconds()
    level = sliding if day.limit is None else day
    remaining = [_remaining(window, now) for window in (day, sliding) if window.limit is not None]
    return [
        *_fixed(plan, day.limit, sliding.limit, sliding.window, sliding.seconds),
        (b"x-ratelimit-remaining", b"%d" % (level.remaining or 0)),
        (b"ratelimit", ", ".join(remaining).encode()),
    ]


@lru_cache(maxsize=256)
def _fixed(tier: str, per_day: int | None, per_sliding: int | None, sliding: str, sliding_seconds: int) -> Headers:
    """The headers that depend only on the plan."""
    windows = (("day", per_day, SECONDS_PER_DAY), (sliding, per_sliding, sliding_seconds))
    policy = ", ".join(f'"{name}";q={quota};w={seconds}' for name, quota, seconds in windows if quota is not None)
    return [
        (b"x-credits-tier", tier.encode()),
        (b"x-ratelimit-limit", str(per_sliding if per_day is None else per_day).encode()),
        (b"ratelimit-policy", policy.encode()),
    ]


def _remaining(level: Level, now: float) -> str:
    return f'"{level.window}";r={level.remaining};t={max(0, ceil(level.resets_at - now))}'


def over_limit(plan: str, reservation: Reservation, usage: Headers) -> Problem:
    """A 429 for a call beyond a limit of the plan, with `Retry-After`."""
    full = reservation.verdict.refused_by
    assert full is not None
    # From now, not from the call: others may have been counted in between.
    wait = reservation.verdict.retry_after_seconds(clock.seconds())
    code = "quota-exceeded" if full.window == "day" else "rate-limited"
    problem = Problem(
        code,
        f"Rate limit exceeded: {full.limit} requests per {full.window} on the {plan} plan. Retry after {wait} s.",
        headers={"Retry-After": str(wait)},
        retry_after_seconds=wait,
        window=full.window,
        limit=full.limit,
    )
    problem.usage = usage
    return problem


def allowance_of(terms: Terms, settings: Settings) -> tuple[str, Windows]:
    """The name and size of the allowance of an address that calls count against. It has no sliding window."""
    name = f"address {terms.allowance}" if terms.allowance else "address"
    return name, Windows(terms.free_requests(settings.free_per_ip_per_day), None)
