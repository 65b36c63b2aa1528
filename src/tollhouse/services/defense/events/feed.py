"""The events feed: follows the stored events and serves pages and single events."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import asdict

from tollhouse import clock
from tollhouse.config.settings import Recorded, RecordedDay
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Example, Request, Response
from tollhouse.http.response import compute_etag
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.brief.live_events import WHOLE, Coverage
from tollhouse.services.defense.events.event import (
    WINDOW_HOURS,
    Category,
    Event,
    EventEntry,
    SeverityTier,
    StoredEvent,
)
from tollhouse.services.defense.events.filter import applied_filters
from tollhouse.services.defense.events.history import (
    FATALITIES_BACK,
    ServedPool,
    SyncedEvents,
    entities_named,
    fatalities_by_country,
    find_current,
    served_pool,
    with_fatalities,
)
from tollhouse.services.defense.events.overview import CATEGORIES, SEVERITY_TIERS, point_columns
from tollhouse.services.defense.events.pages import (
    CSV,
    FORMATS,
    GEOJSON,
    JSON,
    NDJSON,
    EventsPage,
    EventsQuery,
    EventWindow,
    PointsPage,
    PointsQuery,
    encode_page,
)
from tollhouse.services.defense.events.scores import reasons, to_event
from tollhouse.services.defense.examples import example, feed_endpoint, id_parameter
from tollhouse.services.defense.ingest.batches import slot_before, slot_time
from tollhouse.services.defense.paging import Slice
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.related import Likeness, NamedEntity, OutletCountry, country_of_outlet, named_entities
from tollhouse.storage.database import Database, Transaction

log = logger("events")

REFRESH_SECONDS = 1.0
STALE_AFTER = timedelta(minutes=60)
MOST_CACHED_PAGES = 2_000
# Of every event: up to a megabyte each.
MOST_CACHED_POINTS = 32
# Above this, the columns and facets are computed beside the event loop.
MOST_COUNTED_AT_ONCE = 1_000
# The provider publishes every 15 minutes.
SLOTS_PER_DAY = 96

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
    """The events of the last 24 hours in `window`, of the data that the setting `recorded` names."""

    def __init__(self, database: Database, *, recorded: Recorded) -> None:
        self._database = database
        self._recorded = recorded
        self.window = EventWindow([], None, "recorded")
        self._synced: SyncedEvents[EventEntry] = SyncedEvents(lambda entry: entry)
        self._revisions: list[int] | None = None
        self._pages: dict[tuple[EventsQuery, str, bool], Response] = {}
        self._points: dict[tuple[PointsQuery, bool], Response] = {}
        self.slots_read: list[str] = []
        self.pool: SourceMode = "local"
        self.recording: RecordedDay | None = None
        self.previous: Sequence[Event] = []
        self.coverage = WHOLE

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
            masks = window.masks(query, entities)
            matching = masks.matching()
            points, places = point_columns(matching)
            facts["count"] = facts["total"] = len(matching)
            facets = masks.facets(query.facets) if query.facets else UNSET
            page = PointsPage(
                categories=CATEGORIES, severity_tiers=SEVERITY_TIERS, places=places, points=points,
                slots_read=self.slots_read, facets=facets, **facts,
            )  # fmt: skip
            return msgspec.json.encode(page)

        body = await asyncio.to_thread(build) if len(window.entries) > MOST_COUNTED_AT_ONCE else build()
        return Response(body, etag=compute_etag(body), cache_control="private, no-cache")

    async def _entities(self, text: str | None) -> frozenset[str]:
        if text is None:
            return frozenset()
        async with self._database.reading() as connection:
            return (await entities_named(connection, self.pool, [text]))[text]

    async def _build_page(self, query: EventsQuery, media_type: str) -> Response:
        window, entities = self.window, await self._entities(query.entity)
        page = window.page(query, entities)
        facts = self.about_page(page, applied_filters(query))
        facets = window.masks(query, entities).facets(query.facets) if query.facets else UNSET
        body = encode_page(EventsPage(events=page.items, facets=facets, **facts), media_type)
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
            since = (record.event_date - FATALITIES_BACK).isoformat()
            fatalities = fatalities_by_country(await store.fatalities_since(connection, since))
            related = self.window.related(record)
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
            related=[self._related(record, likeness, named) for likeness in related],
            succeeds=succeeds,
        )

    def _related(self, record: StoredEvent, likeness: Likeness, named: Mapping[str, NamedEntity]) -> RelatedEvent:
        event = self.window.by_id[likeness.id].event
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

    async def follow(self) -> None:
        """Keep the window at the newest stored revision. Never returns."""
        while True:
            try:
                await self.refresh()
            except Problem as problem:
                log.warning("events refresh failed", detail=problem.detail)
            await asyncio.sleep(REFRESH_SECONDS)

    async def refresh(self) -> None:
        """Read what changed in the stored events and fatality records."""
        async with self._database.reading() as connection:
            current = await store.feed_revisions(connection)
            if current == self._revisions:
                return
            served = await served_pool(connection, recorded=self._recorded)
            if served is None:
                self.window, self.pool, self.recording = EventWindow([], None, "recorded"), "local", None
            else:
                await self._sync(connection, served)
        self._revisions = current
        # New dicts: a page that is being built now belongs to the previous window.
        self._pages, self._points = {}, {}
        log.info("events refreshed", events=len(self.window), source=self.window.source)

    async def _sync(self, connection: Transaction, served: ServedPool) -> None:
        """Build the window of the last 24 hours, and `previous` of the 24 hours before."""
        begin = slot_before(served.newest, timedelta(hours=WINDOW_HOURS))
        before = slot_before(served.newest, timedelta(hours=2 * WINDOW_HOURS))
        try:
            await self._synced.sync(connection, served, before)
            slots = await store.slots_between(connection, served.pool, begin, served.newest)
            coverage = Coverage(
                len(slots) / SLOTS_PER_DAY,
                len(await store.slots_between(connection, served.pool, before, begin)) / SLOTS_PER_DAY,
            )
        except BaseException:
            self._synced.clear()
            raise

        def split() -> tuple[EventWindow, list[Event]]:
            items = [(self._synced.slot(event_id), entry) for event_id, entry in self._synced.items.items()]
            entries = [entry for slot, entry in items if begin < slot <= served.newest]
            previous = [entry.event for slot, entry in items if before < slot <= begin and entry.is_relevant]
            return EventWindow(entries, served.as_of, served.source), previous

        self.window, self.previous = await asyncio.to_thread(split)
        self.pool, self.recording, self.coverage = served.pool, served.recording, coverage
        self.slots_read = [clock.iso(moment) for slot in sorted(slots) if (moment := slot_time(slot))]

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
