"""When to try again: ten attempts over three days, as Standard Webhooks proposes, later where the receiver asks for it.

Everything here is a decision, no I/O.
"""

import random
from datetime import UTC
from email.utils import parsedate_to_datetime

SECOND, MINUTE, HOUR = 1.0, 60.0, 3_600.0
# The pause after the first attempt, the second, and so on; after the tenth attempt there is none: it is parked.
PAUSES = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR)
JITTER = 0.1
LONGEST_ASKED = 24 * HOUR
# A receiver that asks for a pause gets nothing else meanwhile, but for this long at most.
LONGEST_HOLD = HOUR


def pause_after(tries: int, asked_seconds: float | None) -> float | None:
    """Seconds until the next attempt when `tries` have been made; None when that was the last.

    Spread by a tenth either way, so that what failed together does not return together; never sooner than asked.
    """
    if tries > len(PAUSES):
        return None
    spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, guards nothing
    return max(PAUSES[tries - 1] * spread, min(asked_seconds or 0.0, LONGEST_ASKED))


def retry_after_seconds(header: str | None, now: float) -> float | None:
    """What a `Retry-After` of seconds or of a date asks for (RFC 9110, 10.2.3); None where it says nothing usable."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), LONGEST_ASKED))
    try:
        moment = parsedate_to_datetime(text)
        asked = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    return min(max(asked, 0.0), LONGEST_ASKED)
