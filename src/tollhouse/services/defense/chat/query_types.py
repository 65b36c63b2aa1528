"""A question as a typed query over the feeds, and the result of running it."""

from collections.abc import Iterable
from datetime import date, datetime
from typing import Literal

from msgspec import Struct

from tollhouse.questions.grounding import Reference
from tollhouse.services.defense.entities.mention import EntityType
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.events.filter import EventFilter
from tollhouse.services.defense.stories.story import Story

Operation = Literal[
    "count",
    "list",
    "breakdown",
    "compare",
    "share",
    "change",
    "deaths",
    "about",
    "stories",
    "story_count",
    "publishers",
    "entities",
    "entity",
    "related",
    "production",
    "program",
    "gaps",
    "freshness",
]
Dimension = Literal["country", "category", "severity_tier", "subcategory", "region"]
Order = Literal["significance", "recent", "fatalities"]

USUAL_ROWS = 5
MOST_ROWS = 25

REMEMBERED_TURNS = 3
REMEMBERED_CHARACTERS = 500


class Filters(EventFilter, frozen=True, kw_only=True):
    """The event filter, where `entity` is an id, and the conditions that only questions state.

    `countries` are names, of which one must fit; `world` is a part of the world. `words` must all occur, in
    singular or plural. `since` and `until` compare the time of the report, `day` compares `event_date`.
    """

    countries: tuple[str, ...] = ()
    world: str | None = None
    subcategory: str | None = None
    day: date | None = None
    until: datetime | None = None
    words: tuple[str, ...] = ()


EVERYTHING = Filters()


class Query(Struct, frozen=True, omit_defaults=True):
    """`sides` are what `compare` and `share` set against each other; `about` names an entity, programme or area."""

    operation: Operation
    filters: Filters = EVERYTHING
    sides: tuple[Filters, ...] = ()
    by: Dimension = "country"
    order: Order = "significance"
    limit: int = USUAL_ROWS
    entity_type: EntityType | None = None
    about: str | None = None


Unit = Literal["events", "stories", "articles", "mentions", "publishers", "deaths", "billion_usd", "share", "score"]


class Figure(Struct, frozen=True):
    """One number. `of` names what it is about; `value` is None if it was not measured or reported."""

    of: str
    value: float | None
    unit: Unit
    references: tuple[Reference, ...] = ()


class Row(Struct, frozen=True):
    """One item of a list as a line of text, with its references."""

    text: str
    references: tuple[Reference, ...]


class QueryResult(Struct, frozen=True):
    """The answer to `query`. `note` is what a reader must know about it, in words."""

    query: Query
    figures: tuple[Figure, ...] = ()
    rows: tuple[Row, ...] = ()
    note: str = ""


def event_reference(event: Event) -> Reference:
    return Reference(event.id, event.title, event.source_urls[0] if event.source_urls else None)


def story_reference(story: Story) -> Reference:
    return Reference(story.id, story.title, story.articles[0].url if story.articles else None)


def events_references(events: Iterable[Event]) -> tuple[Reference, ...]:
    return tuple(map(event_reference, events))


class Exchange(Struct, frozen=True, array_like=True):
    """A question and its answer, each cut to what is remembered."""

    prompt: str
    response: str


class Memory(Struct, frozen=True, array_like=True):
    """What a conversation is about: the last query that was understood, and the last exchanges."""

    query: Query | None
    exchanges: tuple[Exchange, ...]

    def after(self, query: Query | None, prompt: str, response: str) -> "Memory":
        """The memory after this question and its answer."""
        exchange = Exchange(prompt[:REMEMBERED_CHARACTERS], response[:REMEMBERED_CHARACTERS])
        return Memory(query or self.query, (*self.exchanges, exchange)[-REMEMBERED_TURNS:])


EMPTY_MEMORY = Memory(None, ())
