"""Ingest GDELT's files of pages: GKG files, which have titles and names, and mentions of events.

A page and its provider rows are joined by address, in whatever order their files arrive: the publisher reads a report
again when a stored page has another headline than the report, and an export takes the headlines of stored pages.
"""

import asyncio
from collections.abc import Sequence
from hashlib import md5
from typing import Any, Literal

from msgspec import Struct

from tollhouse import clock
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.article import Article
from tollhouse.services.defense.events.report import event_id
from tollhouse.services.defense.ingest.batches import EXPORT_CAP_BYTES, Origin, read_slot, slot_time
from tollhouse.services.defense.ingest.export_parser import BadRow, unpack_export
from tollhouse.services.defense.ingest.gkg_parser import (
    GKG_COLUMNS,
    ParsedGkg,
    ParsedMentions,
    parse_gkg,
    parse_mentions,
)
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.news.reported_article import report_mentions, report_pages, store_pages
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.storage.database import Database, Transaction

log = logger("ingest")


class PageFile(Struct, frozen=True):
    """A parsed file of pages, with the digest of its text."""

    slot: str
    digest: str
    pages: ParsedGkg | ParsedMentions

    @property
    def kind(self) -> Literal["gkg", "mentions"]:
        return "gkg" if isinstance(self.pages, ParsedGkg) else "mentions"


class PagesReport(Struct, frozen=True):
    """The result of ingesting a file of pages. `articles` counts the pages that are new or changed.

    `titled` counts those of its pages that are known from other files and have a headline here.
    """

    slot: str
    rows: int
    articles: int
    titled: int
    bad_rows: int
    bad: list[BadRow]


def parse_page_file(name: str, raw: bytes) -> PageFile:
    """Parse a GKG or mentions file, zipped or not, recognized by its columns. Raises ValueError without usable rows."""
    text = unpack_export(raw, EXPORT_CAP_BYTES)
    columns = text.partition(b"\n")[0].split(b"\t")
    is_gkg = len(columns) == GKG_COLUMNS
    pages = parse_gkg(text) if is_gkg else parse_mentions(text)
    # All rows of a file have the time of its update.
    updated = columns[1 if is_gkg else 2].decode("ascii", "replace")[:14] if len(columns) > 2 else ""
    slot = read_slot(name, updated)
    if len(pages.bad) == pages.total or not slot_time(slot):
        reason = f"; first error: {pages.bad[0].reason}" if pages.bad else ""
        raise ValueError(f"{name} contains no usable row of GDELT's pages ({len(pages.bad)} bad rows{reason})")
    return PageFile(slot, md5(text, usedforsecurity=False).hexdigest(), pages)


async def store_page_file(database: Database, file: PageFile, pool: SourceMode, origin: Origin) -> PagesReport:
    """Store the pages of a file that are known already or relevant. A file stored again adds what it can add now.

    Raises Problem if it cannot be stored.
    """
    known = set[str]()
    if isinstance(file.pages, ParsedGkg):
        titled = [record for record in file.pages.records if record.article.title]
        async with database.reading() as connection:
            known = await _known_pages(connection, pool, [record.article for record in titled])
        reports = await asyncio.to_thread(report_pages, titled, known)
    else:
        reports = await asyncio.to_thread(report_mentions, file.pages.mentions)
    bad = file.pages.bad
    row: dict[str, Any] = {
        "pool": pool, "slot": file.slot, "kind": file.kind, "origin": origin, "md5": file.digest,
        "rows": file.pages.total - len(bad), "bad_rows": len(bad), "ingested_at": clock.iso(clock.now()),
    }  # fmt: skip
    count = await store_pages(database, pool, reports, row)
    log.info("ingested", slot=file.slot, kind=file.kind, origin=origin, articles=count, bad_rows=len(bad))
    return PagesReport(file.slot, row["rows"], count, len(known), len(bad), bad)


async def _known_pages(connection: Transaction, pool: SourceMode, articles: Sequence[Article]) -> set[str]:
    """The ids of those articles that a report or a stored article has."""
    report_ids = {article.id: event_id(article.url) for article in articles}
    reported = await store.stored_ids(connection, store.REPORTS, pool, list(report_ids.values()))
    known = await store.stored_ids(connection, news.ARTICLES, pool, list(report_ids))
    return known | {identity for identity, report_id in report_ids.items() if report_id in reported}
