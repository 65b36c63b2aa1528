"""A page of events as JSON, GeoJSON, CSV and NDJSON."""

import csv
import io
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.events.window import Source

JSON = "application/json"
GEOJSON = "application/geo+json"
CSV = "text/csv"
NDJSON = "application/x-ndjson"

FORMATS = {"json": JSON, "geojson": GEOJSON, "csv": CSV, "ndjson": NDJSON}

CSV_COLUMNS = (
    "id", "title", "event_date", "category", "subcategory", "country", "region", "latitude", "longitude",
    "fatalities", "fatalities_basis", "significance", "severity_tier", "confidence", "story_id", "title_basis",
    "source_urls",
)  # fmt: skip


class EventsPage(Struct, frozen=True):
    """A page of the feed. `next_cursor` is null on the last one; `stale`: nothing new from the provider for an hour."""

    events: list[Event]
    count: int
    total: int
    as_of: str | None
    window_hours: int
    source: Source
    stale: bool
    next_cursor: str | None
    applied_filters: dict[str, Any]


def encoded(page: EventsPage, media_type: str) -> bytes:
    """The page in one of FORMATS."""
    if media_type == GEOJSON:
        return msgspec.json.encode(_collection(page))
    if media_type == CSV:
        return _table(page.events)
    if media_type == NDJSON:
        return b"".join(msgspec.json.encode(event) + b"\n" for event in page.events)
    return msgspec.json.encode(page)


def _collection(page: EventsPage) -> dict[str, Any]:
    """RFC 7946; the page's own members stand beside `features` as foreign members."""
    about = {name: getattr(page, name) for name in page.__struct_fields__ if name != "events"}
    return {"type": "FeatureCollection", "features": [_feature(event) for event in page.events], **about}


def _feature(event: Event) -> dict[str, Any]:
    members = {name: getattr(event, name) for name in event.__struct_fields__ if name not in ("id", "geo")}
    return {
        "type": "Feature",
        "id": event.id,
        "geometry": {"type": "Point", "coordinates": [event.geo.longitude, event.geo.latitude]},
        "properties": {**members, "country": event.geo.country, "region": event.geo.region},
    }


def _table(events: list[Event]) -> bytes:
    """RFC 4180; several source URLs stand in one field with spaces between them."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CSV_COLUMNS)
    for event in events:
        flat = {**msgspec.to_builtins(event.geo), **msgspec.to_builtins(event.metrics)}
        own = msgspec.to_builtins(event)
        row = {**own, **flat, "source_urls": " ".join(event.source_urls)}
        writer.writerow(row[name] for name in CSV_COLUMNS)
    return out.getvalue().encode()
