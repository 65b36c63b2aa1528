"""Which stories name the entities that rules watch, by id or by name, mergers followed."""

from collections.abc import Collection, Mapping

import msgspec
from msgspec import Struct

from tollhouse.services.defense.alerts import store
from tollhouse.services.defense.analysis.history import ToldStory
from tollhouse.services.defense.ingest.batches import SourceMode
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.store import rows_after
from tollhouse.storage.database import Transaction

# What one was merged into may itself have been merged since.
MOST_SUCCESSIONS = 20
ID_PREFIX = "entity_"


class Called(Struct, frozen=True, gc=False):
    """Of an entity as stored, what it is called."""

    id: str
    name: str
    aliases: list[str] = []


class EntityNames:
    """The stories of each wanted entity, found anew only when stories or wishes changed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Stories changed: what is known of them is of no use."""
        self._wanted: frozenset[str] = frozenset()
        self._naming: dict[str, frozenset[str]] = {}

    async def naming(
        self,
        connection: Transaction,
        pool: SourceMode,
        wanted: Collection[str],
        stories: Mapping[str, ToldStory],
    ) -> dict[str, frozenset[str]]:
        """The ids of the stories that name each wanted entity."""
        if not self._wanted.issuperset(wanted):
            self._wanted = frozenset(wanted)
            self._naming = stories_naming(await ids_meant(connection, pool, self._wanted), stories)
        return self._naming


def stories_naming(meant: Mapping[str, set[str]], stories: Mapping[str, ToldStory]) -> dict[str, frozenset[str]]:
    """The stories that name any of the ids that each text means."""
    texts: dict[str, list[str]] = {}
    for text, ids in meant.items():
        for identity in ids:
            texts.setdefault(identity, []).append(text)
    found: dict[str, set[str]] = {text: set() for text in meant}
    for story in stories.values() if texts else ():
        for identity in story.entities:
            for text in texts.get(identity, ()):
                found[text].add(story.id)
    return {text: frozenset(ids) for text, ids in found.items()}


async def ids_meant(connection: Transaction, pool: SourceMode, texts: Collection[str]) -> dict[str, set[str]]:
    """The entities that each text means: an id and what it was merged into, or all of that name or alias."""
    ids = {text for text in texts if text.startswith(ID_PREFIX)}
    meant = {text: {text} for text in ids}
    heirs = {text: text for text in ids}
    for _ in range(MOST_SUCCESSIONS):
        merged = await store.successors(connection, pool, set(heirs.values()))
        heirs = {text: merged[heir] for text, heir in heirs.items() if heir in merged}
        if not heirs:
            break
        for text, heir in heirs.items():
            meant[text].add(heir)
    return meant | await _called(connection, pool, {text for text in texts if text not in ids})


async def _called(connection: Transaction, pool: SourceMode, names: Collection[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in names}
    if not found:
        return found
    by_text: dict[str, list[str]] = {}
    for name in names:
        by_text.setdefault(name.casefold().strip(), []).append(name)
    async for rows in rows_after(connection, news.PUBLISHED["entity"], pool, ""):
        for _, _, body in rows:
            entity = msgspec.json.decode(body, type=Called)
            for text in {entity.name.casefold(), *(alias.casefold() for alias in entity.aliases)} & by_text.keys():
                for name in by_text[text]:
                    found[name].add(entity.id)
    return found
