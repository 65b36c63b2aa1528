"""Counting calls against windows, wherever the counts are kept."""

from typing import Protocol

from msgspec import Struct

from tollhouse import clock
from tollhouse.metering import windows as rules
from tollhouse.metering.windows import Verdict, Windows
from tollhouse.storage.counters import Counters


class Reservation(Struct, frozen=True):
    """One call's place in a subject's windows. `at` is in seconds since 1970."""

    subject: str
    windows: Windows
    at: float
    verdict: Verdict


class Meter(Protocol):
    """Counts exactly under concurrency. Every method raises Problem `storage-unavailable` when it cannot."""

    async def reserve(self, subject: str, windows: Windows) -> Reservation:
        """Count one call if it fits; `verdict.refused_by` tells when it does not."""

    async def release(self, reservation: Reservation) -> Verdict:
        """Give a counted call back."""

    async def look(self, subject: str, windows: Windows) -> Verdict:
        """How full the windows are, counting nothing."""

    async def close(self) -> None:
        """Write what is not written yet."""


class TallyMeter:
    """A meter over tallies in memory, a file or PostgreSQL."""

    def __init__(self, tallies: Counters) -> None:
        self._tallies = tallies

    async def reserve(self, subject: str, windows: Windows) -> Reservation:
        """See Meter."""
        now = clock.seconds()
        verdict = await self._tallies.change(subject, lambda tally: rules.reserve(tally, windows, now))
        return Reservation(subject, windows, now, verdict)

    async def release(self, reservation: Reservation) -> Verdict:
        """See Meter."""
        subject, windows, at = reservation.subject, reservation.windows, reservation.at
        now = clock.seconds()
        return await self._tallies.change(subject, lambda tally: rules.release(tally, windows, at, now))

    async def look(self, subject: str, windows: Windows) -> Verdict:
        """See Meter."""
        now = clock.seconds()
        return await self._tallies.change(subject, lambda tally: rules.look(tally, windows, now))

    async def close(self) -> None:
        """See Meter."""
        await self._tallies.close()
