"""What rules need of each event of the last 48 hours, kept by reading only what changed."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from tollhouse.services.defense import store
from tollhouse.services.defense.analysis.history import Served, ToldStory, entry_of, story_of, told_by
from tollhouse.services.defense.events.event import Category, Event, SeverityTier
from tollhouse.services.defense.events.query import Entry
from tollhouse.services.defense.events.snapshot import COUNTED_BACK, Counted, by_country
from tollhouse.services.defense.events.sync import SyncedRows
from tollhouse.services.defense.ingest.batches import slot_before
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.store import FATALITIES_FEED, WIDEST_WINDOW, revision
from tollhouse.storage.database import Transaction


class Mark(Struct, frozen=True, gc=False):
    """An event as rules see it. `minute` is when it was last reported, in minutes since 1970.

    `battle` is the whole event of a battle, whose words the brief's gap scores look at; None of all others.
    """

    category: Category
    country_code: str
    severity_tier: SeverityTier
    fatalities: int
    significance: float
    minute: int
    story_id: str | None
    battle: Event | None

    @property
    def cell(self) -> tuple[Category, str, SeverityTier]:
        """What filters go by, but for entities."""
        return self.category, self.country_code, self.severity_tier


class Seen(Struct, frozen=True):
    """What a look found: ids of events that came or changed, and of those that left."""

    changed: set[str]
    gone: set[str]


class FollowedMarks:
    """The marks of one pool by event id, as `EventsFeed` would serve them. After a look that failed, `forget`."""

    def __init__(self) -> None:
        self._stories: SyncedRows[ToldStory] = SyncedRows(news.PUBLISHED["story"], story_of)
        self._events: SyncedRows[Mark] = SyncedRows(store.EVENTS, self._mark)
        self.forget()

    def forget(self) -> None:
        """Hold nothing."""
        self._stories.clear()
        self._events.clear()
        self.told: dict[str, ToldStory] = {}
        self.counted: Counted = {}
        self._counted_at: tuple[int, str] | None = None

    @property
    def marks(self) -> Mapping[str, Mark]:
        """Every mark held."""
        return self._events.items

    @property
    def stories(self) -> Mapping[str, ToldStory]:
        """The stories that tell the events."""
        return self._stories.items

    async def look(self, connection: Transaction, served: Served) -> Seen:
        """Hold what the connection's snapshot has of the 48 hours that end with what is served."""
        before = slot_before(served.newest, WIDEST_WINDOW)
        is_counted_anew = await self._look_at_deaths(connection, (served.as_of - COUNTED_BACK).date().isoformat())
        await self._stories.sync(connection, served.pool, before)
        told_before, self.told = self.told, told_by(self._stories.items.values())
        seen = await self._events.sync(connection, served.pool, before)
        anew = _weighed_otherwise(told_before, self.told) - seen.changed
        await self._events.reload(connection, served.pool, anew)
        changed = set(self.marks) if is_counted_anew else seen.changed | (anew & self.marks.keys())
        return Seen(changed, seen.removed)

    async def _look_at_deaths(self, connection: Transaction, day: str) -> bool:
        """Whether others are counted than before, so that any event may have other deaths."""
        number = await revision(connection, FATALITIES_FEED)
        if (number, day) == self._counted_at:
            return False
        counted = by_country(await store.fatalities_since(connection, day))
        is_another = counted != self.counted
        if is_another:
            self._events.clear()
        self.counted, self._counted_at = counted, (number, day)
        return is_another

    def _mark(self, packed: bytes) -> Mark:
        return mark_of(entry_of(packed, self.told, self.counted))


def mark_of(entry: Entry) -> Mark:
    """The mark of an event as served."""
    event = entry.event
    return Mark(
        category=event.category,
        country_code=entry.country_code,
        severity_tier=event.metrics.severity_tier,
        fatalities=event.fatalities,
        significance=event.metrics.significance,
        minute=minute_of(entry.reported_at),
        story_id=event.story_id,
        battle=event if event.category == "Battles" else None,
    )


def minute_of(moment: datetime) -> int:
    """A moment in whole minutes since 1970."""
    return int(moment.timestamp()) // 60


def _weighed_otherwise(before: Mapping[str, ToldStory], now: Mapping[str, ToldStory]) -> set[str]:
    changed = {identity for identity, story in now.items() if not _weighs_alike(story, before.get(identity))}
    return changed | (before.keys() - now.keys())


def _weighs_alike(one: ToldStory, other: ToldStory | None) -> bool:
    return one is other or (other is not None and (one.id, one.source_count) == (other.id, other.source_count))
