"""The events feed: follows the store's revisions, and answers pages and single events."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request, Response
from tollhouse.http.response_writer import etag_of
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.brief.live_events import WHOLE
from tollhouse.services.defense.events.event import Event, EventRecord, read_record
from tollhouse.services.defense.events.formats import EventsPage, encoded
from tollhouse.services.defense.events.query import EventsQuery
from tollhouse.services.defense.events.snapshot import (
    COUNTED_BACK,
    FollowedEvents,
    Windows,
    by_country,
    by_event,
    weighed,
    with_fatalities,
)
from tollhouse.services.defense.events.window import WINDOW_HOURS, EventWindow, Source
from tollhouse.services.defense.ingest.batches import SourceMode
from tollhouse.services.defense.ingest.scores import reasons
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.store import EVENTS_FEED, FATALITIES_FEED, NEWS_FEED, revision
from tollhouse.storage.database import Database, Transaction

log = logger("events")

FOLLOW_EVERY_SECONDS = 1.0
STALE_AFTER = timedelta(minutes=60)
KEPT_ANSWERS = 2_000

PROVIDER = "The GDELT Project"
LICENCE = "Free for any use with citation of and a link to The GDELT Project, https://www.gdeltproject.org/"


class Provenance(Struct, frozen=True):
    """Where an event comes from and why it is described as it is. `reasons` is keyed by field."""

    provider: str
    licence: str
    is_recording: bool
    row_ids: list[str]
    source_urls: list[str]
    first_reported_at: str
    last_reported_at: str
    reasons: dict[str, str]


class EventDetail(Event, frozen=True):
    """One event with its provenance."""

    provenance: Provenance


class EventsFeed:
    """What this process knows of the events; `recorded` True serves recordings only."""

    def __init__(self, database: Database, *, recorded: bool | None) -> None:
        self._database = database
        self._recorded = recorded
        self._window = EventWindow([], None, "recorded")
        self._followed = FollowedEvents()
        self._seen: list[int] | None = None
        self._answers: dict[tuple[EventsQuery, str, bool], Response] = {}
        self.pool: SourceMode = "local"
        self.previous: Sequence[Event] = []
        self.coverage = WHOLE

    @property
    def as_of(self) -> datetime | None:
        """The end of the window, None while nothing is stored."""
        return self._window.as_of

    @property
    def source(self) -> Source:
        """Whether the window is live or a recording."""
        return self._window.source

    @property
    def events(self) -> Sequence[Event]:
        """The window's events, most significant first."""
        return self._window.events

    async def page(self, request: Request[EventsQuery, None]) -> Response:
        """`GET /feeds/events`."""
        key = (request.query, request.media_type, self.is_stale())
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= KEPT_ANSWERS:
                self._answers.clear()
            answer = self._answers[key] = self._composed(request.query, request.media_type)
        return answer

    async def one(self, request: Request[None, None]) -> EventDetail:
        """`GET /feeds/events/{id}`. Raises Problem `not-found`."""
        identity = request.path["id"]
        async with self._database.reading() as connection:
            packed = await store.event_record(connection, self.pool, identity)
            if packed is None:
                raise Problem("not-found", "There is no event of this id.")
            record = read_record(packed)
            story = await news.story_by_event(connection, self.pool, identity)
            since = (record.event_date - COUNTED_BACK).isoformat()
            counted = by_country(await store.fatalities_since(connection, since))
        record = with_fatalities(record, counted)
        event, heard = weighed(record, by_event([story] if story else []))
        members = {name: getattr(event, name) for name in event.__struct_fields__}
        return EventDetail(**members, provenance=self._provenance(record, heard))

    async def follow(self) -> None:
        """Keep the window at the store's newest revision, for ever."""
        while True:
            try:
                await self.refresh()
            except Problem as problem:
                log.warning("events not refreshed", detail=problem.detail)
            await asyncio.sleep(FOLLOW_EVERY_SECONDS)

    async def refresh(self) -> None:
        """Take in what changed of the events or their stories."""
        async with self._database.reading() as connection:
            seen = [await revision(connection, feed) for feed in (EVENTS_FEED, NEWS_FEED, FATALITIES_FEED)]
            if seen == self._seen:
                return
            pool, newest = await self._serving(connection)
            windows = await self._looked(connection, pool, newest.slot) if newest else None
        if windows is None:
            self._window = EventWindow([], None, "recorded")
        else:
            source: Source = "live" if pool == "provider" else "recorded"
            self._window = await asyncio.to_thread(EventWindow, windows.entries, windows.as_of, source)
            self.previous, self.coverage = windows.previous, windows.coverage
        self.pool, self._seen = pool, seen
        self._answers.clear()
        log.info("events refreshed", events=len(self._window), source=self.source)

    async def _looked(self, connection: Transaction, pool: SourceMode, newest: str) -> Windows:
        try:
            return await self._followed.look(connection, pool, newest)
        except BaseException:
            self._followed.forget()
            raise

    def facts(self) -> dict[str, Any]:
        """What health says of the feed."""
        as_of = self._window.as_of
        return {"events": len(self._window), "source": self._window.source, "as_of": as_of and clock.iso(as_of)}

    async def _serving(self, connection: Any) -> tuple[SourceMode, Any]:
        """The pool to serve and its newest slot: the provider's once there is any, unless recordings are wanted."""
        if not self._recorded:
            newest = await store.newest_slot(connection, "provider")
            if newest is not None:
                return "provider", newest
        return "local", await store.newest_slot(connection, "local")

    def _composed(self, query: EventsQuery, media_type: str) -> Response:
        if self._window.as_of is None:
            raise Problem(
                "upstream-unavailable",
                "The events provider has not answered yet and nothing is stored.",
                upstream="gdelt",
            )
        page = self._window.page(query)
        body = encoded(
            EventsPage(
                events=page.items,
                count=len(page.items),
                total=page.total,
                as_of=clock.iso(self._window.as_of),
                window_hours=WINDOW_HOURS,
                source=self._window.source,
                stale=self.is_stale(),
                next_cursor=page.next_cursor,
                applied_filters=query.filters(),
            ),
            media_type,
        )
        links = ((b"link", f'<{query.link_to(page.next_cursor)}>; rel="next"'.encode()),) if page.next_cursor else ()
        charset = "; charset=utf-8" if media_type == "text/csv" else ""
        return Response(body, media_type + charset, etag_of(body), links, cache_control="private, no-cache")

    def is_stale(self) -> bool:
        """Live data older than an hour; a recording does not age."""
        if self._window.source == "recorded" or self._window.as_of is None:
            return False
        return clock.now() - self._window.as_of > STALE_AFTER

    def _provenance(self, record: EventRecord, heard: int) -> Provenance:
        return Provenance(
            provider=PROVIDER,
            licence=LICENCE,
            is_recording=self.pool == "local",
            row_ids=record.row_ids,
            source_urls=[record.url],
            first_reported_at=clock.iso(record.first_reported_at),
            last_reported_at=clock.iso(record.last_reported_at),
            reasons=reasons(record, heard),
        )
