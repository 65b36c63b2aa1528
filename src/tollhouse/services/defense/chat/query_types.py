"""A question as a typed query over the feeds: what was understood, and all that the answer acts on."""

from datetime import date, datetime
from typing import Literal

from msgspec import Struct

from tollhouse.services.defense.entities.mention import EntityType
from tollhouse.services.defense.events.filter import EventFilter

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
