"""Where the holder of a key has events counted, and keeps queries to run again."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.admission.context import AppContext
from tollhouse.caller import KeyCaller
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Request, Response
from tollhouse.services.defense.analysis import store
from tollhouse.services.defense.analysis.grouping import Counted, Tally, table
from tollhouse.services.defense.analysis.history import Served, entries_after, served, stories_after
from tollhouse.services.defense.analysis.request import (
    AnalysisQuery,
    AnalysisRequest,
    RunQuery,
    SavedRequest,
    check,
    refused,
    tests,
    told,
)
from tollhouse.services.defense.events.query import Entry
from tollhouse.services.defense.events.window import Source
from tollhouse.services.defense.store import EVENTS_FEED, FATALITIES_FEED, NEWS_FEED, revision
from tollhouse.storage.database import Transaction

CSV = "text/csv"
FORMATS = {"json": JSON, "csv": CSV}

MOST_EVENTS = 500_000
MOST_GROUPS = 200_000
MOST_QUERIES_PER_KEY = 100
AT_ONCE = 2
KEPT_ANSWERS = 64

_FIGURES = ("count", "fatalities", "significance_sum", "significance_mean", "significance_max")


class AnalysisResult(Struct, frozen=True):
    """The groups, largest first. Each has a member for each dimension, `entity_name` beside `entity`, and its figures.

    `events` were counted in `total_groups` groups; with `entity` an event counts once for each that its story names.
    """

    group_by: list[str]
    hours: int
    as_of: str
    source: Source
    events: int
    total_groups: int
    is_truncated: bool
    applied_filters: dict[str, Any]
    groups: list[dict[str, Any]]


class SavedQuery(Struct, frozen=True):
    """A query kept to be run again."""

    id: str
    name: str
    query: AnalysisRequest
    created_at: str


class SavedQueries(Struct, frozen=True):
    """Every query the key has saved, oldest first."""

    queries: list[SavedQuery]
    count: int
    limit: int


class QueryDeleted(Struct, frozen=True):
    """The query is gone."""

    deleted: Literal[True]
    id: str


class AnalysisEndpoints:
    """The operations under `/api/analysis`. A key sees its own saved queries alone."""

    def __init__(self, context: AppContext) -> None:
        self._database = context.database
        self._recorded = context.settings.recorded
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._kept: dict[tuple[bytes, tuple[int, ...]], AnalysisResult] = {}

    async def analyse(self, request: Request[AnalysisQuery, AnalysisRequest]) -> Response:
        """`POST /api/analysis`. Raises Problem `invalid-body`, or `upstream-unavailable` with nothing stored."""
        return _encoded(await self._result(request.body), request.body, request.media_type)

    async def run(self, request: Request[RunQuery, None]) -> Response:
        """Run a saved query. Raises Problem `not-found`."""
        async with self._database.reading() as connection:
            saved = _saved(await _row(connection, request))
        return _encoded(await self._result(saved.query), saved.query, request.media_type)

    async def save(self, request: Request[None, SavedRequest]) -> SavedQuery:
        """Keep a query. Raises Problem `invalid-body` or `invalid-request`."""
        check(request.body.query)
        key_id, identity = _key_id(request), f"query_{secrets.token_hex(10)}"
        async with self._database.writing(lock="analysis") as transaction:
            if await store.number_of(transaction, key_id) >= MOST_QUERIES_PER_KEY:
                detail = (
                    f"This key has saved {MOST_QUERIES_PER_KEY} queries, and no key may save more. Delete one first."
                )
                raise Problem("invalid-request", detail, limit=MOST_QUERIES_PER_KEY)
            packed = msgspec.json.encode(request.body.query)
            await store.insert_query(
                transaction,
                id=identity,
                key_id=key_id,
                name=request.body.name,
                query=packed,
                created_at=clock.seconds(),
            )
            return _saved(await store.query_by_id(transaction, key_id, identity))

    async def listed(self, request: Request[None, None]) -> SavedQueries:
        """Every query the key has saved."""
        async with self._database.reading() as connection:
            found = [_saved(row) for row in await store.queries_of(connection, _key_id(request))]
        return SavedQueries(found, len(found), MOST_QUERIES_PER_KEY)

    async def delete(self, request: Request[None, None]) -> QueryDeleted:
        """Forget a saved query. Raises Problem `not-found`."""
        async with self._database.writing() as transaction:
            if not await store.delete_query(transaction, _key_id(request), request.path["id"]):
                raise _unknown()
        return QueryDeleted(deleted=True, id=request.path["id"])

    async def _result(self, asked: AnalysisRequest) -> AnalysisResult:
        check(asked)
        async with self._turns, self._database.reading() as connection:
            seen = tuple([await revision(connection, feed) for feed in (EVENTS_FEED, NEWS_FEED, FATALITIES_FEED)])
            key = (msgspec.json.encode(asked), seen)
            if key not in self._kept:
                now = await served(connection, recorded=self._recorded)
                if now is None:
                    raise Problem("upstream-unavailable", "Nothing is stored that could be counted.", upstream="gdelt")
                result = await _analysed(connection, now, asked)
                if len(self._kept) >= KEPT_ANSWERS:
                    self._kept.clear()
                self._kept[key] = result
            return self._kept[key]


async def _analysed(connection: Transaction, now: Served, asked: AnalysisRequest) -> AnalysisResult:
    after = now.as_of - timedelta(hours=asked.hours)
    stories = await stories_after(connection, now.pool, after)
    tally, wanted, looked_at = Tally(asked.group_by, stories), tests(asked.filters), 0
    async for entries in entries_after(connection, now.pool, after, stories):
        looked_at += len(entries)
        await asyncio.to_thread(_add, tally, entries, wanted)
        _check_work(looked_at, tally)
    counted = await asyncio.to_thread(tally.counted, asked.order_by)
    shown = counted[: asked.limit]
    return AnalysisResult(
        group_by=list(asked.group_by),
        hours=asked.hours,
        as_of=clock.iso(now.as_of),
        source="live" if now.pool == "provider" else "recorded",
        events=tally.events,
        total_groups=len(counted),
        is_truncated=len(shown) < len(counted),
        applied_filters=told(asked.filters),
        groups=await _named(connection, now, asked, shown),
    )


def _add(tally: Tally, entries: Sequence[tuple[str, Entry]], wanted: Sequence[Callable[[Entry], bool]]) -> None:
    tally.add(entry.event for _, entry in entries if all(test(entry) for test in wanted))


def _check_work(looked_at: int, tally: Tally) -> None:
    if looked_at > MOST_EVENTS:
        raise refused("hours", f"These hours hold more than {MOST_EVENTS} events. Ask for fewer.")
    if len(tally) > MOST_GROUPS:
        raise refused("group_by", f"This makes more than {MOST_GROUPS} groups. Filter more, or group by less.")


async def _named(
    connection: Transaction, now: Served, asked: AnalysisRequest, shown: Sequence[Counted]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [dict(zip(asked.group_by, one.group, strict=True)) for one in shown]
    if "entity" in asked.group_by:
        packed = await store.entities_of(connection, now.pool, sorted({row["entity"] for row in rows}))
        names = {identity: msgspec.json.decode(body, type=_Named).name for identity, body in packed.items()}
        for row in rows:
            row["entity_name"] = names.get(row["entity"])
    for row, one in zip(rows, shown, strict=True):
        row |= {"count": one.count, "fatalities": one.fatalities, "significance": msgspec.to_builtins(one.significance)}
    return rows


class _Named(Struct, frozen=True):
    """Of an entity as stored, its name."""

    name: str


def _encoded(result: AnalysisResult, asked: AnalysisRequest, media_type: str) -> Response:
    if media_type != CSV:
        return Response(msgspec.json.encode(result), cache_control="no-store")
    names = ["entity_name"] if "entity" in asked.group_by else []
    columns = [*asked.group_by, *names, *_FIGURES]
    rows = [
        {**row, **{f"significance_{name}": it for name, it in row["significance"].items()}} for row in result.groups
    ]
    body = table([{name: row[name] for name in columns} for row in rows], columns)
    return Response(body, f"{CSV}; charset=utf-8", cache_control="no-store")


def _key_id(request: Request[Any, Any]) -> str:
    assert isinstance(request.caller, KeyCaller), "the terms let nobody else in"
    return request.caller.key_id


async def _row(connection: Transaction, request: Request[Any, Any]) -> Any:
    row = await store.query_by_id(connection, _key_id(request), request.path["id"])
    if row is None:
        raise _unknown()
    return row


def _unknown() -> Problem:
    return Problem("not-found", "This key has saved no query of this id.")


def _saved(row: Any) -> SavedQuery:
    query = msgspec.json.decode(row.query, type=AnalysisRequest)
    return SavedQuery(row.id, row.name, query, clock.iso(clock.at(row.created_at)))
