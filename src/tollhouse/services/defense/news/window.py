"""What the publisher reads: the reports and articles of one source mode in its windows, and what changed in them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import datetime

import msgspec
from msgspec import Struct

from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.events import event_set
from tollhouse.services.defense.events.event_set import EventSet
from tollhouse.services.defense.events.history import FATALITIES_BACK, FatalitiesByCountry, fatalities_by_country
from tollhouse.services.defense.events.report import Page, ReportHeadline, event_id
from tollhouse.services.defense.ingest.batches import unpacked
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.reported_article import ReportedArticle
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.store import Source, revision
from tollhouse.services.defense.stories.clusterer import WINDOW
from tollhouse.storage.database import Transaction


class WindowChanges(Struct, frozen=True):
    """What changed in the window: reports, articles, and pages whose report is missing or lacks its headline.

    `reports` are packed by the event set. `has_changes` is also true when only fatality records changed.
    """

    reports: list[bytes]
    articles: list[ReportedArticle]
    pages: list[Page]
    has_changes: bool


class PublisherWindow:
    """Reads what changed for the events of one source mode. Discard it after a failed sync."""

    def __init__(self, events: EventSet) -> None:
        self._events = events
        self._seen: dict[str, int] = {}
        self.fatalities: FatalitiesByCountry = {}
        self._fatalities_at: tuple[int, str] | None = None

    async def sync(self, connection: Transaction, pool: SourceMode, as_of: datetime) -> WindowChanges:
        """Read what changed up to `as_of`."""
        has_new_fatalities = await self._sync_fatalities(connection, as_of)
        reports: list[bytes] = []
        async for bodies in self._changes(connection, events_store.REPORTS, pool, compact(as_of - event_set.WINDOW)):
            reports += await asyncio.to_thread(self._events.packed.pack, bodies)
        articles: list[ReportedArticle] = []
        async for bodies in self._changes(connection, store.ARTICLES, pool, compact(as_of - WINDOW)):
            articles += [msgspec.json.decode(body, type=ReportedArticle) for body in bodies]
        pages = await self._pages(connection, pool, articles, reports)
        return WindowChanges(reports, articles, pages, has_new_fatalities or bool(reports or articles))

    async def _changes(
        self, connection: Transaction, source: Source, pool: SourceMode, after: str
    ) -> AsyncIterator[list[bytes]]:
        """The bodies of the rows after a time that changed since the last sync, in batches."""
        before, self._seen[source.feed] = self._seen.get(source.feed), await revision(connection, source.feed)
        if before is None:
            changes = events_store.rows_after(connection, source, pool, after)
        else:
            changes = events_store.rows_changed_since(connection, source, pool, before)
        async for rows in changes:
            yield [body for _, moment, body in rows if moment > after]

    async def _pages(
        self,
        connection: Transaction,
        pool: SourceMode,
        articles: Iterable[ReportedArticle],
        reports: Iterable[bytes],
    ) -> list[Page]:
        """The articles with a headline of their own that no report has."""
        headlined = [reported for reported in articles if reported.article.source in store.BASIS]
        if not headlined:
            return []
        decoder = msgspec.json.Decoder(ReportHeadline)
        changed = {it.id: it for it in map(decoder.decode, map(self._events.packed.unpack, reports))}
        report_of = {it.article_id: it.id for it in changed.values()}
        known: dict[str, ReportHeadline | None] = {}
        untitled: dict[str, ReportedArticle] = {}
        for reported in headlined:
            article = reported.article
            known_id = report_of.get(article.id) or self._events.report_of(article.id)
            report_id = known_id or event_id(article.url)
            report = known[report_id] = changed.get(report_id) or self._events.headline(report_id)
            if report is None or (report.title_basis, report.title) != (store.BASIS[article.source], article.title):
                untitled[report_id] = reported
        stored = await events_store.rows_of_pages(connection, pool, list(untitled))
        pages = []
        for report_id, reported in untitled.items():
            report, article = known[report_id], reported.article
            rows = {row.id: row for _, packed in stored.get(report_id, ()) for row in unpacked(packed)}
            headline = (article.title, store.BASIS[article.source])
            pages.append(Page(report.url if report else article.url, list(rows.values()), headline, article))
        return pages

    async def _sync_fatalities(self, connection: Transaction, as_of: datetime) -> bool:
        """Read fatality records again if they changed; whether they did."""
        day = (as_of - WINDOW - FATALITIES_BACK).date().isoformat()
        number = await revision(connection, events_store.FATALITIES_FEED)
        if (number, day) == self._fatalities_at:
            return False
        before, self._fatalities_at = self.fatalities, (number, day)
        self.fatalities = fatalities_by_country(await events_store.fatalities_since(connection, day))
        return before != self.fatalities
