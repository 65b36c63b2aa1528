"""The typed queries: each answers with figures and with the ids they rest on, in work bounded by the window."""

from collections import Counter
from collections.abc import Callable, Sequence

from tollhouse.questions.citations import Reference
from tollhouse.services.defense.chat.brief_executor import change, freshness, gaps, production, program
from tollhouse.services.defense.chat.query_types import Filters, Query
from tollhouse.services.defense.chat.result import (
    Figure,
    Finding,
    Row,
    event_reference,
    events_references,
    story_reference,
)
from tollhouse.services.defense.chat.selection import select_events, select_stories
from tollhouse.services.defense.chat.snapshot import Snapshot
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.stories.story import Story

ABOUT_STORIES = 3
DUPLICATES = "Reports are not added up, because several may count the same deaths."


def find(picture: Snapshot, query: Query) -> Finding:
    """Run a query."""
    return _QUERIES[query.operation](picture, query)


def _count(picture: Snapshot, query: Query) -> Finding:
    return Finding(query, (_counted(picture, query.filters),))


def _counted(picture: Snapshot, filters: Filters) -> Figure:
    events = select_events(picture, filters)
    return Figure("events", len(events), "events", events_references(events))


def _list(picture: Snapshot, query: Query) -> Finding:
    events = select_events(picture, query.filters)
    count = Figure("events", len(events), "events")
    return Finding(query, (count,), _event_rows(_ordered(picture, events, query)[: query.limit]))


def _ordered(picture: Snapshot, events: list[Event], query: Query) -> list[Event]:
    if query.order == "recent":
        return sorted(events, key=lambda event: picture.reported_at[event.id], reverse=True)
    if query.order == "fatalities":
        return sorted(events, key=lambda event: -event.fatalities)
    return events


def _breakdown(picture: Snapshot, query: Query) -> Finding:
    groups: dict[str, list[Event]] = {}
    for event in select_events(picture, query.filters):
        if name := _PARTS[query.by](event):
            groups.setdefault(name, []).append(event)
    largest = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    shown = _with_ties(largest, query.limit)
    return Finding(query, tuple(Figure(name, len(g), "events", events_references(g)) for name, g in shown))


def _with_ties(groups: list[tuple[str, list[Event]]], limit: int) -> list[tuple[str, list[Event]]]:
    """The first groups; of a single one asked for, all that are as large as it, as far as that is short."""
    if limit != 1 or not groups:
        return groups[:limit]
    return [group for group in groups if len(group[1]) == len(groups[0][1])][:ABOUT_STORIES]


def _compare(picture: Snapshot, query: Query) -> Finding:
    return Finding(query, tuple(_counted(picture, side) for side in query.sides))


def _share(picture: Snapshot, query: Query) -> Finding:
    part, whole = (_counted(picture, side) for side in query.sides)
    share = round(part.value / whole.value, 4) if part.value is not None and whole.value else None
    return Finding(query, (Figure("share", share, "share", part.rests_on), part, whole))


def _deaths(picture: Snapshot, query: Query) -> Finding:
    events = select_events(picture, query.filters)
    told = [event for event in events if event.fatalities_basis != "not_reported"]
    deadliest = sorted((event for event in told if event.fatalities), key=lambda event: -event.fatalities)
    highest = deadliest[0].fatalities if deadliest else 0 if told else None
    figures = (
        Figure("highest toll of one report", highest, "deaths", events_references((deadliest or told)[:1])),
        Figure("events with a toll", len(told), "events"),
        Figure("events", len(events), "events", events_references(events) if not told else ()),
    )
    rows = tuple(Row(f"{e.title}: {e.fatalities} ({e.fatalities_basis})", (event_reference(e),)) for e in deadliest)
    return Finding(query, figures, rows[: query.limit], DUPLICATES)


def _about(picture: Snapshot, query: Query) -> Finding:
    events = select_events(picture, query.filters)
    stories = select_stories(picture, query.filters)
    kinds = Counter(event.category for event in events)
    figures = [Figure("events", len(events), "events")]
    figures += [
        Figure(kind, count, "events", events_references(e for e in events if e.category == kind))
        for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    ]
    figures.append(Figure("stories", len(stories), "stories"))
    return Finding(query, tuple(figures), _story_rows(stories[:ABOUT_STORIES]))


def _stories(picture: Snapshot, query: Query) -> Finding:
    stories = select_stories(picture, query.filters)
    if not stories and query.filters.words:
        # Nothing holds all the words: what holds most of the rare ones, and it is said so.
        near = [picture.story_by_id[found] for found in picture.texts.best(query.filters.words, query.limit)]
        return Finding(query, (Figure("stories", 0, "stories"),), _story_rows(near), "nearest")
    return Finding(query, (Figure("stories", len(stories), "stories"),), _story_rows(stories[: query.limit]))


