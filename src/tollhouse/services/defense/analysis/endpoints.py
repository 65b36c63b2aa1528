"""Analysis queries, the sums of events by group, and the endpoints under /api/analysis."""

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.admission.context import AppContext
from tollhouse.csv_text import write_rows
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Example, Request, Response, endpoint
from tollhouse.http.terms import KeyCaller, key_with
from tollhouse.services.defense.analysis import store
from tollhouse.services.defense.events.event import EventEntry, FeedSource
from tollhouse.services.defense.events.filter import (
    EventFilter,
    EventTest,
    applied_filters,
    check_filters,
    event_tests,
    invalid_member,
)
from tollhouse.services.defense.events.history import ServedPool, entities_named, entries_after, served_pool
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.services.defense.news.store import PUBLISHED
from tollhouse.services.defense.paging import id_parameter
from tollhouse.services.defense.store import bodies_by_id, feed_revisions, slots_between
from tollhouse.storage.database import Transaction

Dimension = Literal["country", "category", "day", "entity"]
Order = Literal["count", "fatalities", "significance_sum", "significance_mean", "significance_max", "group"]
Group = tuple[str, ...]

# Significance has four decimals: as whole numbers, sums do not depend on the order of events.
_SCALE = 10_000


class AnalysisFilters(EventFilter, frozen=True, kw_only=True):
    """The filters of `GET /feeds/events`. Events that pass all of them are counted."""


class AnalysisRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/analysis`."""

    group_by: Annotated[
        list[Dimension],
        Meta(min_length=1, max_length=2, description="One or two different dimensions. `day` is the event's date"),
    ]
    filters: AnalysisFilters = AnalysisFilters()
    hours: Annotated[int, Meta(ge=1, le=168, description="Count events reported in this many hours up to `as_of`")] = 24
    order_by: Annotated[
        Order, Meta(description="Largest first; `group` sorts by the groups themselves. Ties are ordered by group")
    ] = "count"
    limit: Annotated[int, Meta(ge=1, le=1_000, description="The maximum number of groups to return")] = 100


class SavedRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/analysis/queries`."""

    name: Annotated[
        str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$", description="A name of your choice")
    ]
    query: AnalysisRequest


class AnalysisQuery(Struct, frozen=True, forbid_unknown_fields=True):
    format: Annotated[Literal["json", "csv"] | None, Meta(description="The representation; overrides `Accept`")] = None


class RunQuery(AnalysisQuery, frozen=True, forbid_unknown_fields=True):
    """The parameters of `POST /api/analysis/queries/{id}/run`."""


def check_request(request: AnalysisRequest) -> None:
    """Raises Problem `invalid-body` for errors that the types do not catch."""
    if len(set(request.group_by)) < len(request.group_by):
        raise invalid_member("group_by", "`group_by` must not contain the same dimension twice.")
    check_filters(request.filters)


class Significance(Struct, frozen=True):
    """Figures of the group's significance, to four decimals."""

    sum: float
    mean: float
    max: float


class GroupFigures(Struct, frozen=True):
    """One group, in the order of `group_by`, and its figures."""

    group: Group
    count: int
    fatalities: int
    significance: Significance


class _Sums(Struct):
    count: int = 0
    fatalities: int = 0
    total: int = 0
    most: int = 0

    def figures(self, group: Group) -> GroupFigures:
        mean = round(self.total / self.count / _SCALE, 4)
        significance = Significance(self.total / _SCALE, mean, self.most / _SCALE)
        return GroupFigures(group, self.count, self.fatalities, significance)


class GroupSums:
    """Sums of events by group. An event without a country counts under "", one that names no entity under none."""

    def __init__(self, dimensions: Sequence[Dimension]) -> None:
        self._dimensions = dimensions
        self._sums: dict[Group, _Sums] = {}
        self.events = 0

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, entries: Iterable[EventEntry], tests: Sequence[EventTest]) -> None:
        """Add the events that pass all tests."""
        for entry in entries:
            if not all(test(entry) for test in tests):
                continue
            event = entry.event
            self.events += 1
            scaled = round(event.metrics.significance * _SCALE)
            for group in product(*(self._values(dimension, entry) for dimension in self._dimensions)):
                sums = self._sums.get(group)
                if sums is None:
                    sums = self._sums[group] = _Sums()
                sums.count += 1
                sums.fatalities += event.fatalities
                sums.total += scaled
                sums.most = max(sums.most, scaled)

    def groups(self, order: Order) -> list[GroupFigures]:
        """Every group, largest first."""

        def position(one: GroupFigures) -> tuple[float, Group]:
            figures = {
                "count": one.count,
                "fatalities": one.fatalities,
                "significance_sum": one.significance.sum,
                "significance_mean": one.significance.mean,
                "significance_max": one.significance.max,
                "group": 0,
            }
            return -figures[order], one.group

        return sorted((sums.figures(group) for group, sums in self._sums.items()), key=position)

    def _values(self, dimension: Dimension, entry: EventEntry) -> Sequence[str]:
        event = entry.event
        if dimension == "country":
            return (event.geo.country,)
        if dimension == "category":
            return (event.category,)
        if dimension == "day":
            return (event.event_date.isoformat(),)
        return entry.entities


