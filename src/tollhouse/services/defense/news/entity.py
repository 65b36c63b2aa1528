"""What an entity is, as callers read it, and how the articles of a window make it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from msgspec import Struct

from tollhouse.services.defense.entities.mention import EntityType
from tollhouse.services.defense.entities.relations import related
from tollhouse.services.defense.news.geocoding import Geocode, geocode
from tollhouse.services.defense.news.reported import Named, Reported
from tollhouse.services.defense.publishers import voices

MOST_RELATED = 10
MOST_STORIES = 50
MOST_ALIASES = 20


class RelatedEntity(Struct, frozen=True):
    """Another entity that the same stories name; `weight` lies in 0..1."""

    id: str
    name: str
    weight: float


class Entity(Struct, frozen=True):
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


class _Gathered(Struct):
    name: str
    type: EntityType
    articles: dict[str, Reported]
    texts: Counter[str]
    stories: Counter[str]


def entities_of(reports: Iterable[Reported], story_of: Mapping[str, str]) -> list[Entity]:
    """The entities that these articles name, `story_of` giving each article's story."""
    gathered: dict[str, _Gathered] = {}
    documents: dict[str, set[str]] = {}
    for report in reports:
        story = story_of.get(report.article.id)
        for named in report.names:
            _take(gathered, named, report, story)
        if story:
            documents.setdefault(story, set()).update(named.id for named in report.names)
    closest = related(documents.values(), MOST_RELATED)
    neighbours = {
        identity: [RelatedEntity(other.id, gathered[other.id].name, other.weight) for other in others]
        for identity, others in closest.items()
    }
    return [_entity(identity, found, neighbours.get(identity, ())) for identity, found in gathered.items()]


def _take(gathered: dict[str, _Gathered], named: Named, report: Reported, story: str | None) -> None:
    found = gathered.get(named.id)
    if found is None:
        found = gathered[named.id] = _Gathered(named.name, named.type, {}, Counter(), Counter())
    found.articles[report.article.id] = report
    found.texts[named.text] += 1
    if story:
        found.stories[story] += 1


def _entity(identity: str, found: _Gathered, close: Sequence[RelatedEntity]) -> Entity:
    articles = [report.article for report in found.articles.values()]
    places = [place for report in found.articles.values() for place in report.places]
    times = sorted(map(attrgetter("published"), articles))
    return Entity(
        id=identity,
        name=found.name,
        type=found.type,
        mentions=len(articles),
        source_count=voices(article.family for article in articles),
        first_seen=times[0],
        last_seen=times[-1],
        aliases=[text for text, _ in found.texts.most_common(MOST_ALIASES) if text != found.name],
        story_ids=[story for story, _ in found.stories.most_common(MOST_STORIES)],
        related=list(close),
        geo=geocode([found.name, *found.texts], places) if found.type == "location" else None,
    )
