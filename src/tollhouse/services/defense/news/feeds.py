"""The stories and entities feeds: queries, pages, and details that resolve merged ids."""

import asyncio
import math
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Example, Request
from tollhouse.logs import logger
from tollhouse.periodic import repeat
from tollhouse.services.defense.entities.lexicon import EntityType
from tollhouse.services.defense.events.event import (
    WINDOW_HOURS,
    Category,
    FatalitiesBasis,
    Geo,
    SeverityTier,
    StoredEvent,
    reasons,
    significance,
    to_event,
)
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.events.filter import ABOUT_COUNTRY, CountryText, ShortText, require_country
from tollhouse.services.defense.events.history import SyncedRows, find_current
from tollhouse.services.defense.events.pages import EventWindow, FeedPage
from tollhouse.services.defense.ingest.export_parser import SLOT, compact, time_of_slot
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.entity import Entity, PublishedEntity
from tollhouse.services.defense.paging import (
    ABOUT_CURSOR,
    Cursor,
    Position,
    Slice,
    example,
    feed_endpoint,
    id_parameter,
    position,
    sliced,
)
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.related import (
    EntityOverlap,
    Likeness,
    NamedEntity,
    OutletCountry,
    country_of_outlet,
    named_entities,
)
from tollhouse.services.defense.store import EVENTS, NEWS_FEED, bodies_by_id, revision, slots_between
from tollhouse.services.defense.stories.story import Story, StoryReport
from tollhouse.storage.database import Database, Transaction

HOUR = timedelta(hours=1)
SLOTS_PER_HOUR = HOUR // SLOT

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

    @cached_property
    def by_id(self) -> dict[str, Story]:
        """The stories by id."""
        return {story.id: story for story in self.stories}

    def related(self, story: Story) -> list[Likeness]:
        """The other stories that name the same entities, most alike first."""
        return self._overlap.nearest(story.id, story.entities)

    @cached_property
    def _overlap(self) -> EntityOverlap:
        return EntityOverlap((story.id, story.entities) for story in self.stories)

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


class StoryArticle(StoryReport, frozen=True):
    """An article of a story. `event_id` is the event that it reports, `fatalities` the deaths that its title gives."""

    outlet_country: OutletCountry = None
    event_id: str | None = None
    fatalities: int | None = None


class StoryEvent(Struct, frozen=True):
    """An event of a story, as the events feed has it."""

    id: str
    title: str
    event_date: date
    category: Category
    geo: Geo
    fatalities: int
    fatalities_basis: FatalitiesBasis
    severity_tier: SeverityTier
    source_count: int


class RelatedStory(Struct, frozen=True):
    """Another story of the window; `shared` are the entities that both name, the rarest first."""

    id: str
    title: str
    category: Category | None
    last_seen: datetime
    source_count: int
    shared: list[str]


class StoryDetail(Story, frozen=True):
    """One story, with its events (most reported first), the entities it names and the stories that name the same.

    `reasons` explains the values of fields, keyed by field name; a reason that is not known is left out.
    `succeeds` is the requested id if it was merged into this story.
    """

    articles: list[StoryArticle]  # type: ignore[assignment]  # each with more than in the list of stories
    events: list[StoryEvent]
    named: list[NamedEntity]
    related_stories: list[RelatedStory]
    reasons: dict[str, str]
    succeeds: str | None = None


class StorySummary(Struct, frozen=True):
    """A story that names an entity."""

    id: str
    title: str
    category: Category | None
    last_seen: datetime
    article_count: int
    source_count: int


class MentionsHour(Struct, frozen=True, rename={"since": "from"}):
    """An hour. `mentions` are the articles that name the entity; null where nothing of the hour was read.

    `coverage` is the share, 0..1, of the hour's provider batches that was read.
    """

    since: datetime
    until: datetime
    coverage: float
    mentions: int | None


class RelatedMentions(Struct, frozen=True):
    """The articles that name a related entity too, in each of the hours; null where nothing of the hour was read."""

    id: str
    name: str
    total: int
    mentions: list[int | None]


class EntityTimeline(Struct, frozen=True):
    """When an entity was named, and with whom, in the hours from its first mention to the end of the window.

    The hours count the articles of `mentions`: those of the stories of the window, which may be some hours older.
    """

    hours: list[MentionsHour]
    related: list[RelatedMentions]


