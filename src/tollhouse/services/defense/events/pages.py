"""Pages of the events feed: the query, the window of events it selects from, and the formats of a page."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from tollhouse import clock
from tollhouse.config.settings import RecordedDay
from tollhouse.csv_text import write_rows
from tollhouse.services.defense.events.event import Event, EventEntry, EventRecord, FeedSource
from tollhouse.services.defense.events.filter import EventFilter, EventTest, field_tests, title_words
from tollhouse.services.defense.events.overview import EventMasks, FacetNames, Facets, Place, PointColumns
from tollhouse.services.defense.paging import ABOUT_CURSOR, Cursor, Position, Slice, position, sliced
from tollhouse.services.defense.related import MOST_RELATED, EntityOverlap, Likeness

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

Sort = Literal["significance", "recent", "fatalities"]
Format = Literal["json", "geojson", "csv", "ndjson"]

_DIGITS_ONLY = str.maketrans("", "", "-:TZ")


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

    `coverage` is the share of the window's provider batches that was read, 0..1: counts follow it. `recording` is the
    day that names the bundled recording; null for live data and for files of the operator's.
    `stale` is true when the provider has sent nothing new for an hour.
    """

    count: int
    total: int
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

    `stale` is true when the provider has sent nothing new for an hour.
    """

    events: list[Event]
    facets: Facets | UnsetType = UNSET


class PointsQuery(EventFilter, frozen=True, kw_only=True):
    facets: FacetNames | None = None


class PointsPage(FeedPage, frozen=True):
    """Every event that passes the filters, in columns: `next_cursor` is always null.

    `slots_read` are the ends of those 15 minutes of the window of which the provider's files were read. Without events
    in others, nothing is known.
    """

    categories: tuple[str, ...]
    severity_tiers: tuple[str, ...]
    places: list[Place]
    points: PointColumns
    slots_read: list[str]
    facets: Facets | UnsetType = UNSET


class EventWindow:
    """The events of one revision of the feed, in every sort order. `as_of` is None when nothing is stored."""

    def __init__(self, entries: Iterable[EventEntry], as_of: datetime | None, source: FeedSource) -> None:
        self.as_of = as_of
        self.source = source
        self._entries: dict[Sort, list[EventEntry]] = {"significance": _ordered(entries, "significance")}
        self.entries: Sequence[EventEntry] = self._entries["significance"]
        # The events that are served unless a request names `relevance`.
        self.events: Sequence[Event] = [entry.event for entry in self.entries if entry.is_relevant]

    def __len__(self) -> int:
        return len(self.events)

    def page(self, query: EventsQuery, entities: frozenset[str] = frozenset()) -> Slice[Event]:
        """The events that pass a query; `entities` as event_tests has it. Raises Problem `invalid-parameter`."""
        tests = list(self._tests(query, entities).values())
        if query.sort not in self._entries:
            self._entries[query.sort] = _ordered(self.entries, query.sort)
        matching = [entry for entry in self._entries[query.sort] if all(test(entry) for test in tests)]
        page = sliced(matching, lambda entry: _position(entry, query.sort), query.cursor, query.limit)
        return Slice([entry.event for entry in page.items], page.total, page.next_cursor)

    def masks(self, filters: EventFilter, entities: frozenset[str] = frozenset()) -> EventMasks:
        """Which of all entries pass the filters. Raises Problem `invalid-parameter`."""
        return EventMasks(self.entries, self._tests(filters, entities))

    def _tests(self, filters: EventFilter, entities: frozenset[str]) -> dict[str, EventTest]:
        tests = field_tests(replace(filters, q=None), entities)
        if filters.q is None:
            return tests
        # The index of words gives what the test of `q` would, without reading every title.
        ids = [self._ids_by_word.get(word, set()) for word in title_words(filters.q)]
        titled = set.intersection(*ids) if ids else set()
        return {"q": lambda entry: entry.event.id in titled, **tests}

    @cached_property
    def by_id(self) -> dict[str, EventEntry]:
        """The events by id."""
        return {entry.event.id: entry for entry in self.entries}

    def related(self, record: EventRecord) -> list[Likeness]:
        """The events of the same story, most significant first, then those whose reports name the same entities."""
        alike = {one.id: one for one in self._overlap.nearest(record.id, record.entities)}
        same = self._ids_by_story.get(record.story_id, []) if record.story_id else []
        in_story = {one: alike.get(one) or Likeness(one, 0.0, ()) for one in same if one != record.id}
        return [*in_story.values(), *(one for one in alike.values() if one.id not in in_story)][:MOST_RELATED]

    @cached_property
    def _overlap(self) -> EntityOverlap:
        return EntityOverlap((entry.event.id, entry.entities) for entry in self.entries if entry.is_relevant)

    @cached_property
    def _ids_by_story(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for event in self.events:
            if event.story_id:
                index.setdefault(event.story_id, []).append(event.id)
        return index

    @cached_property
    def _ids_by_word(self) -> dict[str, set[str]]:
        index: dict[str, set[str]] = {}
        for event in (entry.event for entry in self.entries):
            for word in title_words(event.title):
                index.setdefault(word, set()).add(event.id)
        return index


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


def _ordered(entries: Iterable[EventEntry], sort: Sort) -> list[EventEntry]:
    return sorted(entries, key=lambda entry: _position(entry, sort))


def _position(entry: EventEntry, sort: Sort) -> Position:
    """The position by which an order sorts: a whole number that a cursor can carry, then the id."""
    if sort == "significance":
        value = round(entry.event.metrics.significance * 10_000)
    elif sort == "recent":
        value = int(clock.iso(entry.reported_at).translate(_DIGITS_ONLY))
    else:
        value = entry.event.fatalities
    return position(value, entry.event.id)
