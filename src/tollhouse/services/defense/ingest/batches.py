"""Ingest GDELT's files: event exports, GKG files, which have titles and names of pages, and mentions of events.

One transaction per 15-minute file; ingesting the same file twice changes nothing. A page and its provider rows are
joined by address, in whatever order their files arrive: the publisher reads a report again when a stored page has
another headline than the report, and an export takes the headlines of stored pages.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import md5
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.article import Article, article_id
from tollhouse.services.defense.events.report import VERSION, Headline, Page, Rejected, Report, event_id, read_reports
from tollhouse.services.defense.ingest.export_parser import (
    BadRow,
    Row,
    compact,
    parse_export,
    read_slot,
    slot_time,
    unpack_export,
    unpacked_rows,
)
from tollhouse.services.defense.ingest.gkg_parser import (
    GKG_COLUMNS,
    ParsedGkg,
    ParsedMentions,
    parse_gkg,
    parse_mentions,
)
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.news.reported_article import report_mentions, report_pages, store_pages
from tollhouse.services.defense.news.store import headlines
from tollhouse.services.defense.recordings import SourceMode
from tollhouse.services.defense.store import REPORTS_FEED
from tollhouse.storage.database import Database, Transaction

log = logger("ingest")

EXPORT_CAP_BYTES = 256 * 1024 * 1024

Origin = Literal["provider", "recording", "file"]


class IngestReport(Struct, frozen=True):
    """The result of ingesting one export: the pages that make a report; `unusable` counts the others by reason."""

    slot: str
    rows: int
    reports: int
    bad_rows: int
    bad: list[BadRow]
    unusable: dict[str, int]
    was_known: bool = False


class _Batch(Struct):
    """The changes of one export as table rows, and rejections by reason."""

    rows: list[dict[str, object]]
    reports: list[dict[str, object]]
    unusable: dict[str, int]


async def ingest_export(
    database: Database, name: str, raw: bytes, origin: Origin, titles: Mapping[str, Headline] | None = None
) -> IngestReport:
    """Ingest an export file. `titles` are known headlines of pages, by article id.

    Raises ValueError if the file is not an export, Problem if it cannot be stored.
    """
    pool: SourceMode = "provider" if origin == "provider" else "local"
    digest = await asyncio.to_thread(lambda: md5(raw, usedforsecurity=False).hexdigest())
    parsed = await asyncio.to_thread(lambda: parse_export(unpack_export(raw, EXPORT_CAP_BYTES)))
    slot = read_slot(name, max((row.added for row in parsed.rows), default=""))
    if not slot:
        reason = f"; first error: {parsed.bad[0].reason}" if parsed.bad else ""
        raise ValueError(f"{name} contains no usable row of a GDELT export ({len(parsed.bad)} bad rows{reason})")
    by_page = await asyncio.to_thread(_by_page, parsed.rows)
    while True:
        async with database.reading() as connection:
            known = await store.find_slot(connection, slot)
            if known is not None and known.md5 == digest:
                return IngestReport(slot, known.rows, 0, known.bad_rows, [], {}, was_known=True)
            seen = await store.revision(connection, REPORTS_FEED)
            earlier = await store.rows_of_pages(connection, pool, list(by_page)) if seen else {}
            known_titles = await headlines(connection, pool, [article_id(rows[0].url) for rows in by_page.values()])
        batch = await asyncio.to_thread(_build_batch, slot, pool, by_page, earlier, {**known_titles, **(titles or {})})
        async with database.writing(lock="ingest") as connection:
            if await store.revision(connection, REPORTS_FEED) != seen:
                continue  # another process ingested a file meanwhile; its rows may belong to these pages
            now = await store.bump_revision(connection, REPORTS_FEED)
            await store.write_rows(connection, batch.rows)
            await store.write_at(connection, store.event_report, batch.reports, now)
            await store.write_slot(
                connection, slot=slot, pool=pool, origin=origin, md5=digest, rows=len(parsed.rows),
                bad_rows=len(parsed.bad), ingested_at=clock.iso(clock.now()),
            )  # fmt: skip
        report = IngestReport(slot, len(parsed.rows), len(batch.reports), len(parsed.bad), parsed.bad, batch.unusable)
        log.info(
            "ingested", slot=slot, origin=origin, rows=report.rows, reports=report.reports, bad_rows=report.bad_rows
        )
        return report


async def read_stored_pages(database: Database, pool: SourceMode) -> None:
    """If the stored rows were read by another version, delete its events and read the reports again."""
    marker, after = f"read:{pool}", ""
    async with database.reading() as connection:
        if await store.revision(connection, marker) == VERSION:
            return
    async with database.writing(lock="ingest") as connection:
        if former := sorted(await store.ids_after(connection, store.EVENTS, pool, "")):
            number = await store.bump_revision(connection, store.EVENTS_FEED)
            await store.remove_at(connection, store.EVENTS, pool, former, number)
    while True:
        async with database.writing(lock="ingest") as connection:
            ids = await store.stored_pages(connection, pool, after)
            if not ids:
                await store.set_revision(connection, marker, VERSION)
                return
            stored = await store.rows_of_pages(connection, pool, ids)
            rows = {
                page_id: _unique_rows(row for _, packed in stored[page_id] for row in unpacked_rows(packed))
                for page_id in ids
            }
            titles = await headlines(connection, pool, [article_id(some[0].url) for some in rows.values()])
            batch = await asyncio.to_thread(_read_batch, pool, rows, titles)
            number = await store.bump_revision(connection, REPORTS_FEED)
            await store.write_at(connection, store.event_report, batch.reports, number)
            after = ids[-1]
        log.info("stored rows read again", pool=pool, reports=len(batch.reports))


def report_row(pool: SourceMode, report: Report) -> dict[str, object]:
    """A report as a row of its table."""
    return store.REPORTS.row(pool, report.id, compact(report.last_reported_at), msgspec.json.encode(report))


def _by_page(rows: Iterable[Row]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    by_url: dict[str, list[Row]] = {}
    for row in rows:
        group = by_url.get(row.url)
        if group is None:
            group = by_url[row.url] = grouped.setdefault(event_id(row.url), [])
        group.append(row)
    return grouped


def _build_batch(
    slot: str,
    pool: SourceMode,
    by_page: Mapping[str, Sequence[Row]],
    earlier: Mapping[str, Sequence[tuple[str, bytes]]],
    titles: Mapping[str, Headline],
) -> _Batch:
    in_slot: list[dict[str, object]] = []
    everything: dict[str, Sequence[Row]] = {}
    for page_id, rows in by_page.items():
        here, everything[page_id] = _with_earlier(slot, rows, earlier[page_id]) if page_id in earlier else (rows, rows)
        in_slot.append({"event_id": page_id, "slot": slot, "pool": pool, "rows": msgspec.json.encode(here)})
    batch = _read_batch(pool, everything, titles)
    return _Batch(in_slot, batch.reports, batch.unusable)


def _read_batch(pool: SourceMode, rows: Mapping[str, Sequence[Row]], titles: Mapping[str, Headline]) -> _Batch:
    pages = [Page(some[0].url, some, titles.get(article_id(some[0].url)) if titles else None) for some in rows.values()]
    outcomes = read_reports(pages)
    unusable = Counter[str](outcome.reason for outcome in outcomes if isinstance(outcome, Rejected))
    return _Batch([], [report_row(pool, report) for report in outcomes if isinstance(report, Report)], dict(unusable))


def _with_earlier(
    slot: str, rows: Sequence[Row], earlier: Sequence[tuple[str, bytes]]
) -> tuple[Sequence[Row], Sequence[Row]]:
    """A page's rows of this slot and of all slots, given that some are stored already."""
    stored = {name: unpacked_rows(packed) for name, packed in earlier}
    here = _unique_rows([*stored.pop(slot, []), *rows])
    return here, _unique_rows([*(row for group in stored.values() for row in group), *here])


def _unique_rows(rows: Iterable[Row]) -> list[Row]:
    """Each row once by GDELT's id; the last wins."""
    return list({row.id: row for row in rows}.values())


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
