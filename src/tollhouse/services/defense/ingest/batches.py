"""Ingest GDELT exports: one transaction per 15-minute file; ingesting the same file twice changes nothing."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import md5
from typing import Literal

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.logs import logger
from tollhouse.services.defense import store
from tollhouse.services.defense.article import article_id
from tollhouse.services.defense.ingest.event_builder import Rejected, build_event, event_id
from tollhouse.services.defense.ingest.export_parser import BadRow, ParsedExport, Row, parse_export, unpack_export
from tollhouse.services.defense.news.store import Headline, headlines
from tollhouse.services.defense.store import EVENTS_FEED
from tollhouse.storage.database import Database, Transaction

log = logger("ingest")

EXPORT_CAP_BYTES = 256 * 1024 * 1024

SourceMode = Literal["provider", "local"]
Origin = Literal["provider", "recording", "file"]

_SLOT = re.compile(r"(?<![0-9])(20[0-9]{12})(?![0-9])")


class IngestReport(Struct, frozen=True):
    """The result of ingesting one export. `unusable` counts rejected events by reason."""

    slot: str
    rows: int
    events: int
    bad_rows: int
    bad: list[BadRow]
    unusable: dict[str, int]
    was_known: bool = False


class _EventUrl(Struct, frozen=True):
    """The URL of a stored event, decoded alone."""

    url: str


class _Batch(Struct):
    """The changes of one export as table rows, the ids of events to remove, and rejections by reason."""

    rows: list[dict[str, object]]
    records: list[dict[str, object]]
    removed: list[str]
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
    slot = read_slot(name, parsed)
    by_event = await asyncio.to_thread(_by_event, parsed.rows)
    while True:
        async with database.reading() as connection:
            known = await store.find_slot(connection, slot)
            if known is not None and known.md5 == digest:
                return IngestReport(slot, known.rows, 0, known.bad_rows, [], {}, was_known=True)
            seen = await store.revision(connection, EVENTS_FEED)
            earlier = await store.rows_of_events(connection, pool, list(by_event)) if seen else {}
            known_titles = await headlines(connection, pool, [article_id(rows[0].url) for rows in by_event.values()])
        batch = await asyncio.to_thread(_build_batch, slot, pool, by_event, earlier, {**known_titles, **(titles or {})})
        async with database.writing(lock="ingest") as connection:
            if await store.revision(connection, EVENTS_FEED) != seen:
                continue  # another process ingested a file meanwhile; its rows may belong to these events
            now = await store.bump_revision(connection, EVENTS_FEED)
            await store.write_rows(connection, batch.rows)
            await store.write_at(connection, store.event, batch.records, now)
            await store.remove_at(connection, store.EVENTS, pool, batch.removed, now)
            await store.write_slot(
                connection, slot=slot, pool=pool, origin=origin, md5=digest, rows=len(parsed.rows),
                bad_rows=len(parsed.bad), ingested_at=clock.iso(clock.now()),
            )  # fmt: skip
        report = IngestReport(slot, len(parsed.rows), len(batch.records), len(parsed.bad), parsed.bad, batch.unusable)
        log.info("ingested", slot=slot, origin=origin, rows=report.rows, events=report.events, bad_rows=report.bad_rows)
        return report


async def pages_of_slot(connection: Transaction, slot: str) -> set[str]:
    """Article ids of the pages behind the events of one export."""
    return {article_id(_unpacked(rows)[0].url) for rows in await store.rows_of_slot(connection, slot)}


async def pages_of_mode(connection: Transaction, pool: SourceMode) -> set[str]:
    """Article ids of the pages behind all events of a source mode."""
    packed = await store.records_between(connection, pool, "", "99999999999999")
    return {article_id(msgspec.json.decode(record, type=_EventUrl).url) for record in packed}


def read_slot(name: str, parsed: ParsedExport) -> str:
    """The slot of an export, YYYYMMDDHHMMSS, from its file name or its newest row. Raises ValueError without either."""
    named = _SLOT.search(name)
    if named and slot_time(named[1]):
        return named[1]
    if not parsed.rows:
        reason = f"; first error: {parsed.bad[0].reason}" if parsed.bad else ""
        raise ValueError(f"{name} contains no usable row of a GDELT export ({len(parsed.bad)} bad rows{reason})")
    return max(row.added for row in parsed.rows)


def slot_time(slot: str) -> datetime | None:
    """The time that a slot names, None if it is not a time."""
    try:
        return datetime.strptime(slot, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def compact(moment: datetime) -> str:
    """A time in the form of a slot: `20201115110000`, in UTC."""
    return moment.astimezone(UTC).strftime("%Y%m%d%H%M%S")


def slot_before(slot: str, span: timedelta) -> str:
    """The slot `span` before another."""
    moment = slot_time(slot)
    assert moment is not None, f"{slot} is not a slot"
    return compact(moment - span)


def _by_event(rows: Iterable[Row]) -> dict[str, list[Row]]:
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
    by_event: Mapping[str, Sequence[Row]],
    earlier: Mapping[str, Sequence[tuple[str, bytes]]],
    titles: Mapping[str, Headline],
) -> _Batch:
    batch = _Batch([], [], [], {})
    for identity, rows in by_event.items():
        here, everything = _with_earlier(slot, rows, earlier[identity]) if identity in earlier else (rows, rows)
        batch.rows.append({"event_id": identity, "slot": slot, "pool": pool, "rows": msgspec.json.encode(here)})
        title = titles.get(article_id(rows[0].url)) if titles else None
        outcome = build_event(rows[0].url, everything, title)
        if isinstance(outcome, Rejected):
            batch.unusable[outcome.reason] = batch.unusable.get(outcome.reason, 0) + 1
            if identity in earlier:
                batch.removed.append(identity)
        else:
            last_slot, record = compact(outcome.last_reported_at), msgspec.json.encode(outcome)
            batch.records.append({"pool": pool, "id": outcome.id, "last_slot": last_slot, "record": record})
    return batch


def _with_earlier(
    slot: str, rows: Sequence[Row], earlier: Sequence[tuple[str, bytes]]
) -> tuple[Sequence[Row], Sequence[Row]]:
    """An event's rows of this slot and of all slots, given that some are stored already."""
    stored = {name: _unpacked(packed) for name, packed in earlier}
    here = _unique_rows([*stored.pop(slot, []), *rows])
    return here, _unique_rows([*(row for group in stored.values() for row in group), *here])


def _unique_rows(rows: Iterable[Row]) -> list[Row]:
    """Each row once by GDELT's id; the last wins."""
    return list({row.id: row for row in rows}.values())


def _unpacked(packed: bytes) -> list[Row]:
    return msgspec.json.decode(packed, type=list[Row])
