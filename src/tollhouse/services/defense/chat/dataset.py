"""The rows of the feeds that questions are about: events, stories, entities, programmes and capability gaps."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.questions.grounding import Reference
from tollhouse.questions.places import countries, country_names, find_country, parts_of_world, with_parts_of_world
from tollhouse.questions.query import Scalar
from tollhouse.questions.vocabulary import CallResult, Dataset, Declaration, Named, Values
from tollhouse.services.defense.article import find_publisher
from tollhouse.services.defense.brief.brief import Brief
from tollhouse.services.defense.brief.live_events import Change
from tollhouse.services.defense.events.event import WINDOW_HOURS, EventEntry, FeedSource
from tollhouse.services.defense.events.filter import EVENT_ATTRIBUTES
from tollhouse.services.defense.ingest.source_health import SourceHealth
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.stories.story import Story

EVENT, STORY, ENTITY, PROGRAM, GAP = "event", "story", "entity", "programme", "gap"
SHOWN_SOURCES = 12
SHOWN_RELATED = 5


@cache
def declaration() -> Declaration:
    """The content of vocabulary.toml."""
    text = files("tollhouse.services.defense.chat").joinpath("vocabulary.toml").read_text("utf-8")
    return with_parts_of_world(msgspec.convert(tomllib.loads(text), Declaration), "world")


class Holdings(Struct, frozen=True):
    """The feeds' own objects, each feed's in its own order. `as_of` ends the window of 24 hours.

    `entries` are relevant events, as the feed serves them.
    """

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


class FeedDataset(Dataset):
    """The rows of the feeds at one moment."""

    def __init__(self, holdings: Holdings) -> None:
        self.declaration = declaration()
        self.freshness = Freshness()
        self._holdings = holdings
        self._rows: dict[str, Sequence[Any]] = {
            EVENT: holdings.entries,
            STORY: holdings.stories,
            ENTITY: holdings.entities,
            PROGRAM: holdings.brief.production_summary.programs,
            GAP: holdings.brief.capability_gaps,
        }

    @property
    def now(self) -> datetime:
        return self._holdings.as_of

    @cached_property
    def hours(self) -> int:
        return WINDOW_HOURS

    @property
    def earliest(self) -> datetime | None:
        """The day of the earliest event that is reported in the window."""
        dates = [entry.event.event_date for entry in self._rows[EVENT]]
        return datetime.combine(min(dates), time(), UTC) if dates else None

    def rows(self, kind: str) -> Sequence[Any]:
        return self._rows[kind]

    def id(self, kind: str, row: Any) -> str:
        return str(_ID[kind](row))

    def label(self, kind: str, row: Any) -> str:
        if kind == EVENT:
            geo = row.event.geo
            place = ", ".join(part for part in (geo.region, geo.country) if part)
            return f"{row.event.title} ({row.event.subcategory}, {place or 'place unknown'}, {row.event.event_date})"
        return str(row.title if kind == STORY else row.area if kind == GAP else row.name)

    def reference(self, kind: str, row: Any) -> Reference | None:
        if kind == EVENT:
            return Reference(row.event.id, row.event.title, next(iter(row.event.source_urls), None))
        if kind == STORY:
            return _story_reference(row)
        if kind == ENTITY:
            stories = (self._story_by_id.get(story_id) for story_id in row.story_ids)
            return next((self.reference(STORY, story) for story in stories if story), None)
        return self._of_brief("production_summary" if kind == PROGRAM else "capability_gaps")

    def values(self, kind: str, row: Any, attribute: str) -> Values:
        read = EVENT_ATTRIBUTES.get(attribute) if kind == EVENT else None
        value = read(row) if read else _VALUES[kind][attribute](row)
        if value is None or value == "":
            return ()
        if isinstance(value, list | tuple):
            return value
        if isinstance(value, date) and not isinstance(value, datetime):
            return (datetime.combine(value, time(), UTC),)
        return (value,)

    def display(self, attribute: str, value: Scalar | datetime) -> str:
        if isinstance(value, datetime):
            return f"{value:%Y-%m-%d}" if attribute == "date" else clock.iso(value)
        return super().display(attribute, value)

    def profile(self, kind: str, row: Any) -> str:
        if kind == ENTITY:
            near = ", ".join(one.name for one in row.related[:SHOWN_RELATED])
            with_whom = f"; named together with {near}" if near else ""
            counts = f"mentioned in {row.mentions} articles of {row.source_count} publishers"
            return f"{row.name} ({row.type}): {counts}{with_whom}."
        if kind == PROGRAM:
            trend = row.trend
            years = f"FY2025 {trend.fy2025_b:.2f}, FY2027 requested {trend.fy2027_requested_b:.2f}"
            return f"{row.name} ({row.category}): {row.value_b:.2f} billion USD in FY2026 ({years})."
        return f"{row.area}: {row.explanation}" if kind == GAP else ""

    def names(self) -> Iterable[Named]:
        used = {entry.event.geo.country for entry in self._rows[EVENT]}
        places = [
            named
            for country in countries().values()
            for named in country_names(country, EVENT, country.name, with_codes=country.name in used)
        ]
        yield from places
        yield from self._values_of_data()
        taken = {named.text.casefold() for named in places}
        for entity in self._rows[ENTITY]:
            yield Named(entity.name, ENTITY, "id", entity.id)
            # A country's government is known by the country's name: that means the country.
            for alias in entity.aliases:
                if alias.casefold() not in taken or find_country(entity.name) is not None:
                    yield Named(alias, ENTITY, "id", entity.id, exact=_is_exact(alias))
        for kind in (PROGRAM, GAP):
            names = [self.id(kind, row) for row in self._rows[kind]]
            designations = Counter(match[1] for name in names if (match := _DESIGNATION.match(name)))
            for name in names:
                match = _DESIGNATION.match(name)
                if match is not None and designations[match[1]] == 1 and match[1] != name:
                    yield Named(match[1], kind, "id", name)
                yield from (Named(text, kind, "id", name) for text in dict.fromkeys([name, *_short_forms(name)]))

    def related(self, relation: str, row: Any) -> Iterable[tuple[Any, Any]]:
        if relation == "mentions":
            return [(entity, None) for entity in self._entities_of_story.get(row.id, ())]
        if relation == "names":
            return [(self._entity_by_id[one], None) for one in row.entities if one in self._entity_by_id]
        story = self._story_by_id.get(row.event.story_id or "")
        return [(story, None)] if story else []

    def texts(self, kind: str) -> Mapping[str, str]:
        """The lines that can be read of each row: of a story its title, its summary and its articles' headlines."""
        read = _LINES.get(kind)
        return {self.id(kind, row): "\n".join(read(row)) for row in self._rows[kind]} if read else {}

    def call(
        self, operation: str, rows: Sequence[Sequence[Any]], words: Sequence[str], limit: int | None
    ) -> CallResult:
        return _OPERATIONS[operation](self, rows, limit)

    @cached_property
    def _story_by_id(self) -> dict[str, Story]:
        return {story.id: story for story in self._rows[STORY]}

    @cached_property
    def _entity_by_id(self) -> dict[str, Entity]:
        return {entity.id: entity for entity in self._rows[ENTITY]}

    @cached_property
    def _entities_of_story(self) -> dict[str, list[Entity]]:
        named: dict[str, list[Entity]] = {}
        for entity in self._rows[ENTITY]:
            for story_id in entity.story_ids:
                named.setdefault(story_id, []).append(entity)
        return named

    def _values_of_data(self) -> Iterator[Named]:
        """The regions, kinds of action, publishers and areas that occur."""
        for attribute in ("region", "subcategory"):
            # "Political event" is the kind of an event whose action is not known, and "protests" are all of them.
            texts = _distinct(EVENT_ATTRIBUTES[attribute](row) for row in self._rows[EVENT])
            texts = [text for text in texts if not text.endswith(" event") and text.casefold() not in _category_nouns()]
            yield from (Named(text, EVENT, attribute, text) for text in texts)
        publishers = _distinct(name for story in self._rows[STORY] for name in story.sources)
        for name in publishers:
            # "The Guardian" is also written without its article; "The Star (Malaysia)" without its country.
            forms = {name, name.removeprefix("The "), name.partition(" (")[0]} if len(name) > len("The ABC") else {name}
            forms -= set(publishers) - {name}
            yield from (Named(text, STORY, "publisher", name, exact=_is_exact(text)) for text in sorted(forms))
        areas = _distinct(program.category for program in self._rows[PROGRAM])
        yield from (Named(area, PROGRAM, "area", area) for area in areas)

    def _of_brief(self, member: str) -> Reference:
        """A part of the brief as a reference: no story reports it, but the brief names its source."""
        source = next((one for one in self._holdings.brief.sources if member in one.used_for), None)
        name, url = (source.name, source.url) if source else ("source not named", None)
        return Reference(f"brief:{member}", f"Defense brief, {member}: {name}", url or None)

    def _change(self, rows: Sequence[Sequence[Any]], _limit: int | None) -> CallResult:
        """The change of all events, or of a category's, against the 24 hours before."""
        live, every = self._holdings.brief.events_live, self._rows[EVENT]
        ids = {row.event.id for row in (rows[0] if rows else every)}
        of_name = {
            "events": every,
            **{name: [r for r in every if r.event.category == name] for name in live.by_category},
        }
        name = next((name for name, those in of_name.items() if {row.event.id for row in those} == ids), None)
        references = (self._of_brief("events_live"),)
        if name is None:
            text = "The change since the 24 hours before is known for all events and for each category only."
            return CallResult(text, references=references)
        head = f"The last 24 hours have {len(ids)} {'events' if name == 'events' else f'{name} events'}"
        return CallResult(
            f"{head}{_change_in_words(live.change[name])}", value=live.change[name].absolute, references=references
        )

    def _freshness(self, _rows: Sequence[Sequence[Any]], _limit: int | None) -> CallResult:
        """The time up to which the feeds reach, and the last success of each provider."""
        holdings, freshness = self._holdings, self.freshness
        kind = "a recording" if holdings.source == "recorded" else "live data"
        age = ", older than an hour" if freshness.is_stale else ""
        read = f"{holdings.brief.events_live.coverage.window:.0%} of their 24 hours was read"
        parts = [f"The feeds are {kind}{age} and reach up to {clock.iso(self.now)}; {read}"]
        parts += [
            f"{source.name}: {source.status}, last success {source.last_success_at or 'never'}"
            for source in freshness.sources[:SHOWN_SOURCES]
        ]
        return CallResult(f"{'; '.join(parts)}.", references=(self._of_brief("events_live"),))

    def _associates(self, rows: Sequence[Sequence[Any]], limit: int | None) -> CallResult:
        """The entities that are named in the same stories, the closest first."""
        entity: Entity | None = next(iter(rows[0]), None) if rows else None
        near = [one for one in entity.related if one.id in self._entity_by_id] if entity else []
        if entity is None or not near:
            return CallResult("No entity is named in the same stories.", kind=ENTITY)
        shown = near[: limit or SHOWN_RELATED]
        closest = [self._entity_by_id[one.id] for one in shown]
        shared = {one: None for other in closest for one in other.story_ids if one in entity.story_ids}
        stories = [self._story_by_id[one] for one in shared if one in self._story_by_id]
        named = "; ".join(f"{one.name} (weight {one.weight:g})" for one in shown)
        return CallResult(
            f"Named in the same stories as {entity.name}: {named}.",
            kind=ENTITY,
            rows=tuple(closest),
            references=tuple(map(_story_reference, stories)),
        )

    def _summary(self, _rows: Sequence[Sequence[Any]], _limit: int | None) -> CallResult:
        """The brief in a few sentences."""
        brief = self._holdings.brief
        live, money = brief.events_live, brief.production_summary
        kinds = ", ".join(f"{count} {name.lower()}" for name, count in live.by_category.items())
        gap = next((one for one in brief.capability_gaps if one.gap_score is not None), None)
        widest = f" The widest capability gap is {gap.area} ({gap.gap_score:.2f})." if gap else ""
        stories = "; ".join(story.title for story in brief.top_stories)
        text = (
            f"The last 24 hours have {live.events_24h} events ({kinds}). US procurement of {money.fiscal_year} sums "
            f"up to {money.total_market_value_b:.2f} billion USD.{widest} Top stories: {stories}."
        )
        members = [self._of_brief(name) for name in ("events_live", "production_summary", "capability_gaps")]
        top = (Reference(s.id, s.title, None) for s in brief.top_stories)
        return CallResult(text, references=(*members, *top))


