"""All events of a window that pass a filter, for maps and filter forms: positions in columns, and facet counts."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, get_args

import numpy as np
from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.services.defense.events.event import Category, EventEntry, SeverityTier
from tollhouse.services.defense.events.filter import EventTest

SLOT = timedelta(minutes=15)
_EPOCH = clock.at(0)
_iso = lru_cache(maxsize=256)(clock.iso)
CATEGORIES: tuple[str, ...] = get_args(Category)
SEVERITY_TIERS: tuple[str, ...] = get_args(SeverityTier)

# The values of a facet, and the filters that it is counted without: its own.
_VALUES: dict[str, Callable[[EventEntry], str]] = {
    "category": lambda entry: entry.event.category,
    "severity_tier": lambda entry: entry.event.metrics.severity_tier,
    "country": lambda entry: entry.event.geo.country,
    "region": lambda entry: entry.event.geo.region,
    "reported_at": lambda entry: _iso(slot_end(entry.reported_at)),
}
_OWN_FILTERS = {"reported_at": ("since", "until")}
FACETS = tuple(_VALUES)

_names = "|".join(FACETS)
FacetNames = Annotated[
    str,
    Meta(
        pattern=f"^({_names})(,({_names}))*$",
        description=f"What to count, separated by commas: {', '.join(FACETS)}. Each is counted without its own filter, "
        "under all others; `reported_at` counts each 15 minutes, without `since` and `until`",
        examples=["country,severity_tier"],
    ),
]


class FacetValue(Struct, frozen=True):
    """A value and its number of events. A value of `reported_at` is the end of its 15 minutes."""

    value: str
    count: int


Facets = dict[str, list[FacetValue]]


class Place(Struct, frozen=True):
    """The country and region of events; either is empty where it is not known."""

    country: str
    region: str


class PointColumns(Struct, frozen=True):
    """One value for each event, the most significant first.

    `category`, `severity_tier` and `place` are positions in `categories`, `severity_tiers` and `places`. `reported_at`,
    the time of the latest report, is in seconds since 1970-01-01 UTC.
    """

    id: list[str]
    longitude: list[float]
    latitude: list[float]
    category: list[int]
    severity_tier: list[int]
    place: list[int]
    significance: list[float]
    source_count: list[int]
    fatalities: list[int]
    reported_at: list[int]


class EventMasks:
    """Which entries pass each of some tests, by the filter that a test is of."""

    def __init__(self, entries: Sequence[EventEntry], tests: Mapping[str, EventTest]) -> None:
        self._entries = entries
        self._by_field = {name: np.fromiter(map(test, entries), bool, len(entries)) for name, test in tests.items()}

    def matching(self, without: Sequence[str] = ()) -> list[EventEntry]:
        """The entries that pass every filter except those of `without`, in their order."""
        mask = np.ones(len(self._entries), bool)
        for name, own in self._by_field.items():
            if name not in without:
                mask &= own
        return [self._entries[at] for at in np.flatnonzero(mask).tolist()]

    def facets(self, names: str) -> Facets:
        """The counts of facets, named as in FacetNames. The most frequent first; `reported_at` in the order of time."""
        return {name: self._count(name) for name in dict.fromkeys(names.split(","))}

    def _count(self, name: str) -> list[FacetValue]:
        value = _VALUES[name]
        counts = Counter(map(value, self.matching(_OWN_FILTERS.get(name, (name,)))))
        counts.pop("", None)
        in_time = name == "reported_at"
        ordered = sorted(counts.items(), key=lambda item: item[0] if in_time else (-item[1], item[0]))
        return [FacetValue(value, count) for value, count in ordered]


def point_columns(entries: Sequence[EventEntry]) -> tuple[PointColumns, list[Place]]:
    """The columns of these entries, and the places that they name."""
    places: dict[tuple[str, str], int] = {}
    events = [entry.event for entry in entries]
    columns = PointColumns(
        id=[event.id for event in events],
        longitude=[round(event.geo.longitude, 4) for event in events],
        latitude=[round(event.geo.latitude, 4) for event in events],
        category=[CATEGORIES.index(event.category) for event in events],
        severity_tier=[SEVERITY_TIERS.index(event.metrics.severity_tier) for event in events],
        place=[places.setdefault((event.geo.country, event.geo.region), len(places)) for event in events],
        significance=[event.metrics.significance for event in events],
        source_count=[event.source_count for event in events],
        fatalities=[event.fatalities for event in events],
        reported_at=[int(entry.reported_at.timestamp()) for entry in entries],
    )
    return columns, [Place(*names) for names in places]


def slot_end(moment: datetime) -> datetime:
    """The end of the 15 minutes that a moment is in; a full quarter of an hour ends the 15 minutes before it."""
    return moment + (_EPOCH - moment) % SLOT
