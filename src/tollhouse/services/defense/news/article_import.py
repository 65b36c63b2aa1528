"""Import articles into the store: GKG pages, mentions and feed items, merged with what is stored of the same page."""

import asyncio
from collections.abc import Collection, Iterable, Sequence

import msgspec

from tollhouse.services.defense.article import Article, article_id
from tollhouse.services.defense.ingest.batches import SourceMode, compact
from tollhouse.services.defense.ingest.classification import words_relevance
from tollhouse.services.defense.ingest.gkg_parser import GkgRecord, Mention
from tollhouse.services.defense.ingest.url_title import title_from_url
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.reported_article import (
    ReportedArticle,
    merged_reports,
    report_article,
    report_gkg_page,
)
from tollhouse.services.defense.publishers import find_publisher
from tollhouse.services.defense.store import ARTICLES_FEED, CHUNK, bump_revision
from tollhouse.storage.database import Database, Transaction


async def import_pages(
    database: Database, pool: SourceMode, records: Iterable[GkgRecord], pages: Collection[str]
) -> int:
    """Store titled pages of events (`pages`, article ids) or with relevance to defense; return how many."""
    relevant = [
        record
        for record in records
        if record.article.title and (record.article.id in pages or words_relevance(record.article.title))
    ]
    return await _store(database, pool, await asyncio.to_thread(lambda: list(map(report_gkg_page, relevant))))


async def import_mentions(database: Database, pool: SourceMode, mentions: Iterable[Mention]) -> int:
    """Store the pages of mentions whose URL is relevant to defense; return how many."""
    by_page = {article.id: article for article in map(_article_of_mention, mentions) if article}
    return await import_items(database, pool, by_page.values())


async def import_items(database: Database, pool: SourceMode, articles: Iterable[Article]) -> int:
    """Store the articles of a feed; return how many."""
    return await _store(database, pool, await asyncio.to_thread(lambda: list(map(report_article, articles))))


def _article_of_mention(mention: Mention) -> Article | None:
    """The page of a mention, titled by its URL; None if that is not relevant to defense."""
    title = title_from_url(mention.url)
    if not title or not words_relevance(title):
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


async def store_reports(
    connection: Transaction, pool: SourceMode, reports: Sequence[ReportedArticle]
) -> tuple[int, int]:
    """Merge reports with what is stored of the same pages; return the number of changes and their revision.

    Call it in a transaction with the lock "articles", so that no other process changes a page in between.
    """
    count = number = 0
    for start in range(0, len(reports), CHUNK):
        changed = await _changed(connection, pool, reports[start : start + CHUNK])
        if changed:
            number = number or await bump_revision(connection, ARTICLES_FEED)
            await store.write_articles(connection, [_packed(pool, report) for report in changed], number)
        count += len(changed)
    return count, number


async def _changed(
    connection: Transaction, pool: SourceMode, reports: Sequence[ReportedArticle]
) -> list[ReportedArticle]:
    stored = await store.articles_by_id(connection, pool, [report.article.id for report in reports])
    known = {identity: msgspec.json.decode(packed, type=ReportedArticle) for identity, packed in stored.items()}
    merged = [merged_reports(known[r.article.id], r) if r.article.id in known else r for r in reports]
    return [report for report in merged if known.get(report.article.id) != report]


def _packed(pool: SourceMode, report: ReportedArticle) -> dict[str, object]:
    """The table row of a report."""
    article = report.article
    packed = msgspec.json.encode(report)
    return {"pool": pool, "id": article.id, "published": compact(article.published), "body": packed}


async def _store(database: Database, pool: SourceMode, reports: Sequence[ReportedArticle]) -> int:
    if not reports:
        return 0
    async with database.writing(lock="articles") as connection:
        count, _ = await store_reports(connection, pool, reports)
    return count
