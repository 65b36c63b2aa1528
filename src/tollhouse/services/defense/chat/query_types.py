"""A question as a typed query over the feeds: what was understood, and all that the answer acts on."""

from datetime import date, datetime
from typing import Literal

from msgspec import Struct

from tollhouse.services.defense.entities.mention import EntityType
from tollhouse.services.defense.events.event import Category, SeverityTier

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


class Filters(Struct, frozen=True, omit_defaults=True):
    """Which events or stories are meant. Countries are names; `world` is a part of the world; `words` all stand in it.

    `since` and `until` compare the moment of the report, strictly after and up to; `day` compares `event_date`.
    """

    countries: tuple[str, ...] = ()
    world: str | None = None
    region: str | None = None
    category: Category | None = None
    subcategory: str | None = None
    severity_tier: SeverityTier | None = None
    day: date | None = None
    since: datetime | None = None
    until: datetime | None = None
    words: tuple[str, ...] = ()
    entity: str | None = None


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
