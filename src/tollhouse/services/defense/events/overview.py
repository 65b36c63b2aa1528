"""The events of a window that pass a filter, for maps and filter forms: positions in columns, and facet counts."""

from collections.abc import Collection, Mapping
from typing import Annotated

from msgspec import Meta, Struct
from tantivy import Query

from tollhouse import clock
from tollhouse.services.defense.events.index_rows import event_id, slot_end
from tollhouse.services.defense.events.index_search import REPORTED, EventView

# A map cannot show more apart, and they take megabytes.
MOST_POINTS = 20_000
_POINTS = (
    "id_number", "longitude", "latitude", "category_number", "tier_number", "place", "significance", "sources",
    "fatalities", "reported_at",
)  # fmt: skip

# The column with the values of a facet, and the filters that it is counted without: its own.
_COLUMNS = {
    "category": "category",
    "severity_tier": "severity_tier",
    "country": "country",
    "region": "region",
    "reported_at": "reported_slot",
}
_OWN_FILTERS = {"reported_at": (REPORTED,)}
FACETS = tuple(_COLUMNS)

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


def count_facets(view: EventView, conditions: Mapping[str, Query], names: str) -> tuple[Facets, float]:
    """The counts of facets, named as in FacetNames, and the least share of the events that one was counted from.

    The most frequent value first; `reported_at` in the order of time.
    """
    requested = dict.fromkeys(names.split(","))
    columns = {_COLUMNS[name]: _OWN_FILTERS.get(name, (name,)) for name in requested}
    counted = view.value_counts(conditions, columns)
    facets: Facets = {}
    for name in requested:
        counts = counted[_COLUMNS[name]].counts
        if name == "reported_at":
            facets[name] = [FacetValue(clock.iso(slot_end(int(at))), counts[at]) for at in sorted(counts)]
        else:
            ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            facets[name] = [FacetValue(value, count) for value, count in ordered if value]
    return facets, min(counted[_COLUMNS[name]].share for name in requested)


def point_columns(view: EventView, conditions: Collection[Query]) -> tuple[PointColumns, list[Place]]:
    """The columns of the MOST_POINTS most significant of the matching events, and the places that they name."""
    values = view.columns_of(conditions, MOST_POINTS, _POINTS)
    numbers = {number: at for at, number in enumerate(dict.fromkeys(values["place"]))}
    columns = PointColumns(
        id=list(map(event_id, values["id_number"])),
        longitude=[round(value, 4) for value in values["longitude"]],
        latitude=[round(value, 4) for value in values["latitude"]],
        category=values["category_number"],
        severity_tier=values["tier_number"],
        place=[numbers[number] for number in values["place"]],
        significance=[value / 10_000 for value in values["significance"]],
        source_count=values["sources"],
        fatalities=values["fatalities"],
        reported_at=[value // 1_000_000 for value in values["reported_at"]],
    )
    return columns, [Place(*view.place(number)) for number in numbers]
