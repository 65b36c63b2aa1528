"""Taking one 15-minute export into the store: all of it or none, and the same file twice changes nothing."""

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
from tollhouse.services.defense.events.event import EventRecord
from tollhouse.services.defense.ingest.event_builder import Rejected, build_event, event_id
from tollhouse.services.defense.ingest.export_parser import BadRow, ParsedExport, Row, parse_export, unpack_export
from tollhouse.services.defense.news.store import Headline, headlines
from tollhouse.services.defense.store import EVENTS_FEED
from tollhouse.storage.database import Database, Transaction

log = logger("ingest")

EXPORT_CAP_BYTES = 256 * 1024 * 1024

SourceMode = Literal["provider", "local"]
Origin = Literal["provider", "recording", "file"]

_POOLS: dict[Origin, SourceMode] = {"provider": "provider", "recording": "local", "file": "local"}

_SLOT = re.compile(r"(?<![0-9])(20[0-9]{12})(?![0-9])")


class IngestReport(Struct, frozen=True):
    """What became of one export. `unusable` counts events left out, by reason; `outside` why a slot was not taken."""

    slot: str
    rows: int
    events: int
    bad_rows: int
    bad: list[BadRow]
    unusable: dict[str, int]
    was_known: bool = False


class _Sourced(Struct, frozen=True):
    """Of a stored event, its page alone."""

    url: str


class _Made(Struct):
    """What a slot makes of the events it touches."""

    rows: list[dict[str, object]]
    records: list[EventRecord]
    gone: list[str]
    unusable: dict[str, int]


async def ingest_export(
    database: Database, name: str, raw: bytes, origin: Origin, titles: Mapping[str, Headline] | None = None
) -> IngestReport:
    """Take an export file in; `titles` are headlines known of pages, by article id.

    Raises ValueError when it is no export, Problem when it cannot be stored.
    """
    pool = _POOLS[origin]
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
        made = await asyncio.to_thread(_make, slot, pool, by_event, earlier, {**known_titles, **(titles or {})})
        async with database.writing(lock="ingest") as connection:
            if await store.revision(connection, EVENTS_FEED) != seen:
                continue  # somebody else ingested meanwhile: their rows belong to our events too
            now = await store.bump_revision(connection, EVENTS_FEED)
            await store.write_rows(connection, made.rows)
            await store.write_events(connection, [_stored(record, pool) for record in made.records], now)
            await store.remove_events(connection, pool, made.gone, now)
            await store.write_slot(
                connection, slot=slot, pool=pool, origin=origin, md5=digest, rows=len(parsed.rows),
                bad_rows=len(parsed.bad), ingested_at=clock.iso(clock.now()),
            )  # fmt: skip
        report = IngestReport(slot, len(parsed.rows), len(made.records), len(parsed.bad), parsed.bad, made.unusable)
        log.info("ingested", slot=slot, origin=origin, rows=report.rows, events=report.events, bad_rows=report.bad_rows)
        return report


async def pages_of_slot(connection: Transaction, slot: str) -> set[str]:
    """The article ids of the pages that a slot's events were read from."""
    packed = await store.rows_of_slot(connection, slot)
    return {article_id(_unpacked(rows)[0].url) for rows in packed}


async def pages_of_mode(connection: Transaction, pool: SourceMode) -> set[str]:
    """The article ids of the pages that a pool's events were read from."""
    packed = await store.records_between(connection, pool, "", "99999999999999")
    return {article_id(msgspec.json.decode(record, type=_Sourced).url) for record in packed}


def read_slot(name: str, parsed: ParsedExport) -> str:
    """The slot's name, YYYYMMDDHHMMSS: from the file's name, else from its newest row. ValueError without either."""
    named = _SLOT.search(name)
    if named and slot_time(named[1]):
        return named[1]
    if not parsed.rows:
        reason = f"; the first of them: {parsed.bad[0].reason}" if parsed.bad else ""
        raise ValueError(f"{name} holds no usable row of a GDELT export ({len(parsed.bad)} bad rows{reason})")
    return max(row.added for row in parsed.rows)


def slot_time(slot: str) -> datetime | None:
    """The moment a slot's name means, None for what is no moment."""
    try:
        return datetime.strptime(slot, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def compact(moment: datetime) -> str:
    """A moment as a slot is named: `20201115110000`, in UTC."""
    return moment.astimezone(UTC).strftime("%Y%m%d%H%M%S")


def slot_before(slot: str, span: timedelta) -> str:
    """The name of the moment `span` before a slot."""
    moment = slot_time(slot)
    assert moment is not None, f"{slot} is no slot"
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


def _make(
    slot: str,
    pool: SourceMode,
    by_event: Mapping[str, Sequence[Row]],
    earlier: Mapping[str, Sequence[tuple[str, bytes]]],
    titles: Mapping[str, Headline],
) -> _Made:
    made = _Made([], [], [], {})
    for identity, rows in by_event.items():
        here, everything = _with_earlier(slot, rows, earlier[identity]) if identity in earlier else (rows, rows)
        made.rows.append({"event_id": identity, "slot": slot, "pool": pool, "rows": msgspec.json.encode(here)})
        title = titles.get(article_id(rows[0].url)) if titles else None
        outcome = build_event(rows[0].url, everything, title)
        if isinstance(outcome, Rejected):
            made.unusable[outcome.reason] = made.unusable.get(outcome.reason, 0) + 1
            if identity in earlier:
                made.gone.append(identity)
        else:
            made.records.append(outcome)
    return made


def _with_earlier(
    slot: str, rows: Sequence[Row], earlier: Sequence[tuple[str, bytes]]
) -> tuple[Sequence[Row], Sequence[Row]]:
    """An event's rows of this slot, and of all, where some of either are stored already."""
    stored = {name: _unpacked(packed) for name, packed in earlier}
    here = _united([*stored.pop(slot, []), *rows])
    return here, _united([*(row for group in stored.values() for row in group), *here])


def _united(rows: Iterable[Row]) -> list[Row]:
    """Each row once, by the provider's id; a later one replaces an earlier one."""
    return list({row.id: row for row in rows}.values())


def _unpacked(packed: bytes) -> list[Row]:
    return msgspec.json.decode(packed, type=list[Row])


def _stored(record: EventRecord, pool: SourceMode) -> dict[str, object]:
    last_slot = compact(record.last_reported_at)
    return {"pool": pool, "id": record.id, "last_slot": last_slot, "record": msgspec.json.encode(record)}
