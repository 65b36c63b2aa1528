"""A snapshot of the feeds at one moment, and the engine that answers questions from it."""

import asyncio
from collections.abc import Sequence
from functools import cached_property
from operator import is_not
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tollhouse import clock
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Request
from tollhouse.questions.answering import Answer, Engine
from tollhouse.questions.model_tools import QueryTools
from tollhouse.questions.query import Query
from tollhouse.services.defense.brief.brief import Brief, BriefFeed
from tollhouse.services.defense.chat.dataset import FeedDataset, Freshness, Holdings
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.ingest.recording import load_recording
from tollhouse.services.defense.ingest.source_health import list_sources
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.news.publisher import Publisher
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.storage.database import Database

SOURCES_POLL_SECONDS = 30.0
# Questions are answered from rows in memory: from the most significant events where there are more.
MOST_EVENTS = 20_000


class Snapshot:
    """One revision of the feeds. Only its dataset's `freshness` is ever changed."""

    def __init__(self, holdings: Holdings) -> None:
        self.holdings = holdings
        self.dataset = FeedDataset(holdings)
        self.engine = Engine(self.dataset)
        # One question at a time: they share what the engine caches.
        self.answering = asyncio.Lock()
        # Read now, not while the first caller waits.
        self.engine.passages.warm()

    @cached_property
    def tools(self) -> QueryTools:
        """The tools for a language model."""
        return QueryTools(self.engine)

    @cached_property
    def window(self) -> str:
        """The time that an answer covers, as a sentence."""
        facts = ["a recording"] if self.holdings.source == "recorded" else []
        if (coverage := self.holdings.brief.events_live.coverage.window) < 1:
            facts.append(f"{coverage:.0%} of it was read")
        if (count := self.holdings.brief.events_live.events_24h) > len(self.holdings.entries):
            facts.append(f"answers use the {len(self.holdings.entries):,} most significant of its {count:,} events")
        about = f" ({'; '.join(facts)})" if facts else ""
        return f"Window: the 24 hours up to {self.holdings.as_of:%Y-%m-%d %H:%M} UTC{about}."


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
        built_from = (window, self._news.window, brief)
        if self._snapshot is None or any(map(is_not, built_from, self._built_from)):
            holdings = Holdings(
                window.as_of,
                window.source,
                await asyncio.to_thread(window.most_significant, MOST_EVENTS),
                self._news.window.stories,
                self._news.window.entities,
                msgspec.json.decode(brief.body, type=Brief),
            )
            self._snapshot, self._built_from = await asyncio.to_thread(Snapshot, holdings), built_from
            self._polled_at = 0.0
        if clock.seconds() - self._polled_at > SOURCES_POLL_SECONDS:
            self._polled_at = clock.seconds()
            self._snapshot.dataset.freshness = Freshness(self._events.is_stale(), await list_sources(self._database))
        return self._snapshot


async def load_recorded(folder: Path) -> Snapshot:
    """The snapshot of the bundled recording, whose data is stored in the folder."""
    settings = Settings(data_dir=str(folder), recorded=True)
    async with open_context(settings) as context:
        events = EventsFeed(context.database, recorded=True)
        await load_recording(context.database, settings)
        await Publisher(context.database, settings.section(DefenseSettings).retention_days).publish_stored(folder)
        await events.refresh()
        news = NewsFeeds(context.database, events)
        await news.refresh()
        snapshots = Snapshots(context.database, events, news, BriefFeed(context.database, events, news))
        return await snapshots.present(Request(None, None, {}, None, "", JSON))


_bundled: list[Snapshot] = []


async def bundled_engine() -> Engine:
    """The engine for questions about the bundled recording."""
    if not _bundled:
        with TemporaryDirectory() as folder:
            _bundled.append(await load_recorded(Path(folder)))
    return _bundled[0].engine


async def ask(turns: Sequence[str]) -> Answer:
    """The answer to the last turn of a conversation about the bundled recording."""
    engine = await bundled_engine()
    before: Query | None = None
    for turn in turns:
        answer = engine.answer(turn, before)
        before = answer.query or before
    return answer