def _story_count(picture: Snapshot, query: Query) -> Finding:
    stories = select_stories(picture, query.filters)
    return Finding(query, (Figure("stories", len(stories), "stories", tuple(map(story_reference, stories))),))


def _publishers(picture: Snapshot, query: Query) -> Finding:
    stories = select_stories(picture, query.filters)
    if not stories and query.filters.words:
        stories = [picture.story_by_id[found] for found in picture.texts.best(query.filters.words, 1)]
    heard: dict[str, list[Reference]] = {}
    for story in stories:
        for name in story.sources:
            heard.setdefault(name, []).append(story_reference(story))
    figures = (
        Figure("publishers", len(heard), "publishers", tuple(map(story_reference, stories))),
        Figure("stories", len(stories), "stories"),
    )
    loudest = sorted(heard.items(), key=lambda item: (-len(item[1]), item[0]))
    return Finding(query, figures, tuple(Row(name, tuple(told)) for name, told in loudest[: query.limit]))


def _entities(picture: Snapshot, query: Query) -> Finding:
    chosen = [e for e in picture.holdings.entities if query.entity_type in (None, e.type)]
    if query.filters != Filters():
        told = {story.id for story in select_stories(picture, query.filters)}
        chosen = [entity for entity in chosen if not told.isdisjoint(entity.story_ids)]
    return Finding(query, tuple(_mentions(picture, entity) for entity in chosen[: query.limit]))


def _entity(picture: Snapshot, query: Query) -> Finding:
    entity = picture.entity_by_id.get(query.about or "")
    if entity is None:
        return Finding(query)
    figures = (_mentions(picture, entity), Figure("publishers", entity.source_count, "publishers"))
    called = f"{entity.name} ({entity.type})"
    stories = [picture.story_by_id[s] for s in entity.story_ids if s in picture.story_by_id]
    stories.sort(key=lambda story: -story.significance)
    return Finding(query, figures, _story_rows(stories[:ABOUT_STORIES]), called)


def _related(picture: Snapshot, query: Query) -> Finding:
    entity = picture.entity_by_id.get(query.about or "")
    if entity is None:
        return Finding(query)
    told = set(entity.story_ids)
    figures = []
    for other in entity.related[: query.limit]:
        shared = [s for s in _stories_of(picture, other.id) if s.id in told]
        figures.append(Figure(other.name, other.weight, "score", tuple(map(story_reference, shared))))
    return Finding(query, tuple(figures), note=entity.name)


def _mentions(picture: Snapshot, entity: Entity) -> Figure:
    return Figure(
        entity.name, entity.mentions, "mentions", tuple(map(story_reference, _stories_of(picture, entity.id)))
    )


def _stories_of(picture: Snapshot, entity_id: str) -> list[Story]:
    entity = picture.entity_by_id.get(entity_id)
    found = (picture.story_by_id.get(story_id) for story_id in entity.story_ids) if entity else ()
    return [story for story in found if story]


def _event_rows(events: Sequence[Event]) -> tuple[Row, ...]:
    return tuple(Row(_told(event), (event_reference(event),)) for event in events)


def _told(event: Event) -> str:
    where = ", ".join(part for part in (event.geo.region, event.geo.country) if part)
    return f"{event.title} ({event.subcategory}, {where or 'place unknown'}, {event.metrics.severity_tier})"


def _story_rows(stories: Sequence[Story]) -> tuple[Row, ...]:
    return tuple(Row(_told_story(story), (story_reference(story),)) for story in stories)


def _told_story(story: Story) -> str:
    articles = "1 article" if story.article_count == 1 else f"{story.article_count} articles"
    return f"{story.title} ({articles})"


_PARTS: dict[str, Callable[[Event], str]] = {
    "country": lambda event: event.geo.country,
    "category": lambda event: event.category,
    "severity_tier": lambda event: event.metrics.severity_tier,
    "subcategory": lambda event: event.subcategory,
    "region": lambda event: event.geo.region and f"{event.geo.region} ({event.geo.country})",
}

_QUERIES: dict[str, Callable[[Snapshot, Query], Finding]] = {
    "count": _count,
    "list": _list,
    "breakdown": _breakdown,
    "compare": _compare,
    "share": _share,
    "change": change,
    "deaths": _deaths,
    "about": _about,
    "stories": _stories,
    "story_count": _story_count,
    "publishers": _publishers,
    "entities": _entities,
    "entity": _entity,
    "related": _related,
    "production": production,
    "program": program,
    "gaps": gaps,
    "freshness": freshness,
}
