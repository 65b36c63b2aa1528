"""The rooms of the house that a service is built from."""

from dataclasses import dataclass

from tollhouse import clock
from tollhouse.access.keys import KeyRing
from tollhouse.metering.meter import Meter
from tollhouse.settings import Settings
from tollhouse.storage.database import Database


@dataclass(frozen=True, slots=True)
class Rooms:
    """What `app.py` hands to every service."""

    settings: Settings
    database: Database
    keys: KeyRing
    meter: Meter
    started_at: float

    def uptime_seconds(self) -> int:
        """Since this process began to serve."""
        return int(clock.seconds() - self.started_at)
