"""Runs typed queries: each returns figures, rows and the ids that they rest on, in time bounded by the window."""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tollhouse import clock
from tollhouse.questions.grounding import Reference
from tollhouse.services.defense.chat.query_types import (
    EVERYTHING,
    Figure,
    Filters,
    Query,
    QueryResult,
    Row,
    event_reference,
    events_references,
    story_reference,
)
from tollhouse.services.defense.chat.snapshot import PARTS_OF_THE_WORLD, Snapshot, plain, stems
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.events.filter import EventTest, event_tests
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.stories.story import Story


def select_events(snapshot: Snapshot, filters: Filters) -> list[Event]:
    """The events that pass every filter, in the feed's order."""
    tests: list[EventTest] = event_tests(filters, frozenset([filters.entity] if filters.entity else ()))
    if filters.subcategory:
        tests.append(lambda entry: entry.event.subcategory == filters.subcategory)
    if filters.countries:
        tests.append(lambda entry: entry.event.geo.country in filters.countries)
    if filters.world:
        tests.append(lambda entry: PARTS_OF_THE_WORLD.get(entry.event.geo.country) == filters.world)
    if filters.day:
        tests.append(lambda entry: entry.event.event_date == filters.day)
    if filters.until:
        until = filters.until
        tests.append(lambda entry: entry.reported_at <= until)
    if filters.words:
        words = {word for text in filters.words for word in stems(text)}
        tests.append(lambda entry: words <= set(stems(entry.event.title)))
    return [entry.event for entry in snapshot.entries if all(test(entry) for test in tests)]


def select_stories(snapshot: Snapshot, filters: Filters) -> list[Story]:
    """The stories that pass every filter, most significant first; words may be in title, summary or headlines."""
    tests: list[Callable[[Story], bool]] = []
    if filters.category:
        tests.append(lambda story: story.category == filters.category)
    if filters.countries:
        tests.append(lambda story: any(name in story.countries for name in filters.countries))
    if filters.world:
        tests.append(lambda story: any(PARTS_OF_THE_WORLD.get(name) == filters.world for name in story.countries))
    if filters.since:
        since = filters.since
        tests.append(lambda story: story.last_seen > since)
    if filters.until:
        until = filters.until
        tests.append(lambda story: story.first_seen <= until)
    if filters.words:
        ids = set(snapshot.texts.containing_all(filters.words))
        tests.append(lambda story: story.id in ids)
    if filters.entity:
        tests.append(lambda story: filters.entity in story.entities)
    rest = replace(filters, category=None, countries=(), world=None, since=None, until=None, words=(), entity=None)
    if rest != EVERYTHING:
        # A story has no such member of its own: it passes when one of its events does.
        story_ids = {event.story_id for event in select_events(snapshot, filters)}
        tests.append(lambda story: story.id in story_ids)
    return [story for story in snapshot.holdings.stories if all(test(story) for test in tests)]


ABOUT_STORIES = 3
DUPLICATES = "Reports are not added up, because several may count the same deaths."


def run_query(snapshot: Snapshot, query: Query) -> QueryResult:
    return _QUERIES[query.operation](snapshot, query)


def _counted(snapshot: Snapshot, filters: Filters) -> Figure:
    events = select_events(snapshot, filters)
    return Figure("events", len(events), "events", events_references(events))


def _list(snapshot: Snapshot, query: Query) -> QueryResult:
    events = select_events(snapshot, query.filters)
    count = Figure("events", len(events), "events")
    if query.order == "recent":
        events.sort(key=lambda event: snapshot.reported_at[event.id], reverse=True)
    elif query.order == "fatalities":
        events.sort(key=lambda event: -event.fatalities)
    rows = tuple(Row(_event_text(event), (event_reference(event),)) for event in events[: query.limit])
    return QueryResult(query, (count,), rows)


def _breakdown(snapshot: Snapshot, query: Query) -> QueryResult:
    groups: dict[str, list[Event]] = {}
    for event in select_events(snapshot, query.filters):
        if name := _PARTS[query.by](event):
            groups.setdefault(name, []).append(event)
    largest = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    shown = largest[: query.limit]
    if query.limit == 1 and largest:
        # With the largest, the few others that are as large.
        shown = [group for group in largest if len(group[1]) == len(largest[0][1])][:ABOUT_STORIES]
    return QueryResult(query, tuple(Figure(name, len(g), "events", events_references(g)) for name, g in shown))


def _share(snapshot: Snapshot, query: Query) -> QueryResult:
    part, whole = (_counted(snapshot, side) for side in query.sides)
    share = round(part.value / whole.value, 4) if part.value is not None and whole.value else None
    return QueryResult(query, (Figure("share", share, "share", part.references), part, whole))


