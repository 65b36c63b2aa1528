"""When deliveries are tried again, and how many attempts each endpoint may make at once. Pure functions."""

import random
from collections.abc import Sequence

from msgspec import Struct

SECOND, MINUTE, HOUR = 1.0, 60.0, 3_600.0
# The pause after the first attempt, the second, and so on. After the tenth attempt the delivery is parked.
PAUSES = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR)
JITTER = 0.1
MAX_RETRY_AFTER = 24 * HOUR
# A receiver that asks for a pause gets no other delivery either, for this long at most.
MAX_HOLD = HOUR


def pause_after(tries: int, retry_after: float | None) -> float | None:
    """Seconds until the next attempt after `tries` attempts; None if that was the last.

    With a tenth of jitter, so that what failed together does not return together; never sooner than the receiver asked
    for.
    """
    if tries > len(PAUSES):
        return None
    spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, guards nothing
    return max(PAUSES[tries - 1] * spread, min(retry_after or 0.0, MAX_RETRY_AFTER))


class Capacity(Struct, frozen=True):
    """Limits of concurrent attempts: overall, to suspects, to one endpoint, to one unproven; and seconds of each."""

    overall: int = 512
    suspects: int = 128
    each: int = 32
    each_unproven: int = 2
    attempt_seconds: float = 20.0


DEFAULT_CAPACITY = Capacity()


class Waiting(Struct, frozen=True):
    """An endpoint with due deliveries.

    A suspect failed or was slow last time, so it may hold an attempt for long; so may one that is not proven, because
    it has never accepted a delivery. `in_flight` is that of all processes, and `since` when its deliveries were due.
    """

    endpoint_id: str
    is_suspect: bool
    is_proven: bool
    in_flight: int
    since: float


def allocate(waiting: Sequence[Waiting], capacity: Capacity, in_flight: int, suspects_in_flight: int) -> dict[str, int]:
    """How many attempts each endpoint may start: one at a time, the longest unserved first."""
    free = capacity.overall - in_flight
    free_for_suspects = min(free, capacity.suspects - suspects_in_flight)
    allotted: dict[str, int] = {}
    line = sorted(waiting, key=lambda one: (one.in_flight, one.since))
    while line and free > 0:
        line = [one for one in line if has_capacity(one, one.in_flight + allotted.get(one.endpoint_id, 0), capacity)]
        for one in line:
            if free <= 0 or (one.is_suspect and free_for_suspects <= 0):
                continue
            allotted[one.endpoint_id] = allotted.get(one.endpoint_id, 0) + 1
            free -= 1
            free_for_suspects -= one.is_suspect
        if free_for_suspects <= 0:
            line = [one for one in line if not one.is_suspect]
    return allotted


def has_capacity(one: Waiting, in_flight: int, capacity: Capacity) -> bool:
    """Whether an endpoint may get one more attempt beside these."""
    return in_flight < (capacity.each if one.is_proven and not one.is_suspect else capacity.each_unproven)
