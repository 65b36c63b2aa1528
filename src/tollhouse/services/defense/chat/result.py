"""What a query answers: figures, rows, and the ids they rest on."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from tollhouse.questions.citations import Reference
from tollhouse.services.defense.chat.query_types import Query
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.stories.story import Story

Unit = Literal["events", "stories", "articles", "mentions", "publishers", "deaths", "billion_usd", "share", "score"]


class Figure(Struct, frozen=True):
    """One number. `of` names what it is about; None is a figure nobody measured or reported."""

    of: str
    value: float | None
    unit: Unit
    rests_on: tuple[Reference, ...] = ()


class Row(Struct, frozen=True):
    """One thing of a list, told in a line, and what it rests on."""

    text: str
    rests_on: tuple[Reference, ...]


class Finding(Struct, frozen=True):
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