def _story_reference(story: Story) -> Reference:
    return Reference(story.id, story.title, story.articles[0].url if story.articles else None)


@cache
def _category_nouns() -> frozenset[str]:
    kind = next(kind for kind in declaration().kinds if kind.name == EVENT)
    return frozenset(noun.casefold() for noun in kind.implied)


def _is_exact(name: str) -> bool:
    """Whether a name is an abbreviation that is a common word in lower case."""
    return name.isupper() and (len(name) < 3 or name in {"WHO", "ICE"})


def _distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]


# The designation that a line begins with: "B-21" of "B-21 Raider".
_DESIGNATION = re.compile(r"([A-Z]{1,3}-\d+[A-Z]?)(?![\w/-])")


def _short_forms(name: str) -> Iterator[str]:
    """What people call a line of the budget: without what stands in brackets or after a comma, and the abbreviation."""
    bare, _, rest = name.partition(" (")
    bare = bare.partition(",")[0]
    if bare != name and len(bare) > 3:
        yield bare
    if (short := rest.partition(")")[0]).isupper() and len(short) > 3:
        yield short


def _change_in_words(change: Change) -> str:
    if change.absolute is None:
        return f". The change is unknown: {change.reason}."
    share = "" if change.share is None else f" ({change.share:+.1%})"
    return f", {change.absolute:+,d}{share} against the 24 hours before."


