"""Fatality records of researched providers (UCDP, ACLED), and matching them to events."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from math import asin, cos, radians, sin, sqrt
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.event import EventRecord

FatalityProvider = Literal["ucdp", "acled"]
Coded = TypeVar("Coded")

DAYS_APART = timedelta(days=1)
KM_APART = 50.0
# For records located at the exact place.
PRECISE_KM_APART = 25.0
LONGEST_DAYS = 2

_EARTH_KM = 6371.0


class FatalityRecord(Struct, frozen=True):
    """A violent event as coded by a provider's researchers. `best`, `high` and `low` count deaths.

    `country` is ISO 3166-1 alpha-2. `days` is how many days the record covers from `date` on, 1 for one day.
    `where_precision`: 1 the place itself, 2 near it or within about 25 km, 3 the district, 4 and more a province or
    a country, with placeholder coordinates (in degrees). `source_url` is the provider's page, empty if there is none.
    """

    provider: FatalityProvider
    id: str
    date: date
    days: int
    country: str
    latitude: float
    longitude: float
    best: int
    high: int
    low: int
    headline: str
    where_precision: int
    source_url: str


class FatalityRecords(Struct, frozen=True):
    """The usable records of a provider and the number of unusable ones."""

    records: list[FatalityRecord]
    bad: int

    def __add__(self, other: "FatalityRecords") -> "FatalityRecords":
        return FatalityRecords(self.records + other.records, self.bad + other.bad)


def parse_records(
    events: Sequence[dict[str, Any]], kind: type[Coded], record: Callable[[Coded], FatalityRecord]
) -> FatalityRecords:
    """Convert raw events, whose numbers may be strings. `record` raises ValueError for an unusable event."""
    records: list[FatalityRecord] = []
    for event in events:
        try:
            records.append(record(msgspec.convert(event, kind, strict=False)))
        except ValueError:
            continue
    return FatalityRecords(records, len(events) - len(records))


def match_fatalities(event: EventRecord, records: Iterable[FatalityRecord]) -> FatalityRecord | None:
    """The one record that matches an event; None if none or several match, because a wrong figure is worse than none.

    The event must be violent and in the same country, at most a day and KM_APART kilometres away (PRECISE_KM_APART if
    the record has the exact place), and both must be located more precisely than a province. A record may match
    several events, which then report the same deaths.
    """
    if not event.is_violent or not event.geo.region:
        return None
    matching = [record for record in records if _matches(event, record)]
    return matching[0] if len({(record.provider, record.id) for record in matching}) == 1 else None


def kilometres(latitude1: float, longitude1: float, latitude2: float, longitude2: float) -> float:
    """Great-circle distance between two points in degrees."""
    north1, north2 = radians(latitude1), radians(latitude2)
    half_north, half_east = (north2 - north1) / 2, radians(longitude2 - longitude1) / 2
    chord = sin(half_north) ** 2 + cos(north1) * cos(north2) * sin(half_east) ** 2
    return 2 * _EARTH_KM * asin(min(1.0, sqrt(chord)))


def _matches(event: EventRecord, record: FatalityRecord) -> bool:
    if record.country != event.country_code or record.days > LONGEST_DAYS or record.where_precision > 3:
        return False
    last = record.date + timedelta(days=record.days - 1)
    if not record.date - DAYS_APART <= event.event_date <= last + DAYS_APART:
        return False
    apart = kilometres(event.geo.latitude, event.geo.longitude, record.latitude, record.longitude)
    return apart <= (PRECISE_KM_APART if record.where_precision == 1 else KM_APART)
