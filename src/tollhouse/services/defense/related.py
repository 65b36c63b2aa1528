"""What stories and events have in common: the entities that both name, weighted by how rare they are."""

from collections.abc import Iterable, Mapping, Sequence
from math import log, sqrt
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tollhouse.services.defense.countries import find_country
from tollhouse.services.defense.entities.mention import EntityType
from tollhouse.services.defense.events.gazetteer import outlet_country
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.publishers import find_publisher
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


class EntityOverlap:
    """Items by the entities that they name. The likeness is the cosine of their entities' inverse frequencies."""

    def __init__(self, items: Iterable[tuple[str, Sequence[str]]]) -> None:
        self._named = {item: frozenset(entities) for item, entities in items}
        self._naming: dict[str, list[str]] = {}
        for item, entities in self._named.items():
            for entity in entities:
                self._naming.setdefault(entity, []).append(item)

    def nearest(self, item: str, entities: Sequence[str]) -> list[Likeness]:
        """The items most like one that names these entities, without itself, best first."""
        own = frozenset(entities)
        scores: dict[str, float] = {}
        for entity in own:
            for other in self._naming.get(entity, ()):
                scores[other] = scores.get(other, 0.0) + self._weight(entity)
        length = self._length(own)
        shared = {one: sorted(own & self._named[one], key=self._rarity) for one in scores if one != item}
        matches = [
            Likeness(one, round(min(1.0, scores[one] / (length * self._length(self._named[one]))), 4), tuple(names))
            for one, names in shared.items()
            if len(names) > 1 or len(self._naming[names[0]]) <= MOST_NAMING
        ]
        matches = [one for one in matches if one.weight >= LEAST_WEIGHT]
        return sorted(matches, key=lambda one: (-one.weight, one.id))[:MOST_RELATED]

    def _weight(self, entity: str) -> float:
        return log(1 + len(self._named) / (1 + len(self._naming.get(entity, ())))) ** 2

    def _rarity(self, entity: str) -> tuple[float, str]:
        return -self._weight(entity), entity

    def _length(self, entities: frozenset[str]) -> float:
        return sqrt(sum(self._weight(entity) for entity in entities)) or 1.0


async def named_entities(connection: Transaction, pool: SourceMode, ids: Iterable[str]) -> Mapping[str, NamedEntity]:
    """The stored entities with these ids, in the order of the ids."""
    requested = list(dict.fromkeys(ids))
    bodies = await bodies_by_id(connection, news.PUBLISHED["entity"], pool, requested)
    return {one: msgspec.json.decode(bodies[one], type=NamedEntity) for one in requested if one in bodies}


def country_of_outlet(url: str) -> str | None:
    """The English name of the country that most articles of a page's outlet concern, None if unknown."""
    country = find_country(outlet_country(find_publisher(url).host))
    return country.name if country else None
