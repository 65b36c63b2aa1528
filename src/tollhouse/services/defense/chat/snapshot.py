"""A snapshot of the feeds at one moment, with an index of the words of stories."""

import asyncio
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from math import log
from operator import is_not
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request
from tollhouse.services.defense.brief.brief import Brief, BriefFeed
from tollhouse.services.defense.countries import COUNTRIES
from tollhouse.services.defense.events.cameo import cameo_labels
from tollhouse.services.defense.events.event import Event, EventEntry, FeedSource
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.ingest.source_health import SourceHealth, list_sources
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database

MOST_WORDS = 16
MOST_POSTINGS = 20_000

_WORD = re.compile(r"[a-z0-9]+")
_POINTS = re.compile(r"['’‘`.]")  # noqa: RUF001
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("s", ""))


def plain(text: str) -> str:
    """The text as it is compared: no accents, no case, no points, single spaces, and no 's."""
    letters = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(_WORD.findall(_POINTS.sub("", re.sub(r"['’]s\b", "", bare))))  # noqa: RUF001


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The word without its plural."""
    if len(word) > 3 and not word.endswith(("ss", "us", "is")):
        for ending, instead in _ENDINGS:
            if word.endswith(ending):
                return word[: -len(ending)] + instead
    return word


def stems(text: str) -> list[str]:
    """The text's words, each without its plural."""
    return [stem(word) for word in plain(text).split()]


class StoryIndex:
    """An index of the words of texts by id. Earlier texts win among equals."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._postings: dict[str, list[int]] = {}
        self._ids: list[str] = []
        for place, (identity, text) in enumerate(texts):
            self._ids.append(identity)
            for word in dict.fromkeys(stems(text)):
                self._postings.setdefault(word, []).append(place)

    def knows(self, word: str) -> bool:
        return stem(plain(word)) in self._postings

    def containing_all(self, words: Sequence[str]) -> list[str]:
        """The texts that hold every word, in their own order."""
        matches = [set(self._postings.get(word, ())) for text in words for word in stems(text)]
        return [self._ids[place] for place in sorted(set.intersection(*matches))] if matches else []

    def best(self, words: Sequence[str], most: int) -> list[str]:
        """The texts that hold most of the rare words; a text with less than half of their weight is left out."""
        known_words = {word for text in words for word in stems(text) if word in self._postings}
        rarest = sorted(known_words, key=lambda word: (len(self._postings[word]), word))[:MOST_WORDS]
        scores: Counter[int] = Counter()
        weights, work = 0.0, 0
        for word in rarest:
            postings = self._postings[word]
            weight = log(1 + len(self._ids) / len(postings))
            weights += weight
            work += len(postings)
            if work > MOST_POSTINGS:
                break
            for place in postings:
                scores[place] += weight  # type: ignore[assignment]  # a Counter adds floats as well
        close = [(score, -place) for place, score in scores.items() if score * 2 >= weights]
        return [self._ids[-place] for _, place in sorted(close, reverse=True)[:most]]


SOURCES_POLL_SECONDS = 30.0

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
    """The state of the feeds. It changes with time, even when nothing new arrives."""

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
        self.texts = StoryIndex(
            (story.id, f"{story.title} {story.summary} {' '.join(article.title for article in story.articles)}")
            for story in holdings.stories
        )
        self.entries = holdings.entries
        # The events that are served unless a question names `relevance`.
        self.events: Sequence[Event] = [entry.event for entry in self.entries if entry.is_relevant]
        self.reported_at = {entry.event.id: entry.reported_at for entry in self.entries}

    @cached_property
    def regions(self) -> dict[str, str]:
        """The regions that events of the window name, by how they are typed."""
        common = Counter(event.geo.region for event in self.events if event.geo.region)
        return {plain(region): region for region, _ in reversed(common.most_common())}

    @cached_property
    def subcategories(self) -> tuple[str, ...]:
        """Those that the events of the window may have."""
        return tuple(sorted(cameo_labels() | {event.subcategory for event in self.events}))

    def entity_named(self, name: str) -> Entity | None:
        """The most mentioned entity of this name or alias, in any case."""
        return self.entity_by_name.get(plain(name))

    @cached_property
    def entity_by_name(self) -> dict[str, Entity]:
        """The most mentioned entity of every name and alias, as they are typed."""
        named: dict[str, Entity] = {}
        for entity in self.holdings.entities:
            named.setdefault(plain(entity.name), entity)
        for entity in self.holdings.entities:
            for alias in entity.aliases:
                named.setdefault(plain(alias), entity)
        return named


class Snapshots:
    """The current snapshot, rebuilt when a feed has changed."""

    def __init__(self, database: Database, events: EventsFeed, news: NewsFeeds, brief: BriefFeed) -> None:
        self._database = database
        self._events = events
        self._news = news
        self._brief = brief
        self._built_from: tuple[object, ...] = ()
        self._snapshot: Snapshot | None = None
        self._polled_at = 0.0

    async def present(self, request: Request[Any, Any]) -> Snapshot:
        """The current snapshot. Raises Problem `upstream-unavailable` while nothing is stored."""
        window = self._events.window
        if window.as_of is None:
            raise Problem(
                "upstream-unavailable", "No provider has responded yet, and nothing is stored.", upstream="gdelt"
            )
        brief = await self._brief.brief(request)
        built_from = (window.events, self._news.window, brief)
        if self._snapshot is None or any(map(is_not, built_from, self._built_from)):
            holdings = Holdings(
                window.as_of,
                window.source,
                window.entries,
                self._news.window.stories,
                self._news.window.entities,
                msgspec.json.decode(brief.body, type=Brief),
            )
            self._snapshot, self._built_from = await asyncio.to_thread(Snapshot, holdings), built_from
            self._polled_at = 0.0
        if clock.seconds() - self._polled_at > SOURCES_POLL_SECONDS:
            self._polled_at = clock.seconds()
            self._snapshot.freshness = Freshness(self._events.is_stale(), await list_sources(self._database))
        return self._snapshot
