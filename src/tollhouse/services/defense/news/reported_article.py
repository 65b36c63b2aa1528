"""Articles as they are stored, with the names, places and event of each page, and importing them into the store."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.article import Article, article_id
from tollhouse.services.defense.entities.extractor import extract_names
from tollhouse.services.defense.entities.mention import EntityType, Mention
from tollhouse.services.defense.entities.merge import bare_name, identify
from tollhouse.services.defense.events.event import EventRecord
from tollhouse.services.defense.ingest.batches import SourceMode, compact
from tollhouse.services.defense.ingest.classification import words_relevance
from tollhouse.services.defense.ingest.gkg_parser import GkgRecord
from tollhouse.services.defense.ingest.gkg_parser import Mention as EventMention
from tollhouse.services.defense.ingest.url_title import title_from_url
from tollhouse.services.defense.news import store
from tollhouse.services.defense.publishers import find_publisher
from tollhouse.services.defense.store import ARTICLES_FEED, CHUNK, bodies_by_id, bump_revision, write_at
from tollhouse.storage.database import Database, Transaction


class Place(Struct, frozen=True, gc=False):
    """A place in GDELT's gazetteer, in decimal degrees."""

    name: str
    latitude: float
    longitude: float


def add_gkg_names(ours: Sequence[Mention], persons: Sequence[str], organizations: Sequence[str]) -> list[Mention]:
    """Our mentions, then the names of two words or more that only GKG found; those have no position in our text.

    A name that GKG lists twice, as a person and as an organization, is left out.
    """
    known = {name.casefold() for mention in ours for name in (mention.text, bare_name(mention))}
    listed = Counter(name.casefold() for name in (*persons, *organizations))
    kinds: tuple[tuple[EntityType, Sequence[str]], ...] = (("person", persons), ("organization", organizations))
    added = [
        Mention(name, kind, 0, 0)
        for kind, names in kinds
        for name in names
        if " " in name and name.casefold() not in known and listed[name.casefold()] == 1
    ]
    return [*ours, *added]


class NamedEntity(Struct, frozen=True, gc=False):
    """An entity that an article names: `text` as in the article, `name` the canonical name."""

    id: str
    name: str
    type: EntityType
    text: str


class ReportedArticle(Struct, frozen=True, gc=False):
    """An article with its entities and places. `event_id` is the event built from the same page.

    `has_headline` is False for a composed title, which names no entity and matches no other article.
    """

    article: Article
    names: tuple[NamedEntity, ...]
    places: tuple[Place, ...] = ()
    event_id: str | None = None
    has_headline: bool = True

    def linked_to(self, event_id: str) -> "ReportedArticle":
        return replace(self, event_id=event_id)


def report_article(article: Article) -> ReportedArticle:
    """An article with the entities in its title and text."""
    return ReportedArticle(article, _named(extract_names(_text(article))))


def report_gkg_page(record: GkgRecord) -> ReportedArticle:
    """A GKG page with the entities in its title and those that GDELT found in its text."""
    places = tuple(Place(it.name.split(",")[0].strip(), it.latitude, it.longitude) for it in record.places)
    names = add_gkg_names(list(extract_names(_text(record.article))), record.persons, record.organizations)
    return ReportedArticle(record.article, _named(names), places)


def report_event_page(record: EventRecord) -> ReportedArticle:
    """The page of an event, with the event's title."""
    publisher = find_publisher(record.url)
    article = Article(
        id=article_id(record.url),
        url=record.url,
        title=record.title,
        publisher=publisher.name,
        family=publisher.family,
        published=record.first_reported_at,
        source="gdelt",
    )
    report = report_article(article) if record.has_headline else ReportedArticle(article, (), has_headline=False)
    return report.linked_to(record.id)


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
        later.event_id or known.event_id,
        has_headline=known.has_headline or later.has_headline,
    )


def _rank(article: Article) -> int:
    """Prefer a feed's headline to the page title, and that to a title derived from the URL."""
    return ("gdelt", "gkg", "feed").index(article.source)


def _text(article: Article) -> str:
    return f"{article.title}.\n{article.text}" if article.text else article.title


def _named(mentions: Iterable[Mention]) -> tuple[NamedEntity, ...]:
    listed = list(mentions)
    return tuple(
        NamedEntity(identity.id, identity.name, identity.type, mention.text)
        for mention, identity in zip(listed, identify(listed), strict=True)
        if identity is not None
    )


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


async def import_mentions(database: Database, pool: SourceMode, mentions: Iterable[EventMention]) -> int:
    """Store the pages of mentions whose URL is relevant to defense; return how many."""
    by_page = {article.id: article for article in map(_article_of_mention, mentions) if article}
    return await import_items(database, pool, by_page.values())


async def import_items(database: Database, pool: SourceMode, articles: Iterable[Article]) -> int:
    """Store the articles of a feed; return how many."""
    return await _store(database, pool, await asyncio.to_thread(lambda: list(map(report_article, articles))))


def _article_of_mention(mention: EventMention) -> Article | None:
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
            rows: list[dict[str, object]] = [
                {
                    "pool": pool,
                    "id": report.article.id,
                    "published": compact(report.article.published),
                    "body": msgspec.json.encode(report),
                }
                for report in changed
            ]
            await write_at(connection, store.article, rows, number)
        count += len(changed)
    return count, number


async def _changed(
    connection: Transaction, pool: SourceMode, reports: Sequence[ReportedArticle]
) -> list[ReportedArticle]:
    stored = await bodies_by_id(connection, store.ARTICLES, pool, [report.article.id for report in reports])
    known = {identity: msgspec.json.decode(packed, type=ReportedArticle) for identity, packed in stored.items()}
    merged = [merged_reports(known[r.article.id], r) if r.article.id in known else r for r in reports]
    return [report for report in merged if known.get(report.article.id) != report]


async def _store(database: Database, pool: SourceMode, reports: Sequence[ReportedArticle]) -> int:
    if not reports:
        return 0
    async with database.writing(lock="articles") as connection:
        count, _ = await store_reports(connection, pool, reports)
    return count