CSV = "text/csv"
FORMATS = {"json": JSON, "csv": CSV}

MOST_EVENTS = 500_000
MOST_GROUPS = 200_000
MOST_QUERIES_PER_KEY = 100
CONCURRENT_ANALYSES = 2
MOST_CACHED_RESULTS = 64

_EXAMPLE = {"group_by": ["country", "category"], "filters": {"severity_tier": "high"}, "hours": 24, "limit": 20}
_QUERY_ID = id_parameter("query", "query_3f2a9c0d1b4e5f607182", digits=20)

_endpoint = partial(endpoint, terms=key_with("analysis"), tag="analysis")


SLOTS_PER_HOUR = 4


class AnalysisResult(Struct, frozen=True):
    """The groups, largest first. Each has a member per dimension, `entity_name` beside `entity`, and its figures.

    `coverage` is the share of the hours' provider updates that was read, 0..1. `events` were counted in `total_groups`
    groups. Grouped by `entity`, an event counts once per entity of its reports.
    """

    group_by: list[str]
    hours: int
    coverage: float
    as_of: str
    source: FeedSource
    events: int
    total_groups: int
    is_truncated: bool
    applied_filters: dict[str, Any]
    groups: list[dict[str, Any]]


_RESULT: dict[str, Any] = {
    "responses": {JSON: AnalysisResult, CSV: {"type": "string"}},
    "formats": FORMATS,
    "problems": ("upstream-unavailable",),
}


class SavedQuery(Struct, frozen=True):
    """A saved query."""

    id: str
    name: str
    query: AnalysisRequest
    created_at: str


class SavedQueries(Struct, frozen=True):
    """All saved queries of the key, oldest first."""

    queries: list[SavedQuery]
    count: int
    limit: int


class QueryDeleted(Struct, frozen=True):
    """The query was deleted."""

    deleted: Literal[True]
    id: str


class _EntityName(Struct, frozen=True):
    name: str


class AnalysisEndpoints:
    """The endpoints under `/api/analysis`. A key sees only its own saved queries."""

    def __init__(self, context: AppContext) -> None:
        self._database = context.database
        self._recorded = context.settings.recorded
        self._slots = asyncio.Semaphore(CONCURRENT_ANALYSES)
        self._cache: dict[tuple[bytes, tuple[int, ...]], AnalysisResult] = {}

    @_endpoint("POST", "/api/analysis", id="analyse", **_RESULT, examples={"body": _EXAMPLE})
    async def analyse(self, request: Request[AnalysisQuery, AnalysisRequest]) -> Response:
        """Count events by group.

        Groups events by one or two of country, category, day and entity, with counts, deaths and significance.
        Takes the filters of the events feed.
        """
        return _encode(await self._result(request.body), request.media_type)

    @_endpoint(
        "POST",
        "/api/analysis/queries",
        id="saveAnalysisQuery",
        examples={"body": {"name": "Most severe by country", "query": _EXAMPLE}},
    )
    async def save(self, request: Request[None, SavedRequest]) -> SavedQuery:
        """Save a query."""
        check_request(request.body.query)
        key_id, query_id = _key_id(request), f"query_{secrets.token_hex(10)}"
        async with self._database.writing(lock="analysis") as transaction:
            if await store.count_queries(transaction, key_id) >= MOST_QUERIES_PER_KEY:
                detail = f"This key has {MOST_QUERIES_PER_KEY} saved queries, the maximum. Delete one first."
                raise Problem("invalid-request", detail, limit=MOST_QUERIES_PER_KEY)
            await store.insert_query(
                transaction,
                id=query_id,
                key_id=key_id,
                name=request.body.name,
                query=msgspec.json.encode(request.body.query),
                created_at=clock.seconds(),
            )
            return _saved(await store.query_by_id(transaction, key_id, query_id))

    @_endpoint("GET", "/api/analysis/queries", id="listAnalysisQueries")
    async def list(self, request: Request[None, None]) -> SavedQueries:
        """List the key's saved queries."""
        async with self._database.reading() as connection:
            queries = [_saved(row) for row in await store.queries_of_key(connection, _key_id(request))]
        return SavedQueries(queries, len(queries), MOST_QUERIES_PER_KEY)

    @_endpoint(
        "POST",
        "/api/analysis/queries/{id}/run",
        id="runAnalysisQuery",
        path_parameters=_QUERY_ID,
        **_RESULT,
        sample=Example(path={"id": "$QUERY_ID"}),
    )
    async def run(self, request: Request[RunQuery, None]) -> Response:
        """Run a saved query."""
        async with self._database.reading() as connection:
            row = await store.query_by_id(connection, _key_id(request), request.path["id"])
        if row is None:
            raise _not_found()
        return _encode(await self._result(_saved(row).query), request.media_type)

    @_endpoint(
        "DELETE",
        "/api/analysis/queries/{id}",
        id="deleteAnalysisQuery",
        path_parameters=_QUERY_ID,
        sample=Example(path={"id": "$QUERY_ID"}),
    )
    async def delete(self, request: Request[None, None]) -> QueryDeleted:
        """Delete a saved query."""
        async with self._database.writing() as transaction:
            if not await store.delete_query(transaction, _key_id(request), request.path["id"]):
                raise _not_found()
        return QueryDeleted(deleted=True, id=request.path["id"])

    async def _result(self, query: AnalysisRequest) -> AnalysisResult:
        check_request(query)
        async with self._slots, self._database.reading() as connection:
            current = tuple(await feed_revisions(connection))
            key = (msgspec.json.encode(query), current)
            if key not in self._cache:
                served = await served_pool(connection, recorded=self._recorded)
                if served is None:
                    raise Problem("upstream-unavailable", "No events are stored yet.", upstream="gdelt")
                result = await _analyse(connection, served, query)
                if len(self._cache) >= MOST_CACHED_RESULTS:
                    self._cache.clear()
                self._cache[key] = result
            return self._cache[key]


