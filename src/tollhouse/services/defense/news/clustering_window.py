"""The clustering window as the newsdesk reads it: the events it holds, and what was reported since it last looked."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense import revisions
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.events.event import EventRecord, read_record
from tollhouse.services.defense.events.snapshot import COUNTED_BACK, Counted, by_country, with_fatalities
from tollhouse.services.defense.events.sync import SyncedRows
from tollhouse.services.defense.ingest.batches import Pool, compact
from tollhouse.services.defense.links import article_id
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.reported_article import Reported, reported_by_event
from tollhouse.services.defense.news.story_builder import StoryBuilder
from tollhouse.services.defense.store import ARTICLES_FEED, FATALITIES_FEED
from tollhouse.services.defense.stories.clusterer import WINDOW
from tollhouse.storage.database import Transaction

_NO_REASONS: dict[str, str] = {}
_NO_ROWS: list[str] = []


class Seen(Struct, frozen=True):
    """What a look found: articles that came or changed, and events that came, changed or left."""

    reports: list[Reported]
    is_another: bool


class DeskWindow:
    """One pool's events and articles of the clustering window. Of no use after a look that failed."""

    def __init__(self) -> None:
        self._events: SyncedRows[EventRecord] = SyncedRows(events_store.EVENTS, self._record)
        self._articles_at: int | None = None
        self._counted: Counted = {}
        self._counted_at: tuple[int, str] | None = None
        self._linked: set[str] = set()
        self._unlinked: set[str] = set()

    @property
    def events(self) -> Mapping[str, EventRecord]:
        """The events by id, without their rows, and without reasons that no story is told from."""
        return self._events.items

    @property
    def articles_at(self) -> int:
        """The revision up to which articles were read."""
        return self._articles_at or 0

    async def look(self, connection: Transaction, pool: Pool, as_of: datetime) -> Seen:
        """Take in what changed in the 36 hours up to `as_of`."""
        after = compact(as_of - WINDOW)
        counted_anew = await self._look_at_deaths(connection, (as_of - WINDOW - COUNTED_BACK).date().isoformat())
        events = await self._events.sync(connection, pool, after)
        self._unlinked = (self._unlinked | events.changed) - events.removed
        reports = await self._look_at_articles(connection, pool, after)
        self._link(reports)
        return Seen(reports, counted_anew or bool(reports or events.changed or events.removed))

    def unreported(self, newest: str, reports: Iterable[Reported], room: StoryBuilder) -> list[Reported]:
        """The pages of events up to the slot `newest` that neither these nor the room's reports link to their event."""
        here = {report.article.id: report for report in reports}
        pages = []
        for identity in sorted(self._unlinked):
            if self._events.moment(identity) <= newest:
                page = article_id(self.events[identity].url)
                known = here.get(page) or room.report(page)
                pages.append(known.linked_to(identity) if known else reported_by_event(self.events[identity]))
        return pages

    def wrote(self, reports: Iterable[Reported], number: int) -> None:
        """Say that the desk itself stored these at that revision of the articles, if any had to be."""
        self._link(reports)
        if number == self.articles_at + 1:
            self._articles_at = number

    def _link(self, reports: Iterable[Reported]) -> None:
        self._linked.update(report.event_id for report in reports if report.event_id)
        self._linked &= self.events.keys()
        self._unlinked -= self._linked

    async def _look_at_articles(self, connection: Transaction, pool: Pool, after: str) -> list[Reported]:
        before, self._articles_at = self._articles_at, await revisions.revision(connection, ARTICLES_FEED)
        if before is None:
            found = revisions.rows_after(connection, store.ARTICLES, pool, after)
        else:
            found = revisions.rows_changed_since(connection, store.ARTICLES, pool, before)
        reports = []
        async for rows in found:
            reports += [msgspec.json.decode(body, type=Reported) for _, moment, body in rows if moment > after]
        return reports

    async def _look_at_deaths(self, connection: Transaction, day: str) -> bool:
        """Whether others are counted than before."""
        number = await revisions.revision(connection, FATALITIES_FEED)
        if (number, day) == self._counted_at:
            return False
        before, self._counted_at = self._counted, (number, day)
        self._counted = by_country(await events_store.fatalities_since(connection, day))
        if before == self._counted:
            return False
        self._events.clear()
        return True

    def _record(self, packed: bytes) -> EventRecord:
        record = with_fatalities(read_record(packed), self._counted)
        return replace(record, reasons=_NO_REASONS, row_ids=_NO_ROWS)
