"""The events feed: follows the stored events and serves pages and single events."""

import asyncio
import json
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict
from tantivy import Query

from tollhouse import clock
from tollhouse.config.settings import Recorded, RecordedDay
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Example, Request, Response
from tollhouse.http.response import compute_etag
from tollhouse.logs import logger
from tollhouse.periodic import repeat
from tollhouse.services.defense import store
from tollhouse.services.defense.brief.live_events import WHOLE
from tollhouse.services.defense.events.event import (
    WINDOW_HOURS,
    Category,
    Event,
    SeverityTier,
    StoredEvent,
    reasons,
    to_event,
)
from tollhouse.services.defense.events.filter import applied_filters
from tollhouse.services.defense.events.history import (
    FATALITIES_BACK,
    entities_named,
    find_current,
    read_fatalities,
    served_pool,
    with_fatalities,
)
from tollhouse.services.defense.events.index_rows import CATEGORIES, SEVERITY_TIERS
from tollhouse.services.defense.events.index_updates import EventIndex, IndexState
from tollhouse.services.defense.events.pages import (
    CSV,
    FORMATS,
    GEOJSON,
    JSON,
    NDJSON,
    EventsPage,
    EventsQuery,
    EventWindow,
    Facets,
    PointsPage,
    PointsQuery,
    count_facets,
    encode_page,
    point_columns,
)
from tollhouse.services.defense.paging import Slice, example, feed_endpoint, id_parameter
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.related import Likeness, NamedEntity, OutletCountry, country_of_outlet, named_entities
from tollhouse.storage.database import Database

log = logger("events")

REFRESH_SECONDS = 1.0
STALE_AFTER = timedelta(minutes=60)
MOST_CACHED_PAGES = 2_000
# Of every event: up to a megabyte each.
MOST_CACHED_POINTS = 32
# A search among more events runs beside the event loop, and so do columns and facets of more than the second.
MOST_SEARCHED_AT_ONCE = 30_000
MOST_COUNTED_AT_ONCE = 1_000
# While another process of this machine builds the index.
POLL_SECONDS = 0.05

PROVIDER = "The GDELT Project"
LICENCE = "Free for any use with citation of and a link to The GDELT Project, https://www.gdeltproject.org/"

_FEATURE_COLLECTION: dict[str, Any] = {
    "type": "object",
    "description": "A GeoJSON FeatureCollection (RFC 7946); the page's own members stand beside `features`.",
    "required": ["type", "features", "total", "next_cursor"],
    "properties": {
        "type": {"const": "FeatureCollection"},
        "features": {"type": "array", "items": {"type": "object"}},
        "total": {"type": "integer"},
        "next_cursor": {"type": ["string", "null"]},
    },
}


class TimelineEntry(Struct, frozen=True):
    """One report: when it was first seen, its publisher and title, and the deaths that the title gives, if any."""

    reported_at: str
    publisher: str
    title: str
    url: str
    fatalities: int | None
    outlet_country: OutletCountry = None


class RelatedEvent(Struct, frozen=True):
    """Another event of the window. `same_story`, or `shared`: names that the reports of both have, the rarest first."""

    id: str
    title: str
    event_date: date
    category: Category
    country: str
    severity_tier: SeverityTier
    same_story: bool
    shared: list[str]


class Provenance(Struct, frozen=True):
    """Where an event comes from, and why its fields have their values. `reasons` is keyed by field name.

    `relevance` to defense, security or politics is 0..1. `is_retrospective`: the reports are about the past.
    """

    provider: str
    licence: str
    is_recording: bool
    recording: RecordedDay | None
    row_ids: list[str]
    source_urls: list[str]
    first_reported_at: str
    last_reported_at: str
    relevance: float
    is_retrospective: bool
    reasons: dict[str, str]


class EventDetail(Event, frozen=True):
    """One event with its provenance, and what was reported when, oldest first.

    `named` are the entities that its reports name, most often first; `related` other events of the window. `succeeds`
    is the requested id if it was merged into this event.
    """

    timeline: list[TimelineEntry]
    provenance: Provenance
    named: list[NamedEntity]
    related: list[RelatedEvent]
    succeeds: str | None = None


