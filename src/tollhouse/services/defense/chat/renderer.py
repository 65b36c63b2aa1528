"""Renders a query result as text: every claim with the ids that it rests on."""

from collections.abc import Callable, Sequence

from tollhouse.questions.grounding import Citations
from tollhouse.services.defense.chat.query_types import Figure, Filters, QueryResult, Row
from tollhouse.services.defense.chat.snapshot import Snapshot
from tollhouse.services.defense.events.filter import RULES

NAMED = 25

Noun = tuple[str, str]
EVENTS: Noun = ("event", "events")
STORIES: Noun = ("story", "stories")


def render(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    """The answer as text, ending with the time that it covers."""
    text = _RENDERERS[result.query.operation](snapshot, result, citations)
    return f"{text} {window(snapshot)}"


def window(snapshot: Snapshot) -> str:
    """The time that an answer covers."""
    facts = ["a recording"] if snapshot.holdings.source == "recorded" else []
    if (coverage := snapshot.holdings.brief.events_live.coverage.window) < 1:
        facts.append(f"{coverage:.0%} of it was read")
    about = f" ({'; '.join(facts)})" if facts else ""
    return f"Window: the 24 hours up to {snapshot.as_of:%Y-%m-%d %H:%M} UTC{about}."


def described(snapshot: Snapshot, filters: Filters, count: float | None = None, *, of: Noun = EVENTS) -> str:
    """The filters in words: "critical battle events in Ethiopia reported after 10:00"."""
    kind = {"Battles": "battle", "Protests": "protest", "Political": "political", "Economic": "economic"}
    before = [filters.severity_tier or "", kind.get(filters.category or "", "")]
    after = []
    if filters.subcategory:
        after.append(f"of the kind “{filters.subcategory}”")
    if filters.words:
        after.append(f"that say “{' '.join(filters.words)}”")
    if filters.entity:
        entity = snapshot.entity_by_id.get(filters.entity)
        named = f"that name {entity.name if entity else filters.entity}"
        after.append(named if of == STORIES else f"in stories {named}")
    # The other filters are worded in this order of their own.
    worded = ("category", "severity_tier", "country", "region", "q", "since")
    values = ((rule, getattr(filters, name)) for name, rule in RULES.items() if name not in worded)
    after += [rule.phrase(value) for rule, value in values if value is not None]
    after += _places_and_times(filters)
    return " ".join(part for part in (*before, of[0] if count == 1 else of[1], *after) if part)


def _places_and_times(filters: Filters) -> list[str]:
    said = []
    places = [*filters.countries, *(part for part in (filters.region, filters.world) if part)]
    if places:
        said.append(f"in {' and '.join(places)}")
    if filters.day:
        said.append(f"dated {filters.day.isoformat()}")
    if filters.since:
        said.append(f"reported after {filters.since:%H:%M} UTC")
    if filters.until:
        said.append(f"reported up to {filters.until:%H:%M} UTC")
    return said


def _count(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    figure = result.figures[0]
    text = described(snapshot, result.query.filters, figure.value)
    if not figure.value:
        return f"None: the feeds hold 0 {text}."
    return f"The feeds hold {_number(figure)} {text}{_marked(figure, citations)}."


def _list(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    text = described(snapshot, result.query.filters)
    if not result.rows:
        return f"The feeds hold 0 {text}."
    how = {"recent": "latest", "fatalities": "deadliest", "significance": "most significant"}[result.query.order]
    count = _number(result.figures[0])
    return f"The {how} of {count} {text}: {_rows(result.rows, citations)}."


def _breakdown(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    text = described(snapshot, result.query.filters)
    if not result.figures:
        return f"The feeds hold 0 {text}."
    names = "; ".join(f"{figure.of} {_number(figure)}{_marked(figure, citations)}" for figure in result.figures)
    word = {"severity_tier": "severity tier"}.get(result.query.by, result.query.by)
    return f"By {word}, the most {text}: {names}."


def _compare(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    sides = list(zip(result.query.sides, result.figures, strict=True))
    text = "; ".join(f"{_number(f)} {described(snapshot, side, f.value)}{_marked(f, citations)}" for side, f in sides)
    largest = max(float(figure.value or 0) for figure in result.figures)
    leading = [side for side, figure in sides if figure.value == largest]
    verdict = "They are equal" if len(leading) > 1 else f"The most are {described(snapshot, leading[0])}"
    return f"{verdict}: {text}."


def _share(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    share, part, whole = result.figures
    of = described(snapshot, result.query.sides[1])
    if share.value is None:
        return f"There is no share to state: the feeds hold 0 {of}."
    text = described(snapshot, result.query.sides[0])
    return f"{share.value:.1%}: {_number(part)} {text}{_marked(part, citations)} of {_number(whole)} {of}."


def _change(_snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    change, share, now = result.figures
    what = (result.query.filters.category or "events").lower()
    head = f"The last 24 hours hold {_number(now)} {what}{_marked(now, citations)}"
    if change.value is None:
        return f"{head}. The change is unknown: {result.note}."
    percent = "" if share.value is None else f" ({share.value:+.1%})"
    return f"{head}, {change.value:+,.0f}{percent} against the 24 hours before."


def _deaths(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    highest, with_toll, events = result.figures
    text = described(snapshot, result.query.filters)
    if not events.value:
        return f"The feeds hold 0 {text}, so no deaths either."
    if highest.value is None:
        return (
            f"No death toll is reported: of {_number(events)} {text}, none has a figure{_marked(events, citations)}. "
            "That does not mean that no one died."
        )
    head = f"The highest toll of one report is {_number(highest)}{_marked(highest, citations)}"
    some = f"; {_number(with_toll)} of {_number(events)} {text} report one. {result.note}"
    return f"{head}{some} {_rows(result.rows, citations)}." if result.rows else f"{head}{some}"


def _about(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    events, *kinds, stories = result.figures
    text = described(snapshot, result.query.filters)
    if not events.value and not result.rows:
        return f"The feeds hold 0 {text} and no stories either."
    counts = ", ".join(f"{_number(kind)} {kind.of}{_marked(kind, citations)}" for kind in kinds)
    head = f"The feeds hold {_number(events)} {text}{f' ({counts})' if counts else ''}"
    if not result.rows:
        return f"{head}, and no story."
    return f"{head}. The main of {_plural(stories, 'story', 'stories')}: {_rows(result.rows, citations)}."


def _stories(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    text = described(snapshot, result.query.filters, result.figures[0].value, of=STORIES)
    if not result.rows:
        return f"The feeds hold 0 {text}."
    if result.note:
        return f"No story contains all of these words. The closest: {_rows(result.rows, citations)}."
    return f"The main of {_number(result.figures[0])} {text}: {_rows(result.rows, citations)}."


def _story_count(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    figure = result.figures[0]
    text = described(snapshot, result.query.filters, figure.value, of=STORIES)
    return f"The feeds hold {_number(figure)} {text}{_marked(figure, citations)}."


def _publishers(snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    count, stories = result.figures
    if not result.rows:
        return f"The feeds hold 0 {described(snapshot, result.query.filters, of=STORIES)}."
    names = ", ".join(row.text for row in result.rows)
    with_toll = _plural(count, "publisher", "publishers")
    return f"{with_toll} of {_plural(stories, 'story', 'stories')}{_marked(count, citations)}: {names}."


def _entities(_snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    kind = {"person": "people", None: "entities"}.get(result.query.entity_type, f"{result.query.entity_type}s")
    if not result.figures:
        return f"The feeds name 0 {kind} there."
    names = "; ".join(f"{figure.of}, {_articles(figure)}{_marked(figure, citations)}" for figure in result.figures)
    return f"The most mentioned {kind}: {names}."


def _entity(_snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    if not result.figures:
        return "The feeds contain no entity of that name."
    mentions, publishers = result.figures
    head = f"{result.note} is named in {_articles(mentions)} by {_plural(publishers, 'publisher', 'publishers')}"
    stories = f" Stories: {_rows(result.rows, citations)}." if result.rows else ""
    return f"{head}{_marked(mentions, citations)}.{stories}"


def _related(_snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    if not result.figures:
        return f"The stories name no entity together with {result.note or 'that'}."
    names = "; ".join(f"{figure.of} (weight {figure.value:g}){_marked(figure, citations)}" for figure in result.figures)
    return f"Named in the same stories as {result.note}: {names}."


def _production(_snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    total, *largest = result.figures
    names = ", ".join(f"{figure.of} {_billions(figure)}" for figure in largest)
    return f"The {total.of} is {_billions(total)}{_marked(total, citations)}. The largest lines: {names}. {result.note}"


def _program(_snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    if not result.figures:
        return "The brief has no such programme."
    lines = "; ".join(f"{figure.of} {_billions(figure)}{_marked(figure, citations)}" for figure in result.figures)
    return f"{lines} in {result.note} (US procurement)."


def _gaps(_snapshot: Snapshot, result: QueryResult, citations: Citations) -> str:
    names = "; ".join(
        f"{figure.of} {'not scored' if figure.value is None else f'{figure.value:.2f}'}" for figure in result.figures
    )
    return f"Capability gaps, scored from 0 to 1{_marked(result.figures[0], citations)}: {names}. {result.rows[0].text}"


_RENDERERS: dict[str, Callable[[Snapshot, QueryResult, Citations], str]] = {
    "count": _count,
    "list": _list,
    "breakdown": _breakdown,
    "compare": _compare,
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
    "freshness": lambda _snapshot, result, citations: f"{_rows(result.rows, citations)}.",
}


def _rows(rows: Sequence[Row], citations: Citations) -> str:
    return "; ".join(f"{row.text} {citations.mark(row.references)}".rstrip() for row in rows[:NAMED])


def _marked(figure: Figure, citations: Citations) -> str:
    mark = citations.mark(figure.references)
    return f" {mark}" if mark else ""


def _number(figure: Figure) -> str:
    return "no figure" if figure.value is None else f"{figure.value:,.0f}"


def _plural(figure: Figure, one: str, many: str) -> str:
    return f"{_number(figure)} {one if figure.value == 1 else many}"


def _articles(figure: Figure) -> str:
    return _plural(figure, "article", "articles")


def _billions(figure: Figure) -> str:
    return "no figure" if figure.value is None else f"{figure.value:.2f} billion USD"
