"""Pages of the events feed: the query, the window it selects from, positions for maps, facets, and formats."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from tantivy import Query

from tollhouse import clock
from tollhouse.config.settings import RecordedDay
from tollhouse.csv_text import write_rows
from tollhouse.services.defense.brief.capability import SHOWN_EVENTS, AreaNaming, Battles, area_words, named_areas
from tollhouse.services.defense.brief.live_events import EventCounts
from tollhouse.services.defense.events.event import Event, EventEntry, EventRecord, FeedSource
from tollhouse.services.defense.events.filter import EventFilter
from tollhouse.services.defense.events.index_rows import RELEVANT, Sort, event_id, slot_end
from tollhouse.services.defense.events.index_search import REPORTED, EventView, entry_position
from tollhouse.services.defense.paging import ABOUT_CURSOR, Cursor, Slice, TotalRelation, read_cursor, write_cursor
from tollhouse.services.defense.related import MOST_NAMING, MOST_RELATED, Likeness, nearest

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


JSON = "application/json"
GEOJSON = "application/geo+json"
CSV = "text/csv"
NDJSON = "application/x-ndjson"

FORMATS = {"json": JSON, "geojson": GEOJSON, "csv": CSV, "ndjson": NDJSON}

CSV_COLUMNS = (
    "id", "title", "event_date", "category", "subcategory", "country", "region", "latitude", "longitude",
    "fatalities", "fatalities_basis", "significance", "severity_tier", "confidence", "story_id", "title_basis",
    "source_urls", "source_count",
)  # fmt: skip

Format = Literal["json", "geojson", "csv", "ndjson"]

# Events compared with one for what both name: those that share the rarest names.
MOST_COMPARED = 200


class EventsQuery(EventFilter, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=100, description="Events per page", examples=[20])] = 20
    cursor: Annotated[Cursor | None, ABOUT_CURSOR] = None
    sort: Annotated[Sort, Meta(description="Largest or latest first; ties are ordered by id")] = "significance"
    format: Annotated[Format | None, Meta(description="The representation; overrides `Accept`")] = None
    facets: FacetNames | None = None

    def link_to(self, cursor: str) -> str:
        """This query for the page after `cursor`, as a relative reference."""
        given = msgspec.to_builtins(replace(self, cursor=cursor))
        pairs = {name: ",".join(map(str, value)) if name == "bbox" else value for name, value in given.items()}
        return f"?{urlencode(pairs)}"


class FeedPage(Struct, frozen=True):
    """What pages of every feed have. `next_cursor` is null on the last page.

    Above 10,000 matches counting may stop: `total_relation` is then `gte`, because there may be more, and else `eq`.

    `coverage` is the share of the window's provider batches that was read, 0..1: counts follow it. `recording` is the
    day that names the bundled recording; null for live data and for files of the operator's.
    `stale` is true when the provider has sent nothing new for an hour.
    """

    count: int
    total: int
    total_relation: TotalRelation
    as_of: str
    window_hours: int
    coverage: float
    source: FeedSource
    recording: RecordedDay | None
    stale: bool
    next_cursor: str | None
    applied_filters: dict[str, Any]


class EventsPage(FeedPage, frozen=True):
    """A page of events. `next_cursor` is null on the last page, and `facets` are the requested ones.

    `stale` is true when the provider has sent nothing new for an hour. Facets of more
    than 100,000 events may be estimates: `facets_share` is then the share of the events that was counted.
    """

    events: list[Event]
    facets: Facets | UnsetType = UNSET
    facets_share: float | UnsetType = UNSET


class PointsQuery(EventFilter, frozen=True, kw_only=True):
    facets: FacetNames | None = None


class PointsPage(FeedPage, frozen=True):
    """The events that pass the filters, in columns: `next_cursor` is always null.

    They are the 20,000 most significant ones where there are more: `count` is then less than `total`.

    `slots_read` are the ends of those 15 minutes of the window of which the provider's files were read. Without events
    in others, nothing is known.
    """

    categories: tuple[str, ...]
    severity_tiers: tuple[str, ...]
    places: list[Place]
    points: PointColumns
    slots_read: list[str]
    facets: Facets | UnsetType = UNSET
    facets_share: float | UnsetType = UNSET


class EventWindow:
    """The events of one revision of the feed. `as_of` is None when nothing is stored."""

    def __init__(self, view: EventView, as_of: datetime | None, source: FeedSource) -> None:
        self.view = view
        self.as_of = as_of
        self.source = source

    def __len__(self) -> int:
        """The number of events that are served unless a request names `relevance`."""
        return sum(self.counts.by_category.values())

    @cached_property
    def counts(self) -> EventCounts:
        """The relevant events by category, severity and country. Reads every row."""
        columns = dict.fromkeys(("category", "severity_tier", "country"), ())
        counted = self.view.value_counts({"relevance": self._relevant[0]}, columns, is_exact=True)
        return EventCounts(*(counted[name].counts for name in columns))

    def warm(self) -> None:
        """Read what all requests need: the counts, and the terms of ranges."""
        _ = self.counts, self.view.buckets

    def page(self, query: EventsQuery, entities: Collection[str] = ()) -> Slice[Event]:
        """The events that pass a query; `entities` as EventView has it. Raises Problem `invalid-parameter`."""
        conditions = self.view.conditions(query, entities).values()
        total = self.view.total(conditions)
        result = self.view.page(conditions, query.sort, query.limit, read_cursor(query.cursor), filters=query)
        cursor = write_cursor(entry_position(result.entries[-1], query.sort)) if result.has_more else None
        return Slice([entry.event for entry in result.entries], total.value, cursor, total.relation)

    def get(self, event_id: str) -> EventEntry | None:
        return self.view.get(event_id)

    def most_significant(self, limit: int) -> list[EventEntry]:
        """The first events that are served unless a request names `relevance`."""
        return self.view.page(self._relevant, "significance", limit).entries

    def battles(self) -> Battles:
        """What capability gaps need of the relevant battles."""
        view = self.view
        battles = [*self._relevant, view.term("category", "Battles")]
        terms = view.term_counts(battles, "areas")
        naming = {}
        for area in terms.keys() & area_words().keys():
            words = {word: terms[f"{area}|{word}"] for word in area_words()[area] if f"{area}|{word}" in terms}
            first = view.page([*battles, view.term("areas", area)], "significance", SHOWN_EVENTS).entries
            shown = [(entry.event, named_areas(entry.event)[area]) for entry in first]
            naming[area] = AreaNaming(terms[area], words, shown)
        newest = view.largest(battles, "day")
        return Battles(view.count_exactly(battles), date.fromordinal(newest) if newest else None, naming)

    def related(self, record: EventRecord) -> list[Likeness]:
        """The events of the same story, most significant first, then those whose reports name the same entities."""
        alike = {one.id: one for one in self._alike(record)}
        same: list[EventEntry] = []
        if record.story_id:
            in_story = [*self._relevant, self.view.term("story", record.story_id)]
            same = self.view.page(in_story, "significance", MOST_RELATED + 1).entries
        ids = [entry.event.id for entry in same if entry.event.id != record.id]
        first = {one: alike.get(one) or Likeness(one, 0.0, ()) for one in ids}
        return [*first.values(), *(one for one in alike.values() if one.id not in first)][:MOST_RELATED]

    def _alike(self, record: EventRecord) -> list[Likeness]:
        entries = self.view.naming(record.entities, MOST_NAMING, MOST_COMPARED)
        others = {entry.event.id: frozenset(entry.entities) for entry in entries if entry.event.id != record.id}
        return nearest(frozenset(record.entities), others, self.view.count_naming, len(self))

    @property
    def _relevant(self) -> list[Query]:
        return [self.view.term("relevance", RELEVANT)]


def encode_page(page: EventsPage, media_type: str) -> bytes:
    """The page in one of FORMATS."""
    if media_type == GEOJSON:
        # RFC 7946; the page's own members stand beside `features` as foreign members.
        members = {name: getattr(page, name) for name in page.__struct_fields__ if name != "events"}
        members = {name: value for name, value in members.items() if value is not UNSET}
        features = [_feature(event) for event in page.events]
        return msgspec.json.encode({"type": "FeatureCollection", "features": features, **members})
    if media_type == CSV:
        return _csv(page.events)
    if media_type == NDJSON:
        return b"".join(msgspec.json.encode(event) + b"\n" for event in page.events)
    return msgspec.json.encode(page)


def _feature(event: Event) -> dict[str, Any]:
    members = {name: getattr(event, name) for name in event.__struct_fields__ if name not in ("id", "geo")}
    return {
        "type": "Feature",
        "id": event.id,
        "geometry": {"type": "Point", "coordinates": [event.geo.longitude, event.geo.latitude]},
        "properties": {**members, "country": event.geo.country, "region": event.geo.region},
    }


def _csv(events: list[Event]) -> bytes:
    """Several source URLs are separated by spaces."""
    rows: list[Sequence[object]] = [CSV_COLUMNS]
    for event in events:
        nested = {**msgspec.to_builtins(event.geo), **msgspec.to_builtins(event.metrics)}
        row = {**msgspec.to_builtins(event), **nested, "source_urls": " ".join(event.source_urls)}
        rows.append([row[name] for name in CSV_COLUMNS])
    return write_rows(rows)
