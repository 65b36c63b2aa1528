"""What time it is: the one place that reads the clock."""

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)


def seconds() -> float:
    """The present moment in seconds since 1970, for arithmetic on windows."""
    return time.time()


def iso(moment: datetime) -> str:
    """RFC 3339 in UTC with second precision: `2026-01-31T08:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def at(moment: float) -> datetime:
    """The moment that many seconds after 1970, in UTC."""
    return datetime.fromtimestamp(moment, UTC)
