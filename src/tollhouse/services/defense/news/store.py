"""Tables of the news: articles, stories, entities, successors of merged ids, and the publisher's state."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Column, LargeBinary, String, Table, delete, insert, select

from tollhouse.services.defense.article import ArticleSource
from tollhouse.services.defense.events.event import TitleBasis
from tollhouse.services.defense.events.report import Headline
from tollhouse.services.defense.store import (
    ARTICLES_FEED,
    CHUNK,
    NEWS_FEED,
    Source,
    bodies_by_id,
    bump_revision,
    event,
    event_report,
    event_rows,
    feed_revision,
    followed_table,
    gdelt_slot,
    mark_removed,
    revision,
)
from tollhouse.storage.database import Transaction, metadata, upsert

article = followed_table("article", "published", "by_time")
story = followed_table("story", "last_seen", "by_time")
entity = followed_table("entity", "last_seen", "by_time")

successor = Table(
    "successor",
    metadata,
    Column("pool", String(10), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("successor", String(32), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("at", String(14), nullable=False),
)

builder_state = Table(
    "newsroom", metadata, Column("pool", String(10), primary_key=True), Column("memory", LargeBinary, nullable=False)
)

news_feed = Table(
    "news_feed", metadata, Column("url", String(500), primary_key=True), Column("state", LargeBinary, nullable=False)
)

Kind = Literal["story", "entity"]

ARTICLES = Source(ARTICLES_FEED, article, "published", "body")
PUBLISHED: dict[Kind, Source] = {
    "story": Source(NEWS_FEED, story, "last_seen", "body"),
    "entity": Source(NEWS_FEED, entity, "last_seen", "body"),
}


async def write_successors(
    connection: Transaction, pool: str, kind: str, pairs: Mapping[str, str], moment: str
) -> None:
    """Record the successor of each ended id (`merged`), or the origin of each new id (`split`)."""
    rows = [{"pool": pool, "id": a, "successor": b, "kind": kind, "at": moment} for a, b in pairs.items()]
    await upsert(connection, successor, rows)


async def memory(connection: Transaction, pool: str) -> bytes | None:
    """The saved state of the publisher of a source mode."""
    return (await connection.execute(select(builder_state.c.memory).where(builder_state.c.pool == pool))).scalar()


async def delete_news_before(connection: Transaction, pool: str, moment: str, number: int, *, is_seen: bool) -> None:
    """Delete what was last seen before a time, at a revision. `is_seen`: readers' windows may contain it."""
    old_articles = await connection.execute(delete(article).where(article.c.pool == pool, article.c.published < moment))
    await connection.execute(delete(successor).where(successor.c.pool == pool, successor.c.at < moment))
    entities = await connection.execute(delete(entity).where(entity.c.pool == pool, entity.c.last_seen < moment))
    stories = await connection.execute(delete(story).where(story.c.pool == pool, story.c.last_seen < moment))
    if is_seen and (stories.rowcount or entities.rowcount):
        await mark_removed(connection, NEWS_FEED, number)
    if is_seen and old_articles.rowcount:
        await mark_removed(connection, ARTICLES_FEED, await bump_revision(connection, ARTICLES_FEED))


async def feed_states(connection: Transaction) -> dict[str, bytes]:
    """The state of each feed since its last poll."""
    rows: Any = await connection.execute(select(news_feed.c.url, news_feed.c.state))
    return {row.url: row.state for row in rows}


async def successors_of(connection: Transaction, pool: str, ids: Sequence[str]) -> dict[str, str]:
    """The successors of these ids, for those that were merged."""
    successors: dict[str, str] = {}
    for start in range(0, len(ids), CHUNK):
        query = select(successor.c.id, successor.c.successor).where(
            successor.c.pool == pool, successor.c.kind == "merged", successor.c.id.in_(ids[start : start + CHUNK])
        )
        successors |= {row.id: row.successor for row in await connection.execute(query)}
    return successors


# The tables that ingesting and publishing write, and their rows with a value for each column in the table's order.
_SNAPSHOT = (
    gdelt_slot, event_rows, event_report, event, article, story, entity, successor, builder_state, feed_revision,
)  # fmt: skip
Tables = Mapping[str, Sequence[Sequence[Any]]]


async def is_untouched(connection: Transaction) -> bool:
    """Whether nothing was ever ingested or published."""
    return (await connection.execute(select(feed_revision.c.feed).limit(1))).scalar() is None


async def read_tables(connection: Transaction) -> Tables:
    """The stored events and news, without the times of ingestion."""
    tables = {}
    for table in _SNAPSHOT:
        rows = (await connection.execute(select(table).order_by(*table.primary_key))).mappings()
        tables[table.name] = [[row[name] for name in _snapshot_columns(table)] for row in rows]
    return tables


async def write_tables(connection: Transaction, tables: Tables, ingested_at: str) -> None:
    """Write these tables into an empty store."""
    for table in _SNAPSHOT:
        constant = {"ingested_at": ingested_at} if table is gdelt_slot else {}
        names = _snapshot_columns(table)
        rows = [dict(zip(names, row, strict=True)) | constant for row in tables[table.name]]
        if rows:
            await connection.execute(insert(table), rows)


def _snapshot_columns(table: Table) -> list[str]:
    return [column.name for column in table.columns if column is not gdelt_slot.c.ingested_at]


BASIS: dict[ArticleSource, TitleBasis] = {"feed": "feed", "gkg": "page"}


class _Titled(Struct, frozen=True):
    title: str
    source: ArticleSource


class _Stored(Struct, frozen=True):
    """A stored article, of which only the headline is decoded."""

    article: _Titled


async def headlines(connection: Transaction, pool: str, pages: Sequence[str]) -> dict[str, Headline]:
    """The stored headlines of these articles, without those derived from URLs."""
    if not await revision(connection, ARTICLES_FEED):
        return {}
    articles = await bodies_by_id(connection, ARTICLES, pool, pages)
    titled = {identity: msgspec.json.decode(packed, type=_Stored).article for identity, packed in articles.items()}
    return {identity: (it.title, BASIS[it.source]) for identity, it in titled.items() if it.source in BASIS}
