"""What the publisher reads: the reports and articles of one source mode in its windows, and what changed in them."""

from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec import Struct

from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.events import event_set
from tollhouse.services.defense.events.history import FATALITIES_BACK, FatalitiesByCountry, fatalities_by_country
from tollhouse.services.defense.events.report import Page, Report, event_id
from tollhouse.services.defense.events.sync import SyncedRows
from tollhouse.services.defense.ingest.batches import compact, unpacked
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.reported_article import ReportedArticle
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.store import revision
from tollhouse.services.defense.stories.clusterer import WINDOW
from tollhouse.storage.database import Transaction


class WindowChanges(Struct, frozen=True):
    """What changed in the window: reports, articles, and pages whose report is missing or lacks its headline.

    `has_changes` is also true when only fatality records changed.
    """

    reports: list[Report]
    articles: list[ReportedArticle]
    pages: list[Page]
    has_changes: bool


class PublisherWindow:
    """The reports and articles of one source mode. Discard it after a failed sync."""

    def __init__(self) -> None:
        self._reports: SyncedRows[Report] = SyncedRows(events_store.REPORTS, msgspec.json.Decoder(Report).decode)
        self._report_of: dict[str, str] = {}
        self._articles_at: int | None = None
        self.fatalities: FatalitiesByCountry = {}
        self._fatalities_at: tuple[int, str] | None = None

    async def sync(self, connection: Transaction, pool: SourceMode, as_of: datetime) -> WindowChanges:
        """Read what changed up to `as_of`."""
        has_new_fatalities = await self._sync_fatalities(connection, as_of)
        changes = await self._reports.sync(connection, pool, compact(as_of - event_set.WINDOW))
        reports = [self._reports.items[report_id] for report_id in changes.changed]
        self._report_of |= {report.article_id: report.id for report in reports}
        articles = await self._sync_articles(connection, pool, compact(as_of - WINDOW))
        pages = await self._pages(connection, pool, articles)
        has_changes = has_new_fatalities or bool(reports or articles or changes.removed)
        return WindowChanges(reports, articles, pages, has_changes)

    async def _sync_articles(self, connection: Transaction, pool: SourceMode, after: str) -> list[ReportedArticle]:
        before, self._articles_at = self._articles_at, await revision(connection, events_store.ARTICLES_FEED)
        if before is None:
            changes = events_store.rows_after(connection, store.ARTICLES, pool, after)
        else:
            changes = events_store.rows_changed_since(connection, store.ARTICLES, pool, before)
        articles = []
        async for rows in changes:
            articles += [msgspec.json.decode(body, type=ReportedArticle) for _, moment, body in rows if moment > after]
        return articles

    async def _pages(
        self, connection: Transaction, pool: SourceMode, articles: Iterable[ReportedArticle]
    ) -> list[Page]:
        """The articles with a headline of their own that no report has."""
        untitled: dict[str, ReportedArticle] = {}
        for reported in articles:
            article = reported.article
            if article.source not in store.BASIS:
                continue
            report_id = self._report_of.get(article.id, event_id(article.url))
            report = self._reports.items.get(report_id)
            if report is None or (report.title_basis, report.title) != (store.BASIS[article.source], article.title):
                untitled[report_id] = reported
        stored = await events_store.rows_of_pages(connection, pool, list(untitled))
        pages = []
        for report_id, reported in untitled.items():
            known, article = self._reports.items.get(report_id), reported.article
            rows = {row.id: row for _, packed in stored.get(report_id, ()) for row in unpacked(packed)}
            headline = (article.title, store.BASIS[article.source])
            pages.append(Page(known.url if known else article.url, list(rows.values()), headline, article))
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
