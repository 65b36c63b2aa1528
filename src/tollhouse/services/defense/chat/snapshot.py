"""What the feeds hold at one moment, ready to be asked."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from operator import is_not
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request
from tollhouse.services.defense.brief.brief import Brief
from tollhouse.services.defense.brief.feed import BriefFeed
from tollhouse.services.defense.chat.story_index import Texts, plain
from tollhouse.services.defense.countries import COUNTRIES
from tollhouse.services.defense.events.event import Event, EventEntry, FeedSource
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.ingest.source_health import SourceHealth, list_sources
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database

LOOK_EVERY_SECONDS = 30.0

PARTS_OF_THE_WORLD = {country.name: country.region for country in COUNTRIES}


class Holdings(Struct, frozen=True):
    """The feeds' own objects, each feed's in its own order. `as_of` ends the window of 24 hours."""

    as_of: datetime
    source: FeedSource
    entries: Sequence[EventEntry]
    stories: Sequence[Story]
    entities: Sequence[Entity]
    brief: Brief


class Freshness(Struct, frozen=True):
    """How the feeds are doing: this ages without anything new coming in."""

    is_stale: bool = False
    sources: Sequence[SourceHealth] = ()


class Snapshot:
    """A view of one revision of the feeds. Only its `freshness` is ever changed."""

    def __init__(self, holdings: Holdings) -> None:
        self.holdings = holdings
        self.freshness = Freshness()
        self.as_of = holdings.as_of
        self.story_by_id = {story.id: story for story in holdings.stories}
        self.entity_by_id = {entity.id: entity for entity in holdings.entities}
        self.texts = Texts(
            (story.id, f"{story.title} {story.summary} {' '.join(article.title for article in story.articles)}")
            for story in holdings.stories
        )
        published = {
            (story.id, article.url): article.published for story in holdings.stories for article in story.articles
        }
        # For a question, an event was reported when its article was published.
        self.entries = []
        for entry in holdings.entries:
            article = (entry.event.story_id or "", entry.event.source_urls[0])
            self.entries.append(replace(entry, reported_at=published.get(article, entry.reported_at)))
        self.events: Sequence[Event] = [entry.event for entry in self.entries]
        self.reported_at = {entry.event.id: entry.reported_at for entry in self.entries}

    @cached_property
    def regions(self) -> dict[str, str]:
        """The regions that events of the window name, by how they are typed."""
        common = Counter(event.geo.region for event in self.events if event.geo.region)
        return {plain(region): region for region, _ in reversed(common.most_common())}

    @cached_property
    def subcategories(self) -> tuple[str, ...]:
        """The subcategories that occur."""
        return tuple(sorted({event.subcategory for event in self.events if event.subcategory}))

    @cached_property
    def days(self) -> frozenset[str]:
        """The dates that events of the window have, as YYYY-MM-DD."""
        return frozenset(event.event_date.isoformat() for event in self.events)

    def entity_named(self, name: str) -> Entity | None:
        """The most mentioned entity of this name or alias, in any case."""
        return self._entities.get(plain(name))

    @cached_property
    def _entities(self) -> dict[str, Entity]:
        named: dict[str, Entity] = {}
        for entity in self.holdings.entities:
            named.setdefault(plain(entity.name), entity)
        for entity in self.holdings.entities:
            for alias in entity.aliases:
                named.setdefault(plain(alias), entity)
        return named

    @property
    def entity_names(self) -> Iterable[str]:
        """Every name and alias, as it is typed."""
        return self._entities


class Snapshots:
    """The present picture, made anew whenever what it is made of has changed."""

    def __init__(self, database: Database, events: EventsFeed, news: NewsFeeds, brief: BriefFeed) -> None:
        self._database = database
        self._events = events
        self._news = news
        self._brief = brief
        self._made_of: tuple[object, ...] = ()
        self._picture: Snapshot | None = None
        self._looked_at = 0.0

    async def present(self, request: Request[Any, Any]) -> Snapshot:
        """What the feeds hold now, for whoever asks. Raises Problem `upstream-unavailable` while they hold nothing."""
        as_of = self._events.as_of
        if as_of is None:
            raise Problem(
                "upstream-unavailable", "No provider has answered yet and nothing is stored.", upstream="gdelt"
            )
        answer = await self._brief.brief(request)
        made_of = (self._events.events, self._news.window, answer)
        if self._picture is None or any(map(is_not, made_of, self._made_of)):
            holdings = Holdings(
                as_of,
                self._events.source,
                self._events.entries,
                self._news.window.stories,
                self._news.window.entities,
                msgspec.json.decode(answer.body, type=Brief),
            )
            self._picture, self._made_of = await asyncio.to_thread(Snapshot, holdings), made_of
            self._looked_at = 0.0
        if clock.seconds() - self._looked_at > LOOK_EVERY_SECONDS:
            self._looked_at = clock.seconds()
            self._picture.freshness = Freshness(self._events.is_stale(), await list_sources(self._database))
        return self._picture
