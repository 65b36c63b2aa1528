"""News tables."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Column, Index, Integer, LargeBinary, String, Table, delete, select

from tollhouse.services.defense.article import ArticleSource
from tollhouse.services.defense.events.event import TitleBasis
from tollhouse.services.defense.store import (
    ARTICLES_FEED,
    CHUNK,
    NEWS_FEED,
    Source,
    bump_revision,
    mark_removed,
    revision,
    write_at,
)
from tollhouse.storage.database import Transaction, metadata, upsert

article = Table(
    "article",
    metadata,
    Column("pool", String(10), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("published", String(14), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("revision", Integer, nullable=False, server_default="0"),
    Index("article_by_time", "pool", "published"),
    Index("article_by_revision", "pool", "revision"),
)


def _told(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("pool", String(10), primary_key=True),
        Column("id", String(32), primary_key=True),
        Column("last_seen", String(14), nullable=False),
        Column("body", LargeBinary, nullable=False),
        Column("revision", Integer, nullable=False, server_default="0"),
        Index(f"{name}_by_time", "pool", "last_seen"),
        Index(f"{name}_by_revision", "pool", "revision"),
    )


story = _told("story")
entity = _told("entity")

event_story = Table(
    "event_story",
    metadata,
    Column("pool", String(10), primary_key=True),
    Column("event_id", String(32), primary_key=True),
    Column("story_id", String(32), nullable=False),
)

successor = Table(
    "successor",
    metadata,
    Column("pool", String(10), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("successor", String(32), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("at", String(14), nullable=False),
)

newsroom = Table(
    "newsroom", metadata, Column("pool", String(10), primary_key=True), Column("memory", LargeBinary, nullable=False)
)

news_feed = Table(
    "news_feed", metadata, Column("url", String(500), primary_key=True), Column("state", LargeBinary, nullable=False)
)

Kind = Literal["story", "entity"]

_TOLD: dict[Kind, Table] = {"story": story, "entity": entity}

ARTICLES = Source(ARTICLES_FEED, article, "published", "body")
PUBLISHED: dict[Kind, Source] = {kind: Source(NEWS_FEED, table, "last_seen", "body") for kind, table in _TOLD.items()}


async def articles_by_id(connection: Transaction, pool: str, ids: Sequence[str]) -> dict[str, bytes]:
    """The packed articles of these ids, as far as they are stored."""
    found: dict[str, bytes] = {}
    for start in range(0, len(ids), CHUNK):
        chosen = article.c.id.in_(ids[start : start + CHUNK])
        query = select(article.c.id, article.c.body).where(article.c.pool == pool, chosen)
        found |= {row.id: row.body for row in await connection.execute(query)}
    return found


async def write_articles(connection: Transaction, rows: Sequence[dict[str, object]], number: int) -> None:
    """Keep articles as they are known at that revision."""
    await write_at(connection, article, rows, number)


async def published_by_id(connection: Transaction, kind: Kind, pool: str, identity: str) -> bytes | None:
    """One packed story or entity, however old."""
    table = _TOLD[kind]
    return (await connection.execute(select(table.c.body).where(table.c.pool == pool, table.c.id == identity))).scalar()


async def write_published(connection: Transaction, kind: Kind, rows: Sequence[dict[str, object]], number: int) -> None:
    """Keep stories or entities as they are told at that revision."""
    await write_at(connection, _TOLD[kind], rows, number)


async def remove_published(connection: Transaction, kind: Kind, pool: str, ids: Sequence[str], number: int) -> None:
    """Drop stories or entities that are no longer told under their own id at that revision."""
    table = _TOLD[kind]
    for start in range(0, len(ids), CHUNK):
        chosen = table.c.id.in_(ids[start : start + CHUNK])
        await connection.execute(delete(table).where(table.c.pool == pool, chosen))
    if ids:
        await mark_removed(connection, NEWS_FEED, number)


async def write_stories_of_events(connection: Transaction, pool: str, pairs: Mapping[str, str]) -> None:
    """Keep which story tells each event."""
    rows = [{"pool": pool, "event_id": event_id, "story_id": story_id} for event_id, story_id in pairs.items()]
    await upsert(connection, event_story, rows)


async def story_by_event(connection: Transaction, pool: str, event_id: str) -> bytes | None:
    """The packed story that tells an event."""
    told = select(event_story.c.story_id).where(event_story.c.pool == pool, event_story.c.event_id == event_id)
    query = select(story.c.body).where(story.c.pool == pool, story.c.id == told.scalar_subquery())
    return (await connection.execute(query)).scalar()


async def write_successors(
    connection: Transaction, pool: str, kind: str, pairs: Mapping[str, str], moment: str
) -> None:
    """Record which id an ended one was merged into (`merged`), or which one a new one came out of (`split`)."""
    rows = [{"pool": pool, "id": a, "successor": b, "kind": kind, "at": moment} for a, b in pairs.items()]
    await upsert(connection, successor, rows)


async def successor_of(connection: Transaction, pool: str, identity: str) -> str | None:
    """The id that an ended one was merged into."""
    query = select(successor.c.successor).where(
        successor.c.pool == pool, successor.c.id == identity, successor.c.kind == "merged"
    )
    return (await connection.execute(query)).scalar()


async def memory(connection: Transaction, pool: str) -> bytes | None:
    """What the newsroom remembers of a pool."""
    return (await connection.execute(select(newsroom.c.memory).where(newsroom.c.pool == pool))).scalar()


async def write_memory(connection: Transaction, pool: str, packed: bytes) -> None:
    """Keep what the newsroom remembers."""
    await upsert(connection, newsroom, [{"pool": pool, "memory": packed}])


async def delete_news_before(connection: Transaction, pool: str, moment: str, number: int, *, is_seen: bool) -> None:
    """Drop what was last seen before that moment, at that revision; `is_seen` where windows reach further back."""
    old_articles = await connection.execute(delete(article).where(article.c.pool == pool, article.c.published < moment))
    await connection.execute(delete(successor).where(successor.c.pool == pool, successor.c.at < moment))
    entities = await connection.execute(delete(entity).where(entity.c.pool == pool, entity.c.last_seen < moment))
    stories = await connection.execute(delete(story).where(story.c.pool == pool, story.c.last_seen < moment))
    if stories.rowcount:
        told = select(story.c.id).where(story.c.pool == pool)
        orphaned = event_story.c.story_id.not_in(told)
        await connection.execute(delete(event_story).where(event_story.c.pool == pool, orphaned))
    if is_seen and (stories.rowcount or entities.rowcount):
        await mark_removed(connection, NEWS_FEED, number)
    if is_seen and old_articles.rowcount:
        await mark_removed(connection, ARTICLES_FEED, await bump_revision(connection, ARTICLES_FEED))


async def feed_states(connection: Transaction) -> dict[str, bytes]:
    """What is known of each feed since its last poll."""
    rows: Any = await connection.execute(select(news_feed.c.url, news_feed.c.state))
    return {row.url: row.state for row in rows}


async def write_feed_state(connection: Transaction, url: str, packed: bytes) -> None:
    """Keep what the next poll of a feed needs to know."""
    await upsert(connection, news_feed, [{"url": url, "state": packed}])


async def successors_of(connection: Transaction, pool: str, ids: Sequence[str]) -> dict[str, str]:
    """The ids that these were merged into, for those that were."""
    found: dict[str, str] = {}
    for start in range(0, len(ids), CHUNK):
        query = select(successor.c.id, successor.c.successor).where(
            successor.c.pool == pool, successor.c.kind == "merged", successor.c.id.in_(ids[start : start + CHUNK])
        )
        found |= {row.id: row.successor for row in await connection.execute(query)}
    return found


Headline = tuple[str, TitleBasis]

_BASIS: dict[ArticleSource, TitleBasis] = {"feed": "feed", "gkg": "page"}


class _Titled(Struct, frozen=True):
    title: str
    source: ArticleSource


class _Stored(Struct, frozen=True):
    """Of a stored article, its headline alone."""

    article: _Titled


async def headlines(connection: Transaction, pool: str, pages: Sequence[str]) -> dict[str, Headline]:
    """The headlines that are stored of these articles, those made of addresses left out."""
    if not await revision(connection, ARTICLES_FEED):
        return {}
    found = await articles_by_id(connection, pool, pages)
    told = {identity: msgspec.json.decode(packed, type=_Stored).article for identity, packed in found.items()}
    return {identity: (it.title, _BASIS[it.source]) for identity, it in told.items() if it.source in _BASIS}
