"""The defense brief as callers read it, put together from what is stored."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tollhouse import clock
from tollhouse.services.defense.brief.capability import CapabilityGap, capability_gaps
from tollhouse.services.defense.brief.live_events import WHOLE, Coverage, EventsLive, events_live
from tollhouse.services.defense.brief.production import Line, ProductionSummary, production_summary
from tollhouse.services.defense.events.event import Event


class TopStory(Struct, frozen=True):
    """One story of the stories feed in short; `id` finds the rest of it there."""

    id: str
    title: str
    article_count: int
    source_count: int
    significance: float


class Source(Struct, frozen=True):
    """Who said what a part of the brief rests on. `used_for` are members of the brief."""

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
    """What the feed knows when a brief is asked for: two adjoining windows of 24 hours and whose events they are."""

    as_of: datetime | None
    window: Sequence[Event]
    previous: Sequence[Event]
    top_stories: Sequence[TopStory]
    provider: Source
    coverage: Coverage = WHOLE


def build_brief(day: Day, lines: Sequence[Line], generated_at: datetime) -> Brief:
    return Brief(
        generated_at=clock.iso(generated_at),
        as_of=None if day.as_of is None else clock.iso(day.as_of),
        production_summary=production_summary(lines),
        events_live=events_live(day.window, day.previous, day.provider.name, day.coverage),
        capability_gaps=capability_gaps(lines, day.window),
        top_stories=list(day.top_stories),
        sources=[day.provider, PROCUREMENT, RATES],
    )
