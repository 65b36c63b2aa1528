"""The defense brief: its parts, its summary, and the feed that rebuilds it when the data changes."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.config.settings import RecordedDay
from tollhouse.http.endpoint import JSON, Request, Response
from tollhouse.http.response import compute_etag
from tollhouse.services.defense import store
from tollhouse.services.defense.brief.capability import Battles, CapabilityGap, capability_gaps
from tollhouse.services.defense.brief.live_events import WHOLE, Coverage, EventCounts, EventsLive, events_live
from tollhouse.services.defense.brief.production import Line, ProductionSummary, bundled_lines, production_summary
from tollhouse.services.defense.events.event import FeedSource
from tollhouse.services.defense.events.feed import LICENCE, PROVIDER, EventsFeed
from tollhouse.services.defense.events.pages import EventWindow
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.paging import Slice, example, feed_endpoint
from tollhouse.services.defense.stories.story import Story
from tollhouse.storage.database import Database

COUNTRIES_NAMED = 3
STORIES_NAMED = 2
WORST_TIERS = ("critical", "high")


class Citation(Struct, frozen=True):
    """What a figure or a headline of a sentence is from. `path` is the request whose response has it.

    `kind` is `events` for counts, `story` for a headline (with its `id`), `source` for the provider (with its `url`).
    """

    kind: Literal["events", "story", "source"]
    title: str
    path: str
    id: str | None = None
    url: str | None = None


class Sentence(Struct, frozen=True):
    """One sentence, and where its figures and headlines are from."""

    text: str
    citations: list[Citation]


class BriefSummary(Struct, frozen=True):
    """How much was reported in the window, where, and which stories lead. `sentences` is empty without events.

    `coverage` is the share of the window's provider batches that was read, 0..1. `recording` is the day that names the
    bundled recording; null for other data. `stale` is true when the provider has sent nothing new for an hour.
    """

    as_of: str
    window_hours: int
    coverage: float
    source: FeedSource
    recording: RecordedDay | None
    stale: bool
    sentences: list[Sentence]


def summarize(
    live: EventsLive, as_of: datetime | None, stories: Sequence[Story], source: tuple[str, str]
) -> list[Sentence]:
    """How much was reported, where most of it happened, and what was reported most widely. Empty without events.

    `stories` are in the feed's order; `source` is the provider's name and address.
    """
    if as_of is None or not live.events_24h:
        return []
    return [_volume(live, as_of, source), *_countries(live), *_stories(stories)]


def _volume(live: EventsLive, as_of: datetime, source: tuple[str, str]) -> Sentence:
    end = f"{as_of.day} {as_of:%B %Y, %H:%M} UTC"
    battles, worst = live.battle_events_24h, sum(live.by_severity[tier] for tier in WORST_TIERS)
    share = live.coverage.window
    read = "" if share >= 1 else f"; {share:.0%} of the provider's updates were read"
    text = (
        f"{_counted(live.events_24h, 'event')} {_was(live.events_24h)} reported in the 24 hours to {end}, "
        f"{battles or 'none'} of them {'a battle' if battles == 1 else 'battles'} and {worst or 'none'} of high or "
        f"critical severity{read}."
    )
    name, url = source
    citations = [
        Citation("events", "All events of the window", "/feeds/events"),
        Citation("events", "Battles", _events(category="Battles")),
        Citation("source", name, "/feeds/defense-brief", url=url),
    ]
    return Sentence(text, citations)


def _countries(live: EventsLive) -> list[Sentence]:
    named = list(live.by_country.items())[:COUNTRIES_NAMED]
    if not named:
        return []
    parts = [f"{name} ({count:,})" for name, count in named]
    verb = "The country with most events is" if len(parts) == 1 else "The countries with most events are"
    citations = [Citation("events", f"Events in {name}", _events(country=name)) for name, _ in named]
    return [Sentence(f"{verb} {_listed(parts)}.", citations)]


def _stories(stories: Sequence[Story]) -> list[Sentence]:
    leading = stories[:STORIES_NAMED]
    if not leading:
        return []
    parts = [f"“{one.title}” ({_counted(one.source_count, 'independent source')})" for one in leading]
    verb = "The most significant story is" if len(parts) == 1 else "The most significant stories are"
    citations = [Citation("story", one.title, f"/feeds/stories/{one.id}", id=one.id) for one in leading]
    return [Sentence(f"{verb} {_listed(parts)}.", citations)]


def _events(**filters: str) -> str:
    return f"/feeds/events?{urlencode(filters)}"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(parts) if len(parts) < COUNTRIES_NAMED else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


class TopStory(Struct, frozen=True):
    """One story of the stories feed in short; `id` finds the rest of it there."""

    id: str
    title: str
    article_count: int
    source_count: int
    significance: float


class Source(Struct, frozen=True):
    """The source of some figures of the brief. `used_for` are members of the brief."""

    name: str
    url: str
    licence: str
    used_for: list[str]


PROCUREMENT = Source(
    name="US Department of Defense, Comptroller, Exhibit P-1 of the FY2027 budget, transcribed by others",
    url="https://github.com/anboas/defense-budget-intelligence",
    licence="US government work, public domain",
    used_for=["production_summary", "capability_gaps"],
)
RATES = Source(
    name="US Department of Defense, Exhibits P-40 and P-21, budgets of FY2013 to FY2017 (historic)",
    url="https://github.com/540co/dod-president-budget-procurement-rdte-data",
    licence="US government work; compilation CC0",
    used_for=["capability_gaps"],
)


class Brief(Struct, frozen=True):
    """`generated_at` and `as_of`, the end of the events' window (null when there is none), are RFC 3339 in UTC."""

    generated_at: str
    as_of: str | None
    production_summary: ProductionSummary
    events_live: EventsLive
    capability_gaps: list[CapabilityGap]
    top_stories: list[TopStory]
    sources: list[Source]


