"""Ingest GDELT files from disk: event exports, mentions and GKG files, recognized by their column count."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec

from tollhouse.services.defense.ingest.batches import EXPORT_CAP_BYTES, ingest_export
from tollhouse.services.defense.ingest.export_parser import unpack_export
from tollhouse.services.defense.ingest.page_files import parse_page_file, store_page_file
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
    file = await asyncio.to_thread(parse_page_file, path.name, text)
    return {"kind": kind, **msgspec.to_builtins(await store_page_file(database, file, "local", "file"))}
