"""How a source is doing: when it last answered, what went wrong since, and when to ask again."""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

SHORTEST_BACK_OFF_SECONDS = 60
LONGEST_BACK_OFF_SECONDS = 6 * 3600
# However long a source asks us to stay away, we look again within a day.
LONGEST_RETRY_AFTER_SECONDS = 24 * 3600


class FeedHealth(Struct, frozen=True):
    """One source's record. `last_error` is empty after a success; `next_attempt_at` None means at once."""

    last_success: datetime | None = None
    last_error: str = ""
    last_error_at: datetime | None = None
    consecutive_failures: int = 0
    next_attempt_at: datetime | None = None


def is_due(health: FeedHealth, at: datetime) -> bool:
    """Whether the source may be asked at this moment."""
    return health.next_attempt_at is None or at >= health.next_attempt_at


def after_success(health: FeedHealth, at: datetime, interval_seconds: float) -> FeedHealth:
    """The record after an answer, 304 included; the next attempt follows after the source's own interval."""
    return replace(
        health,
        last_success=at,
        last_error="",
        consecutive_failures=0,
        next_attempt_at=at + timedelta(seconds=interval_seconds),
    )


def after_failure(health: FeedHealth, at: datetime, error: str, retry_after_seconds: float | None = None) -> FeedHealth:
    """The record after a failure. `retry_after_seconds` is what the source asked for; it can only lengthen the wait."""
    failures = health.consecutive_failures + 1
    asked = min(retry_after_seconds or 0.0, LONGEST_RETRY_AFTER_SECONDS)
    return replace(
        health,
        last_error=error,
        last_error_at=at,
        consecutive_failures=failures,
        next_attempt_at=at + timedelta(seconds=max(back_off_seconds(failures), asked)),
    )


def back_off_seconds(failures: int) -> float:
    """1, 2, 4 … minutes after the first, second, third … failure in a row, at most 6 hours. Without jitter."""
    # Beyond 2**20 nothing changes but the size of the number.
    doubled = SHORTEST_BACK_OFF_SECONDS * 2.0 ** min(max(failures, 1) - 1, 20)
    return min(doubled, LONGEST_BACK_OFF_SECONDS)
