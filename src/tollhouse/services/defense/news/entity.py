"""What an entity is, as callers read it, and how the articles of a window make it."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.entities.mention import EntityType
from tollhouse.services.defense.entities.relations import Related, related
from tollhouse.services.defense.news.geocoding import Geocode, geocode
from tollhouse.services.defense.news.reported_article import Reported
from tollhouse.services.defense.publishers import voices

MOST_RELATED = 10
MOST_STORIES = 50
MOST_ALIASES = 20


class RelatedEntity(Struct, frozen=True, gc=False):
    """Another entity that the same stories name; `weight` lies in 0..1."""

    id: str
    name: str
    weight: float


class Entity(Struct, frozen=True, gc=False):
    """`mentions` counts articles, `source_count` publisher families. `geo` is null but for places we know."""

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


class EntityCount:
    """Who is named where, from edition to edition: only entities whose pages or neighbours changed are told anew."""

    def __init__(self) -> None:
        self._naming: dict[str, _Naming] = {}
        self._pages: dict[str, set[str]] = {}
        self._named_in: dict[str, Counter[str]] = {}
        self._closest: dict[str, list[Related]] = {}
        self._entities: dict[str, Entity] = {}

    def told(self, reports: Iterable[Reported], story_of: Mapping[str, str]) -> list[Entity]:
        """The entities that these articles name, `story_of` giving each article's story."""
        touched = self._count(reports, story_of)
        closest_before, self._closest = self._closest, related(self._named_in.values(), MOST_RELATED)
        renamed = {identity for identity in touched if self._tell(identity)}
        for identity in self._entities:
            closest = self._closest.get(identity, [])
            if identity in touched or closest != closest_before.get(identity, []) or _names_any(closest, renamed):
                self._relate(identity, closest)
        return list(self._entities.values())

    def _count(self, reports: Iterable[Reported], story_of: Mapping[str, str]) -> set[str]:
        """Take in what the pages name now; answers with the entities that this touches."""
        touched: set[str] = set()
        left = set(self._naming)
        for report in reports:
            identity = report.article.id
            left.discard(identity)
            if not report.names:
                touched |= self._subtract(identity)
            elif self._naming.get(identity) != (now := _Naming(report, story_of.get(identity))):
                touched |= self._subtract(identity) | self._add(identity, now)
        for identity in left:
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
            _drop(self._pages, identity, page)
        if naming.story:
            left = self._named_in[naming.story] - Counter(named)
            if left:
                self._named_in[naming.story] = left
            else:
                del self._named_in[naming.story]
        return named

    def _tell(self, identity: str) -> bool:
        """Tell an entity by its pages, or no longer; whether it is called otherwise than before."""
        before = self._entities.pop(identity, None)
        if pages := self._pages.get(identity):
            naming = sorted((self._naming[page] for page in pages), key=_in_time)
            self._entities[identity] = _entity(identity, naming)
        now = self._entities.get(identity)
        return before is not None and now is not None and before.name != now.name

    def _relate(self, identity: str, closest: Sequence[Related]) -> None:
        close = [RelatedEntity(other.id, self._entities[other.id].name, other.weight) for other in closest]
        self._entities[identity] = replace(self._entities[identity], related=close)


class _Naming(Struct, frozen=True, gc=False):
    """A page and the story that it is in."""

    report: Reported
    story: str | None

    def ids(self) -> set[str]:
        return {named.id for named in self.report.names}


def _entity(identity: str, naming: Sequence[_Naming]) -> Entity:
    """By the pages that name it, in the order of time; nobody related to it yet."""
    named = [(named, page) for page in naming for named in page.report.names if named.id == identity]
    first = named[0][0]
    texts = Counter(called.text for called, _ in named)
    stories = Counter(page.story for _, page in named if page.story)
    places = [place for page in naming for place in page.report.places]
    return Entity(
        id=identity,
        name=first.name,
        type=first.type,
        mentions=len(naming),
        source_count=voices(page.report.article.family for page in naming),
        first_seen=naming[0].report.article.published,
        last_seen=naming[-1].report.article.published,
        aliases=[text for text, _ in texts.most_common(MOST_ALIASES) if text != first.name],
        story_ids=[story for story, _ in stories.most_common(MOST_STORIES)],
        related=[],
        geo=geocode([first.name, *texts], places) if first.type == "location" else None,
    )


def _in_time(naming: _Naming) -> tuple[datetime, str]:
    return naming.report.article.published, naming.report.article.id


def _names_any(closest: Iterable[Related], renamed: Collection[str]) -> bool:
    return bool(renamed) and any(other.id in renamed for other in closest)


def _drop(pages: dict[str, set[str]], identity: str, page: str) -> None:
    pages[identity].discard(page)
    if not pages[identity]:
        del pages[identity]