class Day(Struct, frozen=True):
    """The input of a brief: the counts of two adjoining windows of 24 hours, their provider and its coverage.

    `previous` is by category.
    """

    as_of: datetime | None
    window: EventCounts
    previous: Mapping[str, int]
    battles: Battles
    top_stories: Sequence[TopStory]
    provider: Source
    coverage: Coverage = WHOLE
    recording: RecordedDay | None = None


def build_brief(day: Day, lines: Sequence[Line], generated_at: datetime) -> Brief:
    return Brief(
        generated_at=clock.iso(generated_at),
        as_of=None if day.as_of is None else clock.iso(day.as_of),
        production_summary=production_summary(lines),
        events_live=events_live(day.window, day.previous, day.provider.name, day.coverage, day.recording),
        capability_gaps=capability_gaps(lines, day.battles),
        top_stories=list(day.top_stories),
        sources=[day.provider, PROCUREMENT, RATES],
    )


TOP_STORIES = 5

_GDELT = Source(PROVIDER, "https://www.gdeltproject.org/", LICENCE, ["events_live", "capability_gaps", "top_stories"])


class BriefFeed:
    """`GET /feeds/defense-brief`, from the windows that the other feeds serve."""

    def __init__(self, database: Database, events: EventsFeed, news: NewsFeeds) -> None:
        self._database = database
        self._events = events
        self._news = news
        self._built_from: tuple[object, object] = (None, None)
        self._response: Response | None = None
        self._live: tuple[EventWindow | None, EventsLive] = (None, events_live(EventCounts(), {}, PROVIDER))

    @feed_endpoint(
        "GET", "/feeds/defense-brief", id="getDefenseBrief", responses={JSON: Brief}, examples={JSON: example("brief")}
    )
    async def brief(self, _request: Request[Any, Any]) -> Response:
        """Get production, live events and capability gaps on one page.

        Every figure has a citation. docs/defense-brief.md states what each figure covers.
        """
        events, news = self._events.window, self._news.window
        if self._response is None or self._built_from[0] is not events or self._built_from[1] is not news:
            async with self._database.reading() as connection:
                packed = await store.read_document_body(connection, store.PRODUCTION_LINES)
            lines = msgspec.json.decode(packed, type=tuple[Line, ...]) if packed else bundled_lines()
            self._response = await asyncio.to_thread(self._build, lines)
            self._built_from = (events, news)
        return self._response

    @feed_endpoint(
        "GET",
        "/feeds/defense-brief/summary",
        id="getBriefSummary",
        responses={JSON: BriefSummary},
        problems=("upstream-unavailable",),
        examples={JSON: example("brief_summary")},
    )
    async def summary(self, _request: Request[Any, Any]) -> Response:
        """Get three sentences about the past 24 hours, with citations.

        How much was reported, where most of it happened, and which stories lead. Every figure names the request that
        gives it.
        """
        window, stories = self._events.window, self._news.window.stories
        facts = self._events.about_page(Slice([], 0, None), {})
        if self._live[0] is not window:
            live = events_live(window.counts, {}, PROVIDER, self._events.coverage, self._events.recording)
            self._live = (window, live)
        shared = {name: facts[name] for name in BriefSummary.__struct_fields__ if name in facts}
        sentences = summarize(self._live[1], window.as_of, stories, (_GDELT.name, _GDELT.url))
        body = msgspec.json.encode(BriefSummary(**shared, sentences=sentences))
        return Response(body, etag=compute_etag(body), cache_control="private, no-cache")

    def _build(self, lines: Sequence[Line]) -> Response:
        window = self._events.window
        day = Day(
            as_of=window.as_of,
            window=window.counts,
            previous=self._events.previous,
            battles=window.battles(),
            top_stories=[
                TopStory(story.id, story.title, story.article_count, story.source_count, story.significance)
                for story in self._news.window.stories[:TOP_STORIES]
            ],
            provider=_GDELT,
            coverage=self._events.coverage,
            recording=self._events.recording,
        )
        body = msgspec.json.encode(build_brief(day, lines, clock.now()))
        return Response(body, etag=compute_etag(body), cache_control="private, no-cache")