def _outlets(entry: EventEntry) -> list[str]:
    return _distinct(find_publisher(url).name for url in entry.event.source_urls)


def _parts(countries: Iterable[str]) -> list[str]:
    return _distinct(part for name in countries for part in parts_of_world().get(name, ()))


# A title that was composed because neither a page nor its address gave one: "Armed clash in Moscow (example.org)".
_COMPOSED = re.compile(r" in [^()]+ \([\w.-]+\.[a-z]+\)$")


def _event_lines(entry: EventEntry) -> Iterable[str]:
    event = entry.event
    place = ", ".join(part for part in (event.geo.region, event.geo.country) if part)
    return () if _COMPOSED.search(event.title) else (f"{event.title} ({place})",)


def _story_lines(story: Story) -> Iterable[str]:
    lines = dict.fromkeys(filter(None, (story.title, story.summary, *(article.title for article in story.articles))))
    return [line for line in lines if not _COMPOSED.search(line)]


_LINES: dict[str, Callable[[Any], Iterable[str]]] = {
    EVENT: _event_lines,
    STORY: _story_lines,
}
_ID: dict[str, Callable[[Any], Any]] = {
    EVENT: lambda entry: entry.event.id,
    STORY: lambda story: story.id,
    ENTITY: lambda entity: entity.id,
    PROGRAM: lambda program: program.name,
    GAP: lambda gap: gap.area,
}
# The values of attributes; those of events that filters test as well are EVENT_ATTRIBUTES.
_VALUES: dict[str, dict[str, Callable[[Any], Any]]] = {
    EVENT: {"world": lambda entry: _parts([entry.event.geo.country]), "publisher": _outlets},
    STORY: {
        "country": lambda story: story.countries,
        "countries": lambda story: len(story.countries),
        "world": lambda story: _parts(story.countries),
        "category": lambda story: story.category,
        "publisher": lambda story: story.sources,
        "publishers": lambda story: story.source_count,
        "articles": lambda story: story.article_count,
        "significance": lambda story: story.significance,
        "first_seen": lambda story: story.first_seen,
        "last_seen": lambda story: story.last_seen,
        "title": lambda story: story.title,
    },
    ENTITY: {
        "type": lambda entity: entity.type,
        "mentions": lambda entity: entity.mentions,
        "publishers": lambda entity: entity.source_count,
        "first_seen": lambda entity: entity.first_seen,
        "last_seen": lambda entity: entity.last_seen,
        "alias": lambda entity: entity.aliases,
    },
    PROGRAM: {
        "area": lambda program: program.category,
        "money": lambda program: program.value_b,
        "money_2025": lambda program: program.trend.fy2025_b,
        "money_2027": lambda program: program.trend.fy2027_requested_b,
        "trend": lambda program: program.trend.direction,
    },
    GAP: {
        "score": lambda gap: gap.gap_score,
        "demand": lambda gap: gap.demand.score,
        "supply": lambda gap: gap.supply.score,
        "trend": lambda gap: gap.trend.direction,
    },
}
_OPERATIONS: dict[str, Callable[[FeedDataset, Sequence[Sequence[Any]], int | None], CallResult]] = {
    "change": FeedDataset._change,  # noqa: SLF001 - the table of this class's own operations
    "freshness": FeedDataset._freshness,  # noqa: SLF001
    "associates": FeedDataset._associates,  # noqa: SLF001
    "closest": lambda dataset, rows, _limit: dataset._associates(rows, 1),  # noqa: SLF001
    "summary": FeedDataset._summary,  # noqa: SLF001
}