def _deaths(snapshot: Snapshot, query: Query) -> QueryResult:
    events = select_events(snapshot, query.filters)
    reported = [event for event in events if event.fatalities_basis != "not_reported"]
    deadliest = sorted((event for event in reported if event.fatalities), key=lambda event: -event.fatalities)
    highest = deadliest[0].fatalities if deadliest else 0 if reported else None
    figures = (
        Figure("highest toll of one report", highest, "deaths", events_references((deadliest or reported)[:1])),
        Figure("events with a toll", len(reported), "events"),
        Figure("events", len(events), "events", events_references(events) if not reported else ()),
    )
    rows = tuple(Row(f"{e.title}: {e.fatalities} ({e.fatalities_basis})", (event_reference(e),)) for e in deadliest)
    return QueryResult(query, figures, rows[: query.limit], DUPLICATES)


def _about(snapshot: Snapshot, query: Query) -> QueryResult:
    events = select_events(snapshot, query.filters)
    stories = select_stories(snapshot, query.filters)
    kinds = Counter(event.category for event in events)
    figures = [Figure("events", len(events), "events")]
    figures += [
        Figure(kind, count, "events", events_references(e for e in events if e.category == kind))
        for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    ]
    figures.append(Figure("stories", len(stories), "stories"))
    return QueryResult(query, tuple(figures), _story_rows(stories[:ABOUT_STORIES]))


def _stories(snapshot: Snapshot, query: Query) -> QueryResult:
    stories = select_stories(snapshot, query.filters)
    if not stories and query.filters.words:
        # No story contains all the words: take those with most of the rare words; the note says so.
        near = [snapshot.story_by_id[story_id] for story_id in snapshot.texts.best(query.filters.words, query.limit)]
        return QueryResult(query, (Figure("stories", 0, "stories"),), _story_rows(near), "nearest")
    return QueryResult(query, (Figure("stories", len(stories), "stories"),), _story_rows(stories[: query.limit]))


def _story_count(snapshot: Snapshot, query: Query) -> QueryResult:
    stories = select_stories(snapshot, query.filters)
    return QueryResult(query, (Figure("stories", len(stories), "stories", tuple(map(story_reference, stories))),))


def _publishers(snapshot: Snapshot, query: Query) -> QueryResult:
    stories = select_stories(snapshot, query.filters)
    if not stories and query.filters.words:
        stories = [snapshot.story_by_id[story_id] for story_id in snapshot.texts.best(query.filters.words, 1)]
    by_publisher: dict[str, list[Reference]] = {}
    for story in stories:
        for name in story.sources:
            by_publisher.setdefault(name, []).append(story_reference(story))
    figures = (
        Figure("publishers", len(by_publisher), "publishers", tuple(map(story_reference, stories))),
        Figure("stories", len(stories), "stories"),
    )
    loudest = sorted(by_publisher.items(), key=lambda item: (-len(item[1]), item[0]))
    return QueryResult(query, figures, tuple(Row(name, tuple(reported)) for name, reported in loudest[: query.limit]))


def _entities(snapshot: Snapshot, query: Query) -> QueryResult:
    chosen = [e for e in snapshot.holdings.entities if query.entity_type in (None, e.type)]
    if query.filters != Filters():
        reported = {story.id for story in select_stories(snapshot, query.filters)}
        chosen = [entity for entity in chosen if not reported.isdisjoint(entity.story_ids)]
    return QueryResult(query, tuple(_mentions(snapshot, entity) for entity in chosen[: query.limit]))


def _entity(snapshot: Snapshot, query: Query) -> QueryResult:
    entity = snapshot.entity_by_id.get(query.about or "")
    if entity is None:
        return QueryResult(query)
    figures = (_mentions(snapshot, entity), Figure("publishers", entity.source_count, "publishers"))
    called = f"{entity.name} ({entity.type})"
    stories = [snapshot.story_by_id[s] for s in entity.story_ids if s in snapshot.story_by_id]
    stories.sort(key=lambda story: -story.significance)
    return QueryResult(query, figures, _story_rows(stories[:ABOUT_STORIES]), called)


def _related(snapshot: Snapshot, query: Query) -> QueryResult:
    entity = snapshot.entity_by_id.get(query.about or "")
    if entity is None:
        return QueryResult(query)
    reported = set(entity.story_ids)
    figures = []
    for other in entity.related[: query.limit]:
        shared = [s for s in _stories_of(snapshot, other.id) if s.id in reported]
        figures.append(Figure(other.name, other.weight, "score", tuple(map(story_reference, shared))))
    return QueryResult(query, tuple(figures), note=entity.name)


def _mentions(snapshot: Snapshot, entity: Entity) -> Figure:
    return Figure(
        entity.name, entity.mentions, "mentions", tuple(map(story_reference, _stories_of(snapshot, entity.id)))
    )


def _stories_of(snapshot: Snapshot, entity_id: str) -> list[Story]:
    entity = snapshot.entity_by_id.get(entity_id)
    matches = (snapshot.story_by_id.get(story_id) for story_id in entity.story_ids) if entity else ()
    return [story for story in matches if story]