class EventsFeed:
    """The events of the last 24 hours in `window`, of the data that the setting `recorded` names.

    They are read from an index in `folder`, which the processes of a machine share; without it, in memory.
    """

    def __init__(self, database: Database, *, recorded: Recorded, folder: Path | None = None) -> None:
        self._database = database
        self._recorded = recorded
        # Servers with other settings serve other events.
        self._index = EventIndex(folder / f"{recorded}".lower() if folder else None)
        self._refreshing = asyncio.Lock()
        self._revisions: list[int] | None = None
        self._pages: dict[tuple[EventsQuery, str, bool], Response] = {}
        self._points: dict[tuple[PointsQuery, bool], Response] = {}
        self._serve(EventWindow(self._index.view(), None, "recorded"), None)

    @feed_endpoint(
        "GET",
        "/feeds/events",
        id="listEvents",
        responses={
            JSON: EventsPage,
            GEOJSON: _FEATURE_COLLECTION,
            CSV: {"type": "string"},
            NDJSON: {"type": "string", "description": "One event per line"},
        },
        formats=FORMATS,
        problems=("upstream-unavailable",),
        examples={
            JSON: example("events_page"),
            CSV: example("csv"),
            NDJSON: json.dumps(example("event")) + "\n",
        },
        sample=Example(query={"country": "Ethiopia", "severity_tier": "high", "limit": 5}),
    )
    async def page(self, request: Request[EventsQuery, None]) -> Response:
        """List the events of the past 24 hours.

        World events from The GDELT Project and publishers' feeds, most significant first: one event is one
        occurrence, however many articles report it. Filters combine: an event must meet all of them. `next_cursor`
        leads to the next page and is null on the last one.
        """
        key, pages = (request.query, request.media_type, self.is_stale()), self._pages
        response = pages.get(key)
        if response is None:
            response = await self._build_page(request.query, request.media_type)
            if len(pages) >= MOST_CACHED_PAGES:
                pages.clear()
            pages[key] = response
        return response

    @feed_endpoint(
        "GET",
        "/feeds/events/points",
        id="listEventPoints",
        responses={JSON: PointsPage},
        problems=("upstream-unavailable",),
        examples={JSON: example("points_page")},
        sample=Example(query={"country": "Ethiopia", "facets": "severity_tier,reported_at"}),
    )
    async def points(self, request: Request[PointsQuery, None]) -> Response:
        """List where and when every event of the past 24 hours was reported.

        All events that pass the filters of `/feeds/events`, without titles and in columns, for maps and charts.
        """
        key, pages = (request.query, self.is_stale()), self._points
        response = pages.get(key)
        if response is None:
            response = await self._build_points(request.query)
            if len(pages) >= MOST_CACHED_POINTS:
                pages.clear()
            pages[key] = response
        return response

    async def _build_points(self, query: PointsQuery) -> Response:
        window, entities = self.window, await self._entities(query.entity)
        facts = self.about_page(Slice([], 0, None), applied_filters(query))

        def build() -> bytes:
            conditions = window.view.conditions(query, entities)
            points, places = point_columns(window.view, conditions.values())
            total = window.view.total(conditions.values())
            facts.update(count=len(points.id), total=total.value, total_relation=total.relation)
            facets, share = _facets(window, conditions, query.facets)
            page = PointsPage(
                categories=CATEGORIES, severity_tiers=SEVERITY_TIERS, places=places, points=points,
                slots_read=self.slots_read, facets=facets, facets_share=share, **facts,
            )  # fmt: skip
            return msgspec.json.encode(page)

        body = await asyncio.to_thread(build) if len(window.view) > MOST_COUNTED_AT_ONCE else build()
        return Response(body, etag=compute_etag(body), cache_control="private, no-cache")

    async def _entities(self, text: str | None) -> frozenset[str]:
        if text is None:
            return frozenset()
        async with self._database.reading() as connection:
            return (await entities_named(connection, self.pool, [text]))[text]

    async def _build_page(self, query: EventsQuery, media_type: str) -> Response:
        window, entities = self.window, await self._entities(query.entity)

        def search() -> tuple[Slice[Event], Facets | UnsetType, float | UnsetType]:
            conditions = window.view.conditions(query, entities)
            return window.page(query, entities), *_facets(window, conditions, query.facets)

        is_large = len(window.view) > (MOST_COUNTED_AT_ONCE if query.facets else MOST_SEARCHED_AT_ONCE)
        page, facets, share = await asyncio.to_thread(search) if is_large else search()
        facts = self.about_page(page, applied_filters(query))
        body = encode_page(EventsPage(events=page.items, facets=facets, facets_share=share, **facts), media_type)
        links = ((b"link", f'<{query.link_to(page.next_cursor)}>; rel="next"'.encode()),) if page.next_cursor else ()
        charset = "; charset=utf-8" if media_type == "text/csv" else ""
        return Response(body, media_type + charset, compute_etag(body), links, cache_control="private, no-cache")

    def about_page(self, page: Slice[Any], filters: dict[str, Any]) -> dict[str, Any]:
        """The members of a FeedPage. Raises Problem `upstream-unavailable` while nothing is stored."""
        window = self.window
        if window.as_of is None:
            detail = "No provider has responded yet, and nothing is stored."
            raise Problem("upstream-unavailable", detail, upstream="gdelt")
        return {
            "count": len(page.items),
            "total": page.total,
            "total_relation": page.total_relation,
            "as_of": clock.iso(window.as_of),
            "window_hours": WINDOW_HOURS,
            "coverage": round(self.coverage.window, 4),
            "source": window.source,
            "recording": self.recording,
            "stale": self.is_stale(),
            "next_cursor": page.next_cursor,
            "applied_filters": filters,
        }

    @feed_endpoint(
        "GET",
        "/feeds/events/{id}",
        id="getEvent",
        path_parameters=id_parameter("conflict", example("event_detail")["id"]),
        examples={JSON: example("event_detail")},
        sample=Example(path={"id": "$EVENT_ID"}),
    )
    async def one(self, request: Request[None, None]) -> EventDetail:
        """Get one event with its provenance.

        The provider's row ids, the source URLs, what was reported when, and the reason for the value of each score.
        The id of an event that was merged into another returns its successor, with `succeeds` set.
        """
        event_id = request.path["id"]
        async with self._database.reading() as connection:
            packed, succeeds = await find_current(connection, store.EVENTS, self.pool, event_id)
            if packed is None:
                raise Problem("not-found", "No event has this id.")
            record = msgspec.json.decode(packed, type=StoredEvent)
            fatalities = await read_fatalities(connection, record.event_date - FATALITIES_BACK)
            window = self.window
            related = await asyncio.to_thread(window.related, record)
            shared = [name for likeness in related for name in likeness.shared]
            named = await named_entities(connection, self.pool, [*record.entities, *shared])
        record = with_fatalities(record, fatalities)
        provenance = Provenance(
            provider=PROVIDER,
            licence=LICENCE,
            is_recording=self.window.source == "recorded",
            recording=self.recording,
            row_ids=[row_id for report in record.reports for row_id in report.row_ids],
            source_urls=record.source_urls,
            first_reported_at=clock.iso(record.first_reported_at),
            last_reported_at=clock.iso(record.last_reported_at),
            relevance=round(record.relevance, 4),
            is_retrospective=record.is_retrospective,
            reasons=reasons(record),
        )
        timeline = [
            TimelineEntry(
                clock.iso(it.reported_at), it.publisher, it.title, it.url, it.fatalities, country_of_outlet(it.url)
            )
            for it in record.reports
        ]
        return EventDetail(
            **asdict(to_event(record)),
            timeline=timeline,
            provenance=provenance,
            named=[named[one] for one in record.entities if one in named],
            related=[one for likeness in related if (one := _related(window, record, likeness, named))],
            succeeds=succeeds,
        )

    async def follow(self) -> None:
        """Keep the window at the newest stored revision until cancelled; then another process may write the index."""
        try:
            await repeat(self.refresh, REFRESH_SECONDS, log, "events refresh failed")
        finally:
            self._index.close()

    async def refresh(self) -> None:
        """Show what changed in the stored events and fatality records."""
        async with self._refreshing:
            while not self._index.take_writer():
                if self._index.reload() or not self.window.as_of:
                    await self._show(self._index.state)
                if self.window.as_of or await self._is_empty():
                    return
                # Another process is building the first index.
                await asyncio.sleep(POLL_SECONDS)
            await self._update()

    async def _is_empty(self) -> bool:
        async with self._database.reading() as connection:
            return await served_pool(connection, recorded=self._recorded) is None

    async def _update(self) -> None:
        """Bring the index to the newest stored revision, and show it."""
        epoch = await self._epoch()
        async with self._database.reading() as connection:
            current = await store.feed_revisions(connection)
            if current == self._revisions:
                if self._index.tidy():
                    await self._show(self._index.state)
                return
            served = await served_pool(connection, recorded=self._recorded)
            if served:
                await self._index.update(connection, served, epoch)
        await self._show(self._index.state if served else None)
        self._revisions = current

    async def _epoch(self) -> str:
        async with self._database.reading() as connection:
            epoch = await store.events_epoch(connection)
        if epoch is None:
            async with self._database.writing() as connection:
                await store.start_epoch(connection)
                epoch = await store.events_epoch(connection)
        assert epoch
        return epoch

    async def _show(self, state: IndexState | None) -> None:
        """Serve what the index holds; nothing without a state."""
        served = state.served if state else None
        window = EventWindow(
            self._index.view(), served.as_of if served else None, served.source if served else "recorded"
        )
        # They read every row: not when a request needs them.
        await asyncio.to_thread(window.warm)
        self._serve(window, state)
        log.info("events refreshed", events=len(window), source=window.source)

    def _serve(self, window: EventWindow, state: IndexState | None) -> None:
        self.window = window
        self.pool: SourceMode = state.pool if state else "local"
        self.recording: RecordedDay | None = state.recording if state else None
        self.coverage = state.coverage if state else WHOLE
        self.slots_read = state.slots_read if state else []
        self.previous: Mapping[str, int] = state.previous if state else {}
        # New dicts: a page that is being built now belongs to the previous window.
        self._pages, self._points = {}, {}

    def facts(self) -> dict[str, Any]:
        """The feed's part of the health response."""
        as_of = self.window.as_of
        return {
            "events": len(self.window),
            "source": self.window.source,
            "recording": self.recording,
            "as_of": as_of and clock.iso(as_of),
            "coverage": round(self.coverage.window, 4) if as_of else 0.0,
        }

    def is_stale(self) -> bool:
        """Whether live data is older than an hour. A recording is never stale."""
        if self.window.source == "recorded" or self.window.as_of is None:
            return False
        return clock.now() - self.window.as_of > STALE_AFTER


def _facets(
    window: EventWindow, conditions: Mapping[str, Query], names: str | None
) -> tuple[Facets | UnsetType, float | UnsetType]:
    """The requested facets, and the share of the events that they were counted from if that is not all."""
    if names is None:
        return UNSET, UNSET
    facets, share = count_facets(window.view, conditions, names)
    return facets, share if share < 1 else UNSET


def _related(
    window: EventWindow, record: StoredEvent, likeness: Likeness, named: Mapping[str, NamedEntity]
) -> RelatedEvent | None:
    entry = window.get(likeness.id)
    if entry is None:
        return None
    event = entry.event
    return RelatedEvent(
        id=event.id,
        title=event.title,
        event_date=event.event_date,
        category=event.category,
        country=event.geo.country,
        severity_tier=event.metrics.severity_tier,
        same_story=event.story_id is not None and event.story_id == record.story_id,
        shared=[named[one].name for one in likeness.shared if one in named],
    )
