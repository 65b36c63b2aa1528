"""The stories and entities feeds: pages, and single ones that answer even after they were merged into others."""

import asyncio
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request
from tollhouse.logs import logger
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.events.sync import SyncedRows
from tollhouse.services.defense.events.window import WINDOW_HOURS, Source
from tollhouse.services.defense.ingest.batches import Pool, compact
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.news.query import EntitiesQuery, StoriesQuery, filters
from tollhouse.services.defense.news.window import NewsWindow
from tollhouse.services.defense.paging import Slice
from tollhouse.services.defense.revisions import revision
from tollhouse.services.defense.store import NEWS_FEED
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database, Transaction

log = logger("news")

FOLLOW_EVERY_SECONDS = 1.0
# What one was merged into may itself have been merged since, and so on; ids used anew must not lead in a circle.
MOST_SUCCESSIONS = 20


class _About(Struct, frozen=True):
    """What every page of the news tells of itself."""

    count: int
    total: int
    as_of: str
    window_hours: int
    source: Source
    stale: bool
    next_cursor: str | None
    applied_filters: dict[str, Any]


class StoriesPage(_About, frozen=True):
    """A page of stories, most significant first."""

    stories: list[Story]


class EntitiesPage(_About, frozen=True):
    """A page of entities, most mentioned first."""

    entities: list[Entity]


class StoryDetail(Story, frozen=True):
    """One story. `succeeds` is the id that was asked for, when that one was merged into this story."""

    succeeds: str | None = None


class EntityDetail(Entity, frozen=True):
    """One entity. `succeeds` is the id that was asked for, when that one was merged into this entity."""

    succeeds: str | None = None


class NewsFeeds:
    """What this process knows of the news; follows the pool that the events feed serves."""

    def __init__(self, database: Database, events: EventsFeed) -> None:
        self._database = database
        self._events = events
        self._seen: tuple[Pool, datetime | None, int] | None = None
        self._stories: SyncedRows[Story] = SyncedRows(store.TOLD["story"], msgspec.json.Decoder(Story).decode)
        self._entities: SyncedRows[Entity] = SyncedRows(store.TOLD["entity"], msgspec.json.Decoder(Entity).decode)
        self.window = NewsWindow((), (), None)

    async def stories(self, request: Request[StoriesQuery, None]) -> StoriesPage:
        """`GET /feeds/stories`."""
        page = self.window.stories_page(request.query)
        return StoriesPage(stories=page.items, **self._about(request.query, page))

    async def entities(self, request: Request[EntitiesQuery, None]) -> EntitiesPage:
        """`GET /feeds/entities`."""
        page = self.window.entities_page(request.query)
        return EntitiesPage(entities=page.items, **self._about(request.query, page))

    async def story(self, request: Request[None, None]) -> StoryDetail:
        """`GET /feeds/stories/{id}`. Raises Problem `not-found`."""
        packed, succeeds = await self._told("story", request.path["id"])
        return StoryDetail(**_members(msgspec.json.decode(packed, type=Story)), succeeds=succeeds)

    async def entity(self, request: Request[None, None]) -> EntityDetail:
        """`GET /feeds/entities/{id}`. Raises Problem `not-found`."""
        packed, succeeds = await self._told("entity", request.path["id"])
        return EntityDetail(**_members(msgspec.json.decode(packed, type=Entity)), succeeds=succeeds)

    async def follow(self) -> None:
        """Keep the window at the store's newest revision, for ever."""
        while True:
            try:
                await self.refresh()
            except Problem as problem:
                log.warning("news not refreshed", detail=problem.detail)
            await asyncio.sleep(FOLLOW_EVERY_SECONDS)

    async def refresh(self) -> None:
        """Take in what changed in the store, and follow the events feed to another pool or a later moment."""
        async with self._database.reading() as connection:
            as_of = self._events.as_of
            seen = (self._events.pool, as_of, await revision(connection, NEWS_FEED))
            if seen == self._seen or as_of is None:
                return
            await self._look(connection, compact(as_of - timedelta(hours=WINDOW_HOURS)))
        stories, entities = list(self._stories.items.values()), list(self._entities.items.values())
        self.window = await asyncio.to_thread(NewsWindow, stories, entities, as_of)
        self._seen = seen
        log.info("news refreshed", stories=len(stories), entities=len(entities))

    async def _look(self, connection: Transaction, since: str) -> None:
        try:
            await self._stories.sync(connection, self._events.pool, since)
            await self._entities.sync(connection, self._events.pool, since)
        except BaseException:
            self._stories.clear()
            self._entities.clear()
            raise

    def facts(self) -> dict[str, Any]:
        """What health says of the feeds."""
        return {"stories": {"stories": len(self.window.stories)}, "entities": {"entities": len(self.window.entities)}}

    async def _told(self, kind: Literal["story", "entity"], identity: str) -> tuple[bytes, str | None]:
        """The packed one of this id, or the one it was merged into."""
        pool = self._events.pool
        async with self._database.reading() as connection:
            told = identity
            for _ in range(MOST_SUCCESSIONS):
                packed = await store.told_by_id(connection, kind, pool, told)
                if packed is not None:
                    return packed, None if told == identity else identity
                heir = await store.successor_of(connection, pool, told)
                if heir is None:
                    break
                told = heir
        raise Problem("not-found", f"There is no {kind} of this id.")

    def _about(self, query: StoriesQuery | EntitiesQuery, page: Slice[Any]) -> dict[str, Any]:
        as_of = self._events.as_of
        if as_of is None:
            raise Problem(
                "upstream-unavailable", "No provider has answered yet and nothing is stored.", upstream="gdelt"
            )
        return {
            "count": len(page.items),
            "total": page.total,
            "as_of": clock.iso(as_of),
            "window_hours": WINDOW_HOURS,
            "source": self._events.source,
            "stale": self._events.is_stale(),
            "next_cursor": page.next_cursor,
            "applied_filters": filters(query),
        }


def _members(told: Story | Entity) -> dict[str, Any]:
    return {name: getattr(told, name) for name in told.__struct_fields__}
