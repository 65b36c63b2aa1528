"""Ingest GDELT files from disk: event exports, mentions and GKG files, recognized by their column count."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec

from tollhouse.services.defense.ingest.batches import EXPORT_CAP_BYTES, ingest_export, pages_of_mode
from tollhouse.services.defense.ingest.export_parser import unpack_export
from tollhouse.services.defense.ingest.gkg_parser import parse_gkg, parse_mentions
from tollhouse.services.defense.news.reported_article import import_mentions, import_pages
from tollhouse.storage.database import Database

Kind = Literal["gkg", "export", "mentions"]

_KINDS: dict[int, Kind] = {61: "export", 16: "mentions", 27: "gkg"}


def detect_kind(raw: bytes) -> Kind:
    """The kind of a file by the columns of its first line; others count as exports, whose parser reports errors."""
    first = raw.partition(b"\n")[0]
    return _KINDS.get(first.count(b"\t") + 1, "export")


async def ingest_file(database: Database, path: Path) -> dict[str, Any]:
    """Ingest one file and return a report. Raises ValueError for other files, OSError if it cannot be read."""
    raw = await asyncio.to_thread(path.read_bytes)
    text = await asyncio.to_thread(unpack_export, raw, EXPORT_CAP_BYTES)
    kind = detect_kind(text)
    if kind == "export":
        return {"kind": kind, **msgspec.to_builtins(await ingest_export(database, path.name, raw, "file"))}
    if kind == "gkg":
        pages = await asyncio.to_thread(parse_gkg, text)
        async with database.reading() as connection:
            sources = await pages_of_mode(connection, "local")
        count = await import_pages(database, "local", pages.records, sources)
        return _report(kind, pages.total, count, pages.bad)
    mentions = await asyncio.to_thread(parse_mentions, text)
    count = await import_mentions(database, "local", mentions.mentions)
    return _report(kind, mentions.total, count, mentions.bad)


def _report(kind: Kind, total: int, count: int, bad: list[Any]) -> dict[str, Any]:
    return {
        "kind": kind,
        "rows": total - len(bad),
        "articles": count,
        "bad_rows": len(bad),
        "bad": msgspec.to_builtins(bad),
    }
