"""Articles as they are stored, with the names and places of each page: importing them, and reading what changed.

The publisher reads the reports and articles of one source mode in its windows.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from sys import intern
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.article import Article, article_id, find_publisher, has_foreign_letters, names_agency
from tollhouse.services.defense.entities.extractor import extract_names
from tollhouse.services.defense.entities.lexicon import EntityType, Mention
from tollhouse.services.defense.entities.merge import NamedEntity, bare_name, named_entities
from tollhouse.services.defense.events import event_set
from tollhouse.services.defense.events.classifier import title_relevance
from tollhouse.services.defense.events.event_set import EventSet
from tollhouse.services.defense.events.history import FATALITIES_BACK, FatalitiesByCountry, read_fatalities
from tollhouse.services.defense.events.place import decide_place
from tollhouse.services.defense.events.report import Page, Report, ReportHeadline, composed_title, event_id
from tollhouse.services.defense.gazetteer import find_country
from tollhouse.services.defense.ingest.export_parser import compact, unpacked_rows
from tollhouse.services.defense.ingest.gkg_parser import GkgRecord
from tollhouse.services.defense.ingest.gkg_parser import Mention as EventMention
from tollhouse.services.defense.ingest.url_title import title_from_url
from tollhouse.services.defense.news import store
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.store import (
    ARTICLES_FEED,
    CHUNK,
    Source,
    bodies_by_id,
    bump_revision,
    page_file,
    revision,
    write_at,
)
from tollhouse.services.defense.stories.clusterer import WINDOW
from tollhouse.storage.database import Database, Transaction, upsert


class Place(Struct, frozen=True, gc=False):
    """A place in GDELT's gazetteer, in decimal degrees."""

    name: str
    latitude: float
    longitude: float


_RAISED = re.compile(r"(?<= )(?:Of|The|And|For|On|In|To)(?= )")


def add_gkg_names(ours: Sequence[Mention], persons: Sequence[str], organizations: Sequence[str]) -> list[Mention]:
    """Our mentions, then the names of two words or more that only GKG found; those have no position in our text.

    A name that GKG lists twice, as a person and as an organization, is left out, as is a place with a legal form
    ("India Ltd"). GKG raises the first letter of every word.
    """
    known = {name.casefold() for mention in ours for name in (mention.text, bare_name(mention))}
    listed = Counter(name.casefold() for name in (*persons, *organizations))
    kinds: tuple[tuple[EntityType, Sequence[str]], ...] = (("person", persons), ("organization", organizations))
    added = [
        Mention(_RAISED.sub(lambda word: word[0].lower(), name), kind, 0, 0)
        for kind, names in kinds
        for name in names
        if " " in name and name.casefold() not in known and listed[name.casefold()] == 1 and not names_agency(name)
    ]
    added = [it for it in added if (bare := bare_name(it)) == it.text or find_country(bare) is None]
    return [*ours, *added]


class ReportedArticle(Struct, frozen=True, gc=False):
    """An article with its entities and places.

    `has_headline` is False for a composed title, which names no entity and matches no other article.
    """

    article: Article
    names: tuple[NamedEntity, ...]
    places: tuple[Place, ...] = ()
    has_headline: bool = True


def report_article(article: Article) -> ReportedArticle:
    """An article with the entities in its title and text."""
    return ReportedArticle(article, named_entities(extract_names(_text(article))))


def report_gkg_page(record: GkgRecord) -> ReportedArticle:
    """A GKG page with the entities in its title and those that GDELT found in its text."""
    places = tuple(Place(it.name.split(",")[0].strip(), it.latitude, it.longitude) for it in record.places)
    names = add_gkg_names(list(extract_names(_text(record.article))), record.persons, record.organizations)
    return ReportedArticle(record.article, named_entities(names), places)


def page_of_report(report: Report) -> ReportedArticle:
    """The page behind a report of an event; its title is composed if neither the page nor its URL gives one."""
    title = report.title
    if not title:
        place = decide_place([report.place])
        title = composed_title(report.subcategory, place.name if place else "", report.url)
    article = Article(
        id=report.article_id,
        url=report.url,
        title=title,
        publisher=intern(report.publisher),
        family=intern(report.family),
        published=report.first_reported_at,
        source="gdelt",
    )
    return ReportedArticle(article, report.names, has_headline=report.has_headline)


def merged_reports(known: ReportedArticle, later: ReportedArticle) -> ReportedArticle:
    """Merge two reports of one page: the better title, and everything that only one of them has."""
    first, second = known.article, later.article
    better = second if _rank(second) >= _rank(first) else first
    article = replace(
        better,
        published=first.published,
        text=second.text or first.text,
        tone=second.tone if second.tone is not None else first.tone,
    )
    names = later.names if better is second else known.names
    return ReportedArticle(
        article,
        names,
        later.places or known.places,
        has_headline=known.has_headline or later.has_headline,
    )


