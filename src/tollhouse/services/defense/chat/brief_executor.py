"""The typed queries over the defense brief, and over how fresh everything is."""

from tollhouse import clock
from tollhouse.questions.citations import Reference
from tollhouse.services.defense.brief.brief import Source
from tollhouse.services.defense.chat.query_types import Query
from tollhouse.services.defense.chat.result import Figure, Finding, Row
from tollhouse.services.defense.chat.snapshot import Snapshot
from tollhouse.services.defense.chat.story_index import plain


def production(picture: Snapshot, query: Query) -> Finding:
    """The procurement total, and the largest programmes in it."""
    summary = picture.holdings.brief.production_summary
    rests_on = (_of_brief(picture, "production_summary"),)
    total = Figure(f"total of {summary.fiscal_year}", summary.total_market_value_b, "billion_usd", rests_on)
    largest = [Figure(p.name, p.value_b, "billion_usd", rests_on) for p in summary.programs[: query.limit]]
    return Finding(query, (total, *largest), note=summary.basis)


def program(picture: Snapshot, query: Query) -> Finding:
    """The lines of one programme."""
    summary = picture.holdings.brief.production_summary
    wanted = plain(query.about or "")
    rests_on = (_of_brief(picture, "production_summary"),)
    lines = [line for line in summary.programs if plain(line.name) == wanted]
    figures = tuple(Figure(line.name, line.value_b, "billion_usd", rests_on) for line in lines)
    return Finding(query, figures, tuple(Row(line.source, rests_on) for line in lines), summary.fiscal_year)


def gaps(picture: Snapshot, query: Query) -> Finding:
    """The capability gaps, the widest first, or that of one area."""
    rests_on = (_of_brief(picture, "capability_gaps"),)
    found = [gap for gap in picture.holdings.brief.capability_gaps if query.about in {None, gap.area}]
    figures = tuple(Figure(gap.area, gap.gap_score, "score", rests_on) for gap in found[: query.limit])
    # What explains one area is shown where one is asked for.
    rows = tuple(Row(gap.explanation, rests_on) for gap in found[:1])
    return Finding(query, figures, rows)


def change(picture: Snapshot, query: Query) -> Finding:
    """The change of the counts since the 24 hours before."""
    live = picture.holdings.brief.events_live
    name = query.filters.category or "events"
    told = live.change[name]
    now = live.by_category.get(name, live.events_24h)
    rests_on = (_of_brief(picture, "events_live"),)
    figures = (
        Figure("change", told.absolute, "events", rests_on),
        Figure("share", told.share, "share", rests_on),
        Figure("events", now, "events", rests_on),
    )
    return Finding(query, figures, note=told.reason or "")


def freshness(picture: Snapshot, query: Query) -> Finding:
    """Up to which moment the feeds reach, and when each provider last answered."""
    holdings = picture.holdings
    kind = "a recording" if holdings.source == "recorded" else "live data"
    age = ", older than an hour" if picture.freshness.is_stale else ""
    rests_on = (_of_brief(picture, "events_live"),)
    rows = [Row(f"The feeds are {kind}{age} and reach up to {clock.iso(holdings.as_of)}", rests_on)]
    rows += [
        Row(f"{source.name}: {source.status}, last success {source.last_success_at or 'never'}", ())
        for source in picture.freshness.sources[: query.limit]
    ]
    return Finding(query, rows=tuple(rows))


def _of_brief(picture: Snapshot, member: str) -> Reference:
    """A part of the brief as a reference: the brief has no stories for these, but it names its sources."""
    source = next((s for s in picture.holdings.brief.sources if member in s.used_for), _UNKNOWN)
    return Reference(f"brief:{member}", f"Defense brief, {member}: {source.name}", source.url or None)


_UNKNOWN = Source("source not named", "", "", [])
