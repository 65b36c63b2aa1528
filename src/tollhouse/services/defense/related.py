"""What stories and events have in common: the entities that both name, weighted by how rare they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import fsum, log, sqrt
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tollhouse.services.defense.article import find_publisher
from tollhouse.services.defense.entities.lexicon import EntityType
from tollhouse.services.defense.gazetteer import find_country, outlet_country
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.store import bodies_by_id
from tollhouse.storage.database import Transaction

MOST_RELATED = 8
LEAST_WEIGHT = 0.2
# A single name relates two items only if no more than this many have it: half the news may name one country.
MOST_NAMING = 5

OutletCountry = Annotated[
    str | None, Meta(description="The country that most articles of the outlet concern; null if unknown or if none")
]


class NamedEntity(Struct, frozen=True, gc=False):
    """An entity by id, with what it is called."""

    id: str
    name: str
    type: EntityType


class Likeness(Struct, frozen=True, gc=False):
    """Another item, how alike it is (0..1), and the ids of the entities that both name, the rarest first."""

    id: str
    weight: float
    shared: tuple[str, ...]


def nearest(
    own: AbstractSet[str], others: Mapping[str, AbstractSet[str]], count: Callable[[str], int], total: int
) -> list[Likeness]:
    """The most like of other items, by the entities that each names: the cosine of their inverse frequencies.

    `count` is how many of all `total` items name an entity.
    """

    def weight(entity: str) -> float:
        return log(1 + total / (1 + count(entity))) ** 2

    def length(entities: AbstractSet[str]) -> float:
        return sqrt(fsum(map(weight, entities))) or 1.0

    matches = []
    for one, named in others.items():
        shared = sorted(own & named, key=lambda entity: (-weight(entity), entity))
        if len(shared) > 1 or (shared and count(shared[0]) <= MOST_NAMING):
            cosine = fsum(map(weight, shared)) / (length(own) * length(named))
            matches.append(Likeness(one, round(min(1.0, cosine), 4), tuple(shared)))
    alike = [one for one in matches if one.weight >= LEAST_WEIGHT]
    return sorted(alike, key=lambda one: (-one.weight, one.id))[:MOST_RELATED]


class EntityOverlap:
    """Items by the entities that they name."""

    def __init__(self, items: Iterable[tuple[str, Sequence[str]]]) -> None:
        self._named = {item: frozenset(entities) for item, entities in items}
        self._naming: dict[str, list[str]] = {}
        for item, entities in self._named.items():
            for entity in entities:
                self._naming.setdefault(entity, []).append(item)

    def nearest(self, item: str, entities: Sequence[str]) -> list[Likeness]:
        """The items most like one that names these entities, without itself, best first."""
        naming = {other for entity in entities for other in self._naming.get(entity, ())} - {item}
        others = {other: self._named[other] for other in naming}
        return nearest(frozenset(entities), others, lambda entity: len(self._naming.get(entity, ())), len(self._named))


async def named_entities(connection: Transaction, pool: SourceMode, ids: Iterable[str]) -> Mapping[str, NamedEntity]:
    """The stored entities with these ids, in the order of the ids."""
    requested = list(dict.fromkeys(ids))
    bodies = await bodies_by_id(connection, news.PUBLISHED["entity"], pool, requested)
    return {one: msgspec.json.decode(bodies[one], type=NamedEntity) for one in requested if one in bodies}


def country_of_outlet(url: str) -> str | None:
    """The English name of the country that most articles of a page's outlet concern, None if unknown."""
    country = find_country(outlet_country(find_publisher(url).host))
    return country.name if country else None
