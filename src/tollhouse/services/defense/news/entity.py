"""Entities of the news: how articles name them, how they are related, and where locations are."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.article import count_source_families
from tollhouse.services.defense.entities.lexicon import EntityType
from tollhouse.services.defense.gazetteer import find_position
from tollhouse.services.defense.ingest.export_parser import slot_at
from tollhouse.services.defense.news.reported_article import Place, ReportedArticle

# Articles that name more are ignored: they relate nothing, and pairs grow quadratically.
MOST_NAMES = 40


class Related(Struct, frozen=True):
    """Another entity by id, with a weight of 0..1."""

    id: str
    weight: float


def related(documents: Iterable[Collection[str]], limit: int) -> dict[str, list[Related]]:
    """The closest entities of each entity, at most `limit`; `documents` are the ids that each article or story names.

    The weight is the cosine of the two entities' documents (Ochiai 1957), times n / (n + 1) for n documents shared,
    so that a single co-occurrence of two rare names has half the weight.
    """
    alone: Counter[str] = Counter()
    shared: Counter[tuple[str, str]] = Counter()
    for document in documents:
        ids = sorted(set(document))
        if len(ids) <= MOST_NAMES:
            alone.update(ids)
            shared.update(combinations(ids, 2))
    closest: dict[str, list[Related]] = {id_: [] for id_ in alone}
    for (first, second), together in shared.items():
        rounded = round(weight(together, alone[first], alone[second]), 4)
        closest[first].append(Related(second, rounded))
        closest[second].append(Related(first, rounded))
    return {id_: sorted(others, key=lambda other: (-other.weight, other.id))[:limit] for id_, others in closest.items()}


def weight(together: int, first: int, second: int) -> float:
    """The weight of two entities in `together` common documents, of `first` and `second` documents."""
    return together / sqrt(first * second) * together / (together + 1)


class Geocode(Struct, frozen=True, gc=False):
    """Decimal degrees; the centre of a country or region."""

    latitude: float
    longitude: float


def geocode(names: Iterable[str], places: Iterable[Place]) -> Geocode | None:
    """The position of the first name in the gazetteer, else of a place in the articles; None if unknown."""
    named = list(names)
    known = next((position for name in named if (position := find_position(name))), None)
    if known:
        return Geocode(*known)
    keys = {name.casefold() for name in named}
    return next((Geocode(p.latitude, p.longitude) for p in places if p.name.casefold() in keys), None)


MOST_RELATED = 10
MOST_STORIES = 50
MOST_ALIASES = 20


class RelatedEntity(Struct, frozen=True, gc=False):
    """Another entity in the same stories; `weight` is 0..1."""

    id: str
    name: str
    weight: float


class Entity(Struct, frozen=True, gc=False):
    """An entity as served. `mentions` counts articles, `source_count` source families. `geo` is null unless known."""

    id: str
    name: str
    type: EntityType
    mentions: int
    source_count: int
    first_seen: datetime
    last_seen: datetime
    aliases: list[str]
    story_ids: list[str]
    related: list[RelatedEntity]
    geo: Geocode | None


class PublishedEntity(Entity, frozen=True, gc=False):
    """An entity as stored: with its articles by the slot of 15 minutes that they were published in.

    `related_slots` are the articles that name a related entity too, by its id. Empty if an earlier version wrote it.
    """

    slots: dict[str, int] = {}
    related_slots: dict[str, dict[str, int]] = {}


class EntityIndex:
    """The entities of published articles; an update rebuilds only those whose articles or relations changed."""

    def __init__(self) -> None:
        self._naming: dict[str, _Naming] = {}
        self._pages: dict[str, set[str]] = {}
        self._named_in: dict[str, Counter[str]] = {}
        self._closest: dict[str, list[Related]] = {}
        self._entities: dict[str, PublishedEntity] = {}

    def update(self, reports: Iterable[ReportedArticle], story_of: Mapping[str, str]) -> list[PublishedEntity]:
        """The entities in these articles; `story_of` has the story of each article."""
        touched = self._count(reports, story_of)
        closest_before, self._closest = self._closest, related(self._named_in.values(), MOST_RELATED)
        renamed = {identity for identity in touched if self._rebuild(identity)}
        for identity in self._entities:
            closest = self._closest.get(identity, [])
            names_changed = any(other.id in renamed for other in closest)
            if identity in touched or closest != closest_before.get(identity, []) or names_changed:
                self._relate(identity, closest)
        return list(self._entities.values())

    def _count(self, reports: Iterable[ReportedArticle], story_of: Mapping[str, str]) -> set[str]:
        """Record the names in these articles; return the ids of affected entities."""
        touched: set[str] = set()
        removed = set(self._naming)
        for report in reports:
            identity = report.article.id
            removed.discard(identity)
            if not report.names:
                touched |= self._subtract(identity)
            elif self._naming.get(identity) != (now := _Naming(report, story_of.get(identity))):
                touched |= self._subtract(identity) | self._add(identity, now)
        for identity in removed:
            touched |= self._subtract(identity)
        return touched

    def _add(self, page: str, naming: "_Naming") -> set[str]:
        self._naming[page] = naming
        named = naming.ids()
        for identity in named:
            self._pages.setdefault(identity, set()).add(page)
        if naming.story:
            self._named_in.setdefault(naming.story, Counter()).update(named)
        return named

    def _subtract(self, page: str) -> set[str]:
        naming = self._naming.pop(page, None)
        if naming is None:
            return set()
        named = naming.ids()
        for identity in named:
            self._pages[identity].discard(page)
            if not self._pages[identity]:
                del self._pages[identity]
        if naming.story:
            remaining = self._named_in[naming.story] - Counter(named)
            if remaining:
                self._named_in[naming.story] = remaining
            else:
                del self._named_in[naming.story]
        return named

    def _rebuild(self, identity: str) -> bool:
        """Build an entity from its articles, or drop it; return whether its name changed."""
        before = self._entities.pop(identity, None)
        if pages := self._pages.get(identity):
            naming = [self._naming[page] for page in pages]
            naming.sort(key=lambda named: (named.report.article.published, named.report.article.id))
            self._entities[identity] = _entity(identity, naming)
        now = self._entities.get(identity)
        return before is not None and now is not None and before.name != now.name

    def _relate(self, identity: str, closest: Sequence[Related]) -> None:
        close = [RelatedEntity(other.id, self._entities[other.id].name, other.weight) for other in closest]
        together = {other.id: self._slots(self._pages[identity] & self._pages[other.id]) for other in closest}
        self._entities[identity] = replace(self._entities[identity], related=close, related_slots=together)

    def _slots(self, pages: Iterable[str]) -> dict[str, int]:
        return _by_slot(self._naming[page] for page in pages)


class _Naming(Struct, frozen=True, gc=False):
    """An article and its story."""

    report: ReportedArticle
    story: str | None

    def ids(self) -> set[str]:
        return {named.id for named in self.report.names}


def _by_slot(naming: Iterable[_Naming]) -> dict[str, int]:
    """The number of articles by the slot that they were published in, in order of time."""
    return dict(sorted(Counter(slot_at(page.report.article.published) for page in naming).items()))


def _entity(identity: str, naming: Sequence[_Naming]) -> PublishedEntity:
    """Build an entity from its articles in order of time, without relations."""
    named = [(named, page) for page in naming for named in page.report.names if named.id == identity]
    first = named[0][0]
    texts = Counter(called.text for called, _ in named)
    stories = Counter(page.story for _, page in named if page.story)
    places = [place for page in naming for place in page.report.places]
    return PublishedEntity(
        id=identity,
        name=first.name,
        type=first.type,
        mentions=len(naming),
        source_count=count_source_families(page.report.article.family for page in naming),
        first_seen=naming[0].report.article.published,
        last_seen=naming[-1].report.article.published,
        aliases=[text for text, _ in texts.most_common(MOST_ALIASES) if text != first.name],
        story_ids=[story for story, _ in stories.most_common(MOST_STORIES)],
        related=[],
        geo=geocode([first.name, *texts], places) if first.type == "location" else None,
        slots=_by_slot(naming),
    )