async def _analyse(connection: Transaction, served: ServedPool, query: AnalysisRequest) -> AnalysisResult:
    after = served.as_of - timedelta(hours=query.hours)
    entity, entities = query.filters.entity, frozenset[str]()
    if entity is not None:
        entities = (await entities_named(connection, served.pool, [entity]))[entity]
    sums, tests, event_count = GroupSums(query.group_by), event_tests(query.filters, entities), 0
    async for entries in entries_after(connection, served.pool, after):
        event_count += len(entries)
        await asyncio.to_thread(sums.add, [entry for _, entry in entries], tests)
        if event_count > MOST_EVENTS:
            raise invalid_member("hours", f"These hours hold more than {MOST_EVENTS} events. Use fewer hours.")
        if len(sums) > MOST_GROUPS:
            detail = f"This query has more than {MOST_GROUPS} groups. Add a filter or use fewer dimensions."
            raise invalid_member("group_by", detail)
    slots = await slots_between(connection, served.pool, compact(after), served.newest)
    groups = await asyncio.to_thread(sums.groups, query.order_by)
    shown = groups[: query.limit]
    return AnalysisResult(
        group_by=[*query.group_by],
        hours=query.hours,
        coverage=round(len(slots) / (query.hours * SLOTS_PER_HOUR), 4),
        as_of=clock.iso(served.as_of),
        source=served.source,
        events=sums.events,
        total_groups=len(groups),
        is_truncated=len(shown) < len(groups),
        applied_filters=applied_filters(query.filters),
        groups=await _rows(connection, served, query, shown),
    )


async def _rows(
    connection: Transaction, served: ServedPool, query: AnalysisRequest, shown: Sequence[GroupFigures]
) -> list[dict[str, Any]]:
    """The groups as the response has them, with the names of entities."""
    rows: list[dict[str, Any]] = [dict(zip(query.group_by, one.group, strict=True)) for one in shown]
    if "entity" in query.group_by:
        packed = await bodies_by_id(
            connection, PUBLISHED["entity"], served.pool, sorted({row["entity"] for row in rows})
        )
        names = {entity_id: msgspec.json.decode(body, type=_EntityName).name for entity_id, body in packed.items()}
        for row in rows:
            row["entity_name"] = names.get(row["entity"])
    for row, one in zip(rows, shown, strict=True):
        row |= {"count": one.count, "fatalities": one.fatalities, "significance": msgspec.to_builtins(one.significance)}
    return rows


def _encode(result: AnalysisResult, media_type: str) -> Response:
    if media_type != CSV:
        return Response(msgspec.json.encode(result), cache_control="no-store")
    figures = ("count", "fatalities", "significance_sum", "significance_mean", "significance_max")
    columns = [*result.group_by, *(["entity_name"] if "entity" in result.group_by else []), *figures]
    flat = [
        {**row, **{f"significance_{name}": value for name, value in row["significance"].items()}}
        for row in result.groups
    ]
    body = write_rows([columns, *([row[name] for name in columns] for row in flat)])
    return Response(body, f"{CSV}; charset=utf-8", cache_control="no-store")


def _key_id(request: Request[Any, Any]) -> str:
    assert isinstance(request.caller, KeyCaller), "the terms admit only keys"
    return request.caller.key_id


def _not_found() -> Problem:
    return Problem("not-found", "This key has no saved query with this id.")


def _saved(row: Any) -> SavedQuery:
    query = msgspec.json.decode(row.query, type=AnalysisRequest)
    return SavedQuery(row.id, row.name, query, clock.iso(clock.at(row.created_at)))
