"""The stories and entities feeds: queries, pages, and details that resolve merged ids."""

import asyncio
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Example, Request
from tollhouse.logs import logger
from tollhouse.services.defense.entities.mention import EntityType
from tollhouse.services.defense.events.event import WINDOW_HOURS, Category
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.events.filter import ABOUT_COUNTRY, CountryText, ShortText, require_country
from tollhouse.services.defense.events.history import find_current
from tollhouse.services.defense.events.pages import FeedPage
from tollhouse.services.defense.events.sync import SyncedRows
from tollhouse.services.defense.examples import example, feed_endpoint, id_parameter
from tollhouse.services.defense.ingest.batches import compact
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.paging import ABOUT_CURSOR, Cursor, Position, Slice, position, sliced
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.store import NEWS_FEED, revision
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database

Limit = Annotated[int, Meta(ge=1, le=100, description="Items per page", examples=[20])]


class StoriesQuery(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    limit: Limit = 20
    category: Annotated[Category | None, Meta(description="Only this category")] = None
    country: Annotated[CountryText | None, ABOUT_COUNTRY] = None
    q: Annotated[
        ShortText | None, Meta(description="Words that all stand in the title or the summary", examples=["rocket"])
    ] = None
    since: Annotated[
        Annotated[datetime, Meta(tz=True)] | None,
        Meta(description="Only stories with an article after this moment", examples=["2020-11-15T06:00:00Z"]),
    ] = None
    cursor: Annotated[Cursor | None, ABOUT_CURSOR] = None


class EntitiesQuery(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    limit: Limit = 20
    type: Annotated[EntityType | None, Meta(description="Only this type")] = None
    q: Annotated[
        ShortText | None, Meta(description="Words that all stand in the name or one alias", examples=["Abiy"])
    ] = None
    cursor: Annotated[Cursor | None, ABOUT_CURSOR] = None


def filters(query: Struct) -> dict[str, Any]:
    given = msgspec.to_builtins(query)
    return {name: value for name, value in given.items() if name not in ("limit", "cursor")}


_WORD = re.compile(r"\w+")


class NewsWindow:
    """An immutable view of one revision of the news."""

    def __init__(self, stories: Iterable[Story], entities: Iterable[Entity], as_of: datetime | None) -> None:
        self.as_of = as_of
        self.stories = sorted(stories, key=_story_position)
        self.entities = sorted(entities, key=_entity_position)

    def stories_page(self, query: StoriesQuery) -> Slice[Story]:
        """Stories, most significant first. Raises Problem `invalid-parameter` for an unknown country."""
        matching: Iterable[Story] = self.stories
        if query.category is not None:
            matching = (story for story in matching if story.category == query.category)
        if query.country is not None:
            name = require_country(query.country).name
            matching = (story for story in matching if name in story.countries)
        if query.since is not None:
            since = query.since.astimezone(UTC)
            matching = (story for story in matching if story.last_seen > since)
        if query.q is not None:
            words = _words(query.q)
            matching = (story for story in matching if words and words <= _words(f"{story.title} {story.summary}"))
        return sliced(list(matching), _story_position, query.cursor, query.limit)

    def entities_page(self, query: EntitiesQuery) -> Slice[Entity]:
        """Entities, most mentioned first."""
        matching: Iterable[Entity] = self.entities
        if query.type is not None:
            matching = (entity for entity in matching if entity.type == query.type)
        if query.q is not None:
            words = _words(query.q)
            matching = (
                entity
                for entity in matching
                if words and any(words <= _words(name) for name in (entity.name, *entity.aliases))
            )
        return sliced(list(matching), _entity_position, query.cursor, query.limit)


def _story_position(story: Story) -> Position:
    return position(round(story.significance * 10_000), story.id)


def _entity_position(entity: Entity) -> Position:
    return position(entity.mentions, entity.id)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


log = logger("news")

CHECK_SECONDS = 1.0


class StoriesPage(FeedPage, frozen=True):
    """A page of stories, most significant first."""

    stories: list[Story]


class EntitiesPage(FeedPage, frozen=True):
    """A page of entities, most mentioned first."""

    entities: list[Entity]


class StoryDetail(Story, frozen=True):
    """One story. `succeeds` is the requested id if it was merged into this story."""

    succeeds: str | None = None


class EntityDetail(Entity, frozen=True):
    """One entity. `succeeds` is the requested id if it was merged into this entity."""

    succeeds: str | None = None


class NewsFeeds:
    """The stories and entities in this process, in the source mode of the events feed."""

    def __init__(self, database: Database, events: EventsFeed) -> None:
        self._database = database
        self._events = events
        self._seen: tuple[SourceMode, datetime | None, int] | None = None
        self._stories: SyncedRows[Story] = SyncedRows(store.PUBLISHED["story"], msgspec.json.Decoder(Story).decode)
        self._entities: SyncedRows[Entity] = SyncedRows(store.PUBLISHED["entity"], msgspec.json.Decoder(Entity).decode)
        self.window = NewsWindow((), (), None)

    @feed_endpoint(
        "GET",
        "/feeds/stories",
        id="listStories",
        problems=("upstream-unavailable",),
        examples={JSON: example("stories_page")},
        sample=Example(query={"q": "peace", "limit": 5}),
    )
    async def stories(self, request: Request[StoriesQuery, None]) -> StoriesPage:
        """List the stories of the past 24 hours.

        Groups of articles about the same event, most significant first. A story keeps its id while it grows.
        `source_count` counts independent publishers: ten copies of one agency report count once.
        """
        page = self.window.stories_page(request.query)
        return StoriesPage(stories=page.items, **self._events.about_page(page, filters(request.query)))

    @feed_endpoint(
        "GET",
        "/feeds/stories/{id}",
        id="getStory",
        path_parameters=id_parameter("story", example("story_detail")["id"]),
        examples={JSON: example("story_detail")},
        sample=Example(path={"id": "$STORY_ID"}),
    )
    async def story(self, request: Request[None, None]) -> StoryDetail:
        """Get one story.

        The id of a story that was merged into another returns its successor, with `succeeds` set.
        """
        packed, succeeds = await self._load("story", request.path["id"])
        return StoryDetail(**asdict(msgspec.json.decode(packed, type=Story)), succeeds=succeeds)

    @feed_endpoint(
        "GET",
        "/feeds/entities",
        id="listEntities",
        problems=("upstream-unavailable",),
        examples={JSON: example("entities_page")},
        sample=Example(query={"type": "person", "limit": 5}),
    )
    async def entities(self, request: Request[EntitiesQuery, None]) -> EntitiesPage:
        """List the people, organizations, locations and platforms of the past 24 hours.

        Names in the articles, most mentioned first.
        """
        page = self.window.entities_page(request.query)
        return EntitiesPage(entities=page.items, **self._events.about_page(page, filters(request.query)))

    @feed_endpoint(
        "GET",
        "/feeds/entities/{id}",
        id="getEntity",
        path_parameters=id_parameter("entity", example("entity_detail")["id"]),
        examples={JSON: example("entity_detail")},
        sample=Example(path={"id": "$ENTITY_ID"}),
    )
    async def entity(self, request: Request[None, None]) -> EntityDetail:
        """Get one entity."""
        packed, succeeds = await self._load("entity", request.path["id"])
        return EntityDetail(**asdict(msgspec.json.decode(packed, type=Entity)), succeeds=succeeds)

    async def follow(self) -> None:
        """Keep the window at the newest stored revision, until cancelled."""
        while True:
            try:
                await self.refresh()
            except Problem as problem:
                log.warning("news not refreshed", detail=problem.detail)
            await asyncio.sleep(CHECK_SECONDS)

    async def refresh(self) -> None:
        """Read what changed in the store; follow the events feed to another source mode or time."""
        async with self._database.reading() as connection:
            as_of = self._events.window.as_of
            seen = (self._events.pool, as_of, await revision(connection, NEWS_FEED))
            if seen == self._seen or as_of is None:
                return
            since = compact(as_of - timedelta(hours=WINDOW_HOURS))
            try:
                await self._stories.sync(connection, self._events.pool, since)
                await self._entities.sync(connection, self._events.pool, since)
            except BaseException:
                self._stories.clear()
                self._entities.clear()
                raise
        stories, entities = list(self._stories.items.values()), list(self._entities.items.values())
        self.window = await asyncio.to_thread(NewsWindow, stories, entities, as_of)
        self._seen = seen
        log.info("news refreshed", stories=len(stories), entities=len(entities))

    def facts(self) -> dict[str, Any]:
        """Counts for the health endpoint."""
        return {"stories": {"stories": len(self.window.stories)}, "entities": {"entities": len(self.window.entities)}}

    async def _load(self, kind: Literal["story", "entity"], identity: str) -> tuple[bytes, str | None]:
        """The packed story or entity of an id, or its successor and the id."""
        async with self._database.reading() as connection:
            packed, succeeds = await find_current(connection, store.PUBLISHED[kind], self._events.pool, identity)
        if packed is None:
            raise Problem("not-found", f"There is no {kind} with this id.")
        return packed, succeeds