class EntityDetail(Entity, frozen=True):
    """One entity, with its mentions over time and the stories of the window that name it.

    `timeline` is null until this version has published the entity. `succeeds` is the requested id if it was merged
    into this entity.
    """

    stories: list[StorySummary]
    timeline: EntityTimeline | None = None
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
        async with self._database.reading() as connection:
            packed, succeeds = await self._find(connection, "story", request.path["id"])
            story = msgspec.json.decode(packed, type=Story)
            pool = self._events.pool
            bodies = await bodies_by_id(connection, EVENTS, pool, story.event_ids)
            records = [msgspec.json.decode(body, type=StoredEvent) for body in bodies.values()]
            related = self.window.related(story)
            shared = [name for likeness in related for name in likeness.shared]
            named = await named_entities(connection, pool, [*story.entities, *shared])
        return StoryDetail(
            **{**asdict(story), "articles": _articles(story, records)},
            events=sorted(
                (_event_of_story(self._events.window, record) for record in records),
                key=lambda event: (-event.source_count, event.id),
            ),
            named=[named[one] for one in story.entities if one in named],
            reasons=story_reasons(story, records),
            related_stories=[_related_story(self.window.by_id[one.id], one, named) for one in related],
            succeeds=succeeds,
        )

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
        """Get one entity.

        With the hours in which it was named, the entities it was named with, and the stories that name it. The id of
        an entity that was merged into another returns its successor, with `succeeds` set.
        """
        as_of = self.window.as_of
        async with self._database.reading() as connection:
            packed, succeeds = await self._find(connection, "entity", request.path["id"])
            entity = msgspec.json.decode(packed, type=PublishedEntity)
            timeline = None
            if entity.slots and as_of is not None:
                hours = math.ceil((as_of - time_of_slot(min(entity.slots)) + SLOT) / HOUR)
                begin = as_of - hours * HOUR
                read = await slots_between(connection, self._events.pool, compact(begin), compact(as_of))
                timeline = build_timeline(entity, begin, hours, read)
        return EntityDetail(
            **{name: getattr(entity, name) for name in Entity.__struct_fields__},
            stories=[_story_summary(self.window.by_id[one]) for one in entity.story_ids if one in self.window.by_id],
            timeline=timeline,
            succeeds=succeeds,
        )

    async def follow(self) -> None:
        """Keep the window at the newest stored revision, until cancelled."""
        await repeat(self.refresh, CHECK_SECONDS, log, "news not refreshed")

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

    async def _find(
        self, connection: Transaction, kind: Literal["story", "entity"], identity: str
    ) -> tuple[bytes, str | None]:
        """The packed story or entity of an id, or its successor and the id."""
        packed, succeeds = await find_current(connection, store.PUBLISHED[kind], self._events.pool, identity)
        if packed is None:
            raise Problem("not-found", f"There is no {kind} with this id.")
        return packed, succeeds


def build_timeline(entity: PublishedEntity, begin: datetime, hours: int, read: AbstractSet[str]) -> EntityTimeline:
    """The mentions of an entity by hour; `read` are the slots of which something was read."""
    ends = [begin + (at + 1) * HOUR for at in range(hours)]
    slots = [[compact(end - part * SLOT) for part in range(SLOTS_PER_HOUR)] for end in ends]
    coverage = [sum(slot in read for slot in of_hour) / SLOTS_PER_HOUR for of_hour in slots]

    def by_hour(counts: Mapping[str, int]) -> list[int | None]:
        sums = [sum(counts.get(slot, 0) for slot in of_hour) for of_hour in slots]
        # Feeds of publishers may have what no batch of the provider had.
        return [count if count or share else None for count, share in zip(sums, coverage, strict=True)]

    related = [(one, entity.related_slots.get(one.id, {})) for one in entity.related]
    mentions = by_hour(entity.slots)
    return EntityTimeline(
        [
            MentionsHour(end - HOUR, end, share, count)
            for end, share, count in zip(ends, coverage, mentions, strict=True)
        ],
        [RelatedMentions(one.id, one.name, sum(counts.values()), by_hour(counts)) for one, counts in related],
    )


def _articles(story: Story, records: Iterable[StoredEvent]) -> list[StoryArticle]:
    reports = {report.url: (record.id, report.fatalities) for record in records for report in record.reports}
    return [
        StoryArticle(**asdict(one), outlet_country=country_of_outlet(one.url), event_id=event_id, fatalities=fatalities)
        for one in story.articles
        for event_id, fatalities in [reports.get(one.url, (None, None))]
    ]


def story_reasons(story: Story, records: Iterable[StoredEvent]) -> dict[str, str]:
    """Why the fields of a story have their values, as far as its events say so."""
    given = {"title": "the headline that agrees most with the others, without copies of one text"}
    records = list(records)
    if story.category is not None and records:
        weights: dict[Category, float] = {}
        for record in records:
            weights[record.category] = weights.get(record.category, 0.0) + record.confidence
        heaviest = sorted(weights.items(), key=lambda pair: -pair[1])
        listed = ", ".join(f"{name} {weight:.2f}" for name, weight in heaviest)
        given["category"] = f"the sum of the confidences of its events: {listed}"
    if not records:
        given["significance"] = "from its publishers and the relevance of its titles: no event belongs to it"
    for record in records:
        # Publishers that report the event in another story do not count here.
        counted = replace(record, source_count=min(record.source_count, story.source_count))
        if significance(counted) == story.significance:
            why = reasons(counted)["significance"]
            given["significance"] = (
                f"that of {record.id}, its most significant event, by the publishers of this story: {why}"
            )
            break
    given["source_count"] = f"reports: {story.article_count}, independent publishers: {story.source_count}"
    return given


def _event_of_story(window: EventWindow, record: StoredEvent) -> StoryEvent:
    """An event as the feed serves it, with the deaths that providers count, if it is in the window."""
    entry = window.get(record.id)
    event = entry.event if entry else to_event(record)
    return StoryEvent(
        event.id, event.title, event.event_date, event.category, event.geo, event.fatalities, event.fatalities_basis,
        event.metrics.severity_tier, event.source_count,
    )  # fmt: skip


def _related_story(story: Story, likeness: Likeness, named: Mapping[str, NamedEntity]) -> RelatedStory:
    shared = [named[one].name for one in likeness.shared if one in named]
    return RelatedStory(story.id, story.title, story.category, story.last_seen, story.source_count, shared)


def _story_summary(story: Story) -> StorySummary:
    return StorySummary(story.id, story.title, story.category, story.last_seen, story.article_count, story.source_count)
