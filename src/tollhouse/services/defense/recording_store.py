"""The recording as the store holds it once it is taken in and told: whole tables packed into one file, and put back."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import zstandard
from sqlalchemy import insert, select

from tollhouse.services.defense import store
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.revisions import feed_revision
from tollhouse.storage.database import Transaction

# Of each table its rows, a value for every column in the table's order.
Tables = Mapping[str, Sequence[Sequence[Any]]]

LEVEL = 19
_TABLES = (
    store.gdelt_slot,
    store.event_rows,
    store.event,
    news.article,
    *(source.table for source in news.TOLD.values()),
    news.event_story,
    news.successor,
    news.newsroom,
    feed_revision,
)


async def is_untouched(connection: Transaction) -> bool:
    """Whether nothing was ever taken in or told."""
    return (await connection.execute(select(feed_revision.c.feed).limit(1))).scalar() is None


async def tables(connection: Transaction) -> Tables:
    """What is stored of events and news, but for when each slot was taken in."""
    found = {}
    for table in _TABLES:
        rows = (await connection.execute(select(table).order_by(*table.primary_key))).mappings()
        found[table.name] = [[row[name] for name in _columns(table.name)] for row in rows]
    return found


async def put(connection: Transaction, kept: Tables, ingested_at: str) -> None:
    """Store these tables where nothing is stored."""
    for table in _TABLES:
        rows = [dict(zip(_columns(table.name), row, strict=True)) for row in kept[table.name]]
        if table is store.gdelt_slot:
            rows = [{**row, "ingested_at": ingested_at} for row in rows]
        await connection.execute(insert(table), rows)


def packed(kept: Tables) -> bytes:
    """One file of them."""
    return zstandard.compress(msgspec.msgpack.encode(kept), LEVEL)


def unpacked(raw: bytes) -> Tables:
    """The tables in such a file."""
    return msgspec.msgpack.decode(zstandard.decompress(raw), type=dict[str, list[list[Any]]])


def _columns(name: str) -> list[str]:
    table = next(table for table in _TABLES if table.name == name)
    return [column.name for column in table.columns if column is not store.gdelt_slot.c.ingested_at]
