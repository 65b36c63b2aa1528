"""Who gets the attempts that can be made at once: fairly, so that a dead or slow receiver delays nobody else's.

Everything here is a decision, no I/O.
"""

from collections.abc import Sequence

from msgspec import Struct


class Capacity(Struct, frozen=True):
    """How many attempts at once: over all, to all suspects, to one endpoint, to one unproven; and how long each."""

    overall: int = 256
    suspects: int = 128
    each: int = 8
    each_unproven: int = 2
    attempt_seconds: float = 20.0


USUAL = Capacity()


class Waiting(Struct, frozen=True):
    """An endpoint for which something is due.

    A suspect failed or was slow the last time: it may hold an attempt for long, and so may one that is not proven,
    because it has never taken anything. `served_at` counts the turns in which endpoints were served.
    """

    endpoint_id: str
    is_suspect: bool
    is_proven: bool
    in_flight: int
    served_at: int


def allot(waiting: Sequence[Waiting], capacity: Capacity, in_flight: int, suspects_in_flight: int) -> dict[str, int]:
    """How many more attempts each endpoint may begin: one by one, the longest unserved first."""
    free = capacity.overall - in_flight
    free_for_suspects = min(free, capacity.suspects - suspects_in_flight)
    allotted: dict[str, int] = {}
    line = sorted(waiting, key=lambda one: (one.in_flight, one.served_at))
    while line and free > 0:
        line = [one for one in line if _may(one, allotted, capacity)]
        for one in line:
            if free <= 0 or (one.is_suspect and free_for_suspects <= 0):
                continue
            allotted[one.endpoint_id] = allotted.get(one.endpoint_id, 0) + 1
            free -= 1
            free_for_suspects -= one.is_suspect
        if free_for_suspects <= 0:
            line = [one for one in line if not one.is_suspect]
    return allotted


def _may(one: Waiting, allotted: dict[str, int], capacity: Capacity) -> bool:
    limit = capacity.each if one.is_proven and not one.is_suspect else capacity.each_unproven
    return one.in_flight + allotted.get(one.endpoint_id, 0) < limit