def _rank(article: Article) -> int:
    """Prefer a feed's headline to the page title, and that to a title derived from the URL."""
    return ("gdelt", "gkg", "feed").index(article.source)


def _text(article: Article) -> str:
    return f"{article.title}.\n{article.text}" if article.text else article.title


def report_pages(records: Sequence[GkgRecord], known: AbstractSet[str]) -> list[ReportedArticle]:
    """The pages that are known already (article ids) or relevant to defense, security or politics."""
    relevant = known | _relevant_ids([record.article for record in records])
    return [report_gkg_page(record) for record in records if record.article.id in relevant]


def report_mentions(mentions: Iterable[EventMention]) -> list[ReportedArticle]:
    """The pages of mentions, each once, whose URL is relevant to defense, security or politics."""
    by_page = {article.id: article for article in map(_article_of_mention, mentions) if article}
    relevant = _relevant_ids(list(by_page.values()))
    return [report_article(article) for page, article in by_page.items() if page in relevant]


def _relevant_ids(articles: Sequence[Article]) -> set[str]:
    """The ids of the articles whose titles are relevant, as the events feed decides it; it reads English."""
    english = [it for it in articles if it.language in {"en", ""} and not has_foreign_letters(it.title)]
    relevance = title_relevance([article.title for article in english])
    return {article.id for article, value in zip(english, relevance, strict=True) if value}


async def import_items(database: Database, pool: SourceMode, articles: Iterable[Article]) -> int:
    """Store the articles of a feed; return how many."""
    return await store_pages(database, pool, await asyncio.to_thread(lambda: list(map(report_article, articles))))


def _article_of_mention(mention: EventMention) -> Article | None:
    """The page of a mention, titled by its URL; None if that has no words."""
    title = title_from_url(mention.url)
    if not title:
        return None
    outlet = find_publisher(mention.url)
    return Article(
        id=article_id(mention.url),
        url=mention.url,
        title=title,
        publisher=outlet.name,
        family=outlet.family,
        published=mention.mentioned_at,
        source="gdelt",
        tone=mention.tone,
    )


async def store_pages(
    database: Database, pool: SourceMode, reports: Sequence[ReportedArticle], file: Mapping[str, Any] | None = None
) -> int:
    """Merge reports with what is stored of the same pages, and record the file they come from; return the changes."""
    if not reports and file is None:
        return 0
    count = number = 0
    async with database.writing(lock="articles") as connection:
        if file is not None:
            # The end of the window may move with it, which readers of the articles learn from a revision.
            number = await bump_revision(connection, ARTICLES_FEED)
            await upsert(connection, page_file, [file])
        for start in range(0, len(reports), CHUNK):
            changed = await _changed(connection, pool, reports[start : start + CHUNK])
            if changed:
                number = number or await bump_revision(connection, ARTICLES_FEED)
                rows = [
                    store.ARTICLES.row(pool, it.article.id, compact(it.article.published), msgspec.json.encode(it))
                    for it in changed
                ]
                await write_at(connection, store.article, rows, number)
            count += len(changed)
    return count


async def _changed(
    connection: Transaction, pool: SourceMode, reports: Sequence[ReportedArticle]
) -> list[ReportedArticle]:
    stored = await bodies_by_id(connection, store.ARTICLES, pool, [report.article.id for report in reports])
    known = {identity: msgspec.json.decode(packed, type=ReportedArticle) for identity, packed in stored.items()}
    merged = [merged_reports(known[r.article.id], r) if r.article.id in known else r for r in reports]
    return [report for report in merged if known.get(report.article.id) != report]


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
        self._fatalities_at: tuple[int, date] | None = None

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
            rows = {row.id: row for _, packed in stored.get(report_id, ()) for row in unpacked_rows(packed)}
            headline = (article.title, store.BASIS[article.source])
            pages.append(Page(report.url if report else article.url, list(rows.values()), headline, article))
        return pages

    async def _sync_fatalities(self, connection: Transaction, as_of: datetime) -> bool:
        """Read fatality records again if they changed; whether they did."""
        day = (as_of - WINDOW - FATALITIES_BACK).date()
        number = await revision(connection, events_store.FATALITIES_FEED)
        if (number, day) == self._fatalities_at:
            return False
        before, self._fatalities_at = self.fatalities, (number, day)
        self.fatalities = await read_fatalities(connection, day)
        return before != self.fatalities
