"""The stories and entities of the last 24 hours, in memory, in the order of their feeds."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from tollhouse.services.defense.events.query import resolved_country
from tollhouse.services.defense.news.entity import Entity
from tollhouse.services.defense.news.query import EntitiesQuery, StoriesQuery
from tollhouse.services.defense.paging import Position, Slice, position, sliced
from tollhouse.services.defense.stories.story import Story

_WORD = re.compile(r"\w+")


class NewsWindow:
    """An immutable view of one revision of the news."""

    def __init__(self, stories: Iterable[Story], entities: Iterable[Entity], as_of: datetime | None) -> None:
        self.as_of = as_of
        self.stories = sorted(stories, key=_story_place)
        self.entities = sorted(entities, key=_entity_place)

    def stories_page(self, query: StoriesQuery) -> Slice[Story]:
        """Stories, most significant first. Raises Problem `invalid-parameter` for an unknown country."""
        found: Iterable[Story] = self.stories
        if query.category is not None:
            found = (story for story in found if story.category == query.category)
        if query.country is not None:
            name = resolved_country(query.country).name
            found = (story for story in found if name in story.countries)
        if query.since is not None:
            since = query.since.astimezone(UTC)
            found = (story for story in found if story.last_seen > since)
        if query.q is not None:
            wanted = _words(query.q)
            found = (story for story in found if wanted and wanted <= _words(f"{story.title} {story.summary}"))
        return sliced(list(found), _story_place, query.cursor, query.limit)

    def entities_page(self, query: EntitiesQuery) -> Slice[Entity]:
        """Entities, most mentioned first."""
        found: Iterable[Entity] = self.entities
        if query.type is not None:
            found = (entity for entity in found if entity.type == query.type)
        if query.q is not None:
            wanted = _words(query.q)
            found = (entity for entity in found if wanted and _is_called(entity, wanted))
        return sliced(list(found), _entity_place, query.cursor, query.limit)


def _story_place(story: Story) -> Position:
    return position(round(story.significance * 10_000), story.id)


def _entity_place(entity: Entity) -> Position:
    return position(entity.mentions, entity.id)


def _is_called(entity: Entity, wanted: set[str]) -> bool:
    return any(wanted <= _words(name) for name in (entity.name, *entity.aliases))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