def _event_text(event: Event) -> str:
    where = ", ".join(part for part in (event.geo.region, event.geo.country) if part)
    return f"{event.title} ({event.subcategory}, {where or 'place unknown'}, {event.metrics.severity_tier})"


def _story_rows(stories: Sequence[Story]) -> tuple[Row, ...]:
    counts = ("1 article" if story.article_count == 1 else f"{story.article_count} articles" for story in stories)
    return tuple(Row(f"{s.title} ({count})", (story_reference(s),)) for s, count in zip(stories, counts, strict=True))


_PARTS: dict[str, Callable[[Event], str]] = {
    "country": lambda event: event.geo.country,
    "category": lambda event: event.category,
    "severity_tier": lambda event: event.metrics.severity_tier,
    "subcategory": lambda event: event.subcategory,
    "region": lambda event: event.geo.region and f"{event.geo.region} ({event.geo.country})",
}


def _production(snapshot: Snapshot, query: Query) -> QueryResult:
    summary = snapshot.holdings.brief.production_summary
    references = (_of_brief(snapshot, "production_summary"),)
    total = Figure(f"total of {summary.fiscal_year}", summary.total_market_value_b, "billion_usd", references)
    largest = [Figure(p.name, p.value_b, "billion_usd", references) for p in summary.programs[: query.limit]]
    return QueryResult(query, (total, *largest), note=summary.basis)


def _program(snapshot: Snapshot, query: Query) -> QueryResult:
    summary = snapshot.holdings.brief.production_summary
    name = plain(query.about or "")
    references = (_of_brief(snapshot, "production_summary"),)
    lines = [line for line in summary.programs if plain(line.name) == name]
    figures = tuple(Figure(line.name, line.value_b, "billion_usd", references) for line in lines)
    return QueryResult(query, figures, tuple(Row(line.source, references) for line in lines), summary.fiscal_year)


def _gaps(snapshot: Snapshot, query: Query) -> QueryResult:
    """The capability gaps, the widest first, or that of one area."""
    references = (_of_brief(snapshot, "capability_gaps"),)
    matches = [gap for gap in snapshot.holdings.brief.capability_gaps if query.about in {None, gap.area}]
    figures = tuple(Figure(gap.area, gap.gap_score, "score", references) for gap in matches[: query.limit])
    # What explains one area is shown where one is asked for.
    rows = tuple(Row(gap.explanation, references) for gap in matches[:1])
    return QueryResult(query, figures, rows)


def _change(snapshot: Snapshot, query: Query) -> QueryResult:
    """The change of the counts since the 24 hours before."""
    live = snapshot.holdings.brief.events_live
    name = query.filters.category or "events"
    reported = live.change[name]
    now = live.by_category.get(name, live.events_24h)
    references = (_of_brief(snapshot, "events_live"),)
    figures = (
        Figure("change", reported.absolute, "events", references),
        Figure("share", reported.share, "share", references),
        Figure("events", now, "events", references),
    )
    return QueryResult(query, figures, note=reported.reason or "")


def _freshness(snapshot: Snapshot, query: Query) -> QueryResult:
    """The time up to which the feeds reach, and the last success of each provider."""
    holdings = snapshot.holdings
    kind = "a recording" if holdings.source == "recorded" else "live data"
    read = f"{holdings.brief.events_live.coverage.window:.0%} of their 24 hours was read"
    age = ", older than an hour" if snapshot.freshness.is_stale else ""
    references = (_of_brief(snapshot, "events_live"),)
    rows = [Row(f"The feeds are {kind}{age} and reach up to {clock.iso(holdings.as_of)}; {read}", references)]
    rows += [
        Row(f"{source.name}: {source.status}, last success {source.last_success_at or 'never'}", ())
        for source in snapshot.freshness.sources[: query.limit]
    ]
    return QueryResult(query, rows=tuple(rows))


def _of_brief(snapshot: Snapshot, member: str) -> Reference:
    """A part of the brief as a reference: the brief has no stories for these, but it names its sources."""
    source = next((s for s in snapshot.holdings.brief.sources if member in s.used_for), None)
    name, url = (source.name, source.url) if source else ("source not named", None)
    return Reference(f"brief:{member}", f"Defense brief, {member}: {name}", url or None)


_QUERIES: dict[str, Callable[[Snapshot, Query], QueryResult]] = {
    "count": lambda snapshot, query: QueryResult(query, (_counted(snapshot, query.filters),)),
    "list": _list,
    "breakdown": _breakdown,
    "compare": lambda snapshot, query: QueryResult(query, tuple(_counted(snapshot, side) for side in query.sides)),
    "share": _share,
    "change": _change,
    "deaths": _deaths,
    "about": _about,
    "stories": _stories,
    "story_count": _story_count,
    "publishers": _publishers,
    "entities": _entities,
    "entity": _entity,
    "related": _related,
    "production": _production,
    "program": _program,
    "gaps": _gaps,
    "freshness": _freshness,
}
