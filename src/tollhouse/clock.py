"""The clock. No other module reads the time."""

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def seconds() -> float:
    """The current time in seconds since 1970."""
    return time.time()


def iso(moment: datetime) -> str:
    """RFC 3339 in UTC with second precision: `2026-01-31T08:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def at(moment: float) -> datetime:
    """The time in UTC of a number of seconds since 1970."""
    return datetime.fromtimestamp(moment, UTC)


def age_seconds(moment: str) -> int:
    """The whole seconds since a time in RFC 3339."""
    return int((now() - datetime.fromisoformat(moment)).total_seconds())
