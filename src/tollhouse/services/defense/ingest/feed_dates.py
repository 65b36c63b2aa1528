"""When a feed says something was published: RFC 822, ISO 8601 and their common misspellings, as UTC."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# RFC 822 knows only the American names; these are the others that feeds write, where they mean one thing.
_ZONES = {
    "AEDT": "+1100",
    "AEST": "+1000",
    "CAT": "+0200",
    "CEST": "+0200",
    "CET": "+0100",
    "EAT": "+0300",
    "EEST": "+0300",
    "EET": "+0200",
    "HKT": "+0800",
    "JST": "+0900",
    "KST": "+0900",
    "MSK": "+0300",
    "NZDT": "+1300",
    "NZST": "+1200",
    "PKT": "+0500",
    "SGT": "+0800",
    "WAT": "+0100",
    "WIB": "+0700",
}
_ZONE = re.compile(r"\b[A-Z]{3,4}$")
_LONGEST = 64


def read_moment(text: str) -> datetime | None:
    """The moment in UTC, None for what is no date. A date without a zone is taken as UTC, without a time as 00:00."""
    tidy = " ".join(text[:_LONGEST].split())
    if not tidy:
        return None
    moment = _iso(tidy) or _rfc(_ZONE.sub(lambda zone: _ZONES.get(zone[0], zone[0]), tidy))
    if moment is None:
        return None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return None


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _rfc(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
