"""The summary of the brief: three sentences about the last 24 hours, each with what it cites."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from urllib.parse import urlencode

from msgspec import Struct

from tollhouse.config.settings import RecordedDay
from tollhouse.services.defense.brief.live_events import EventsLive
from tollhouse.services.defense.events.event import FeedSource
from tollhouse.services.defense.stories.story import Story

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
