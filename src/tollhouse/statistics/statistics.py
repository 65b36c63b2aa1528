"""The statistics of a server: stores what this process counted, and reads what all processes stored."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from copy import copy
from ipaddress import ip_address, ip_network
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger, masked
from tollhouse.statistics import store
from tollhouse.statistics.metrics import share_totals
from tollhouse.statistics.recorder import (
    FIRST_ERROR,
    FIRST_FAILURE,
    CallerUse,
    Counted,
    Latencies,
    RecordedCall,
    Recorder,
)
from tollhouse.statistics.store import DAY, Point, UsageRow
from tollhouse.storage.database import Database

log = logger("statistics")

FLUSH_SECONDS = 2.0
"""How often a process stores what it counted: a crash loses no more than this."""
CALLERS_PER_SECOND = 500
"""Each caller of a flush takes some 25 microseconds: those of many callers are stored less often."""
MOST_CALLERS_SECONDS = 20.0
DELETE_SECONDS = 300.0
MOST_ADDRESSES = 1_000
"""So many addresses a process tells apart on one UTC day; calls of further ones are counted under OTHERS."""
CALLERS_AT_ONCE = 500
"""After so many callers of a flush other work goes on, which takes them about a millisecond."""
OTHERS = "others"
LEDGER_CHECK = "ledger"

_LONGEST = {"request_id": 128, "operation": 128, "path": 200, "detail": 300, "name": 100, "plan": 64, "subject": 80}


class DayUsage(Struct, frozen=True):
    """The calls of a key or a wallet on a UTC day. `refused` are answers of 4xx, `failed` of 5xx."""

    day: str
    requests: int
    refused: int
    failed: int
    charged_micros: int


class Check(Struct, frozen=True):
    """The last result of a check. `at` is in seconds since 1970; `result` is a JSON object."""

    at: float
    result: dict[str, Any]


class Statistics:
    """`recorder` counts the calls of this process. `address_hash` is a keyed hash, so that no address is stored."""

    def __init__(self, database: Database, address_hash: Callable[[str], bytes]) -> None:
        self.recorder = Recorder()
        self._database = database
        self._address_hash = address_hash
        self._addresses: dict[str, str] = {}
        self._addresses_day = 0
        self._flushing = asyncio.Lock()
        self._callers_due_at = 0.0

    async def flush(self, *, with_callers: bool = True) -> None:
        """Store what was counted since the last time; what cannot be stored is kept for the next."""
        async with self._flushing:
            calls = self.recorder.take_recent()
            counted = self.recorder.take(with_callers=with_callers)
            if not counted:
                return
            share_totals(self.recorder)
            points = _points(counted)
            recent = [self._recent_row(at, call) for at, call in calls]
            try:
                usage = [(each.minute, await self._usage(each)) for each in counted]
                seconds = sum(len(rows) for _, rows in usage) / CALLERS_PER_SECOND
                self._callers_due_at = max(self._callers_due_at, monotonic() + min(seconds, MOST_CALLERS_SECONDS))
                async with self._database.writing() as transaction:
                    await store.add_points(transaction, points)
                    for minute, rows in usage:
                        await store.add_usage(transaction, minute, rows)
                    await store.insert_recent(transaction, recent)
            except (Problem, asyncio.CancelledError) as error:
                self.recorder.put_back(counted)
                if not isinstance(error, Problem):
                    raise

    async def run(self) -> None:
        """Flush every FLUSH_SECONDS, many callers less often, and delete what is old, until cancelled."""
        deleted_at = 0.0
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await self.flush(with_callers=monotonic() >= self._callers_due_at)
                now = clock.seconds()
                if now - deleted_at >= DELETE_SECONDS:
                    deleted_at = now
                    async with self._database.writing() as transaction:
                        await store.delete_old(transaction, now)
            except Problem:
                continue
            except Exception:
                log.exception("statistics not stored")

    async def usage_by_day(self, subject: str, days: int = 30) -> list[DayUsage]:
        """The calls of a key (its id) or a wallet (its agent id) on each of the last UTC days that had some.

        Oldest first, of all processes, up to their last flush.
        """
        await self.flush()
        since = (int(clock.seconds()) // DAY - days + 1) * DAY
        async with self._database.reading() as connection:
            rows = await store.usage_of(connection, subject, since)
        return [
            DayUsage(clock.iso(clock.at(row.at))[:10], row.requests, row.refused, row.failed, row.charged_micros)
            for row in rows
        ]

    async def save_check(self, name: str, result: Struct | dict[str, object]) -> Check:
        """Store the result of a check for every process, in place of the one before."""
        now, body = clock.seconds(), msgspec.json.encode(result)
        async with self._database.writing() as transaction:
            await store.save_check(transaction, name, now, body)
        return Check(now, msgspec.json.decode(body))

    async def last_check(self, name: str) -> Check | None:
        """The last result of a check by any process."""
        async with self._database.reading() as connection:
            row = await store.last_check(connection, name)
        return None if row is None else Check(row.at, msgspec.json.decode(row.body))

    async def _usage(self, counted: Counted) -> list[UsageRow]:
        """The usage of each caller. Other work runs in between."""
        callers: dict[tuple[str, str], CallerUse] = {}
        for number, ((kind, subject), use) in enumerate(counted.callers.items()):
            if number % CALLERS_AT_ONCE == 0:
                await asyncio.sleep(0)
            place = kind, self._subject(kind, subject, counted.minute // DAY)
            known = callers.get(place)
            if known is not None:
                # Addresses share a place: what was counted stays as it is, since it may be put back.
                known = copy(known)
                known.add(use)
            callers[place] = known or use
        return [_usage_row(*place, use) for place, use in callers.items()]

    def _subject(self, kind: str, subject: str, day: int) -> str:
        """A key's or wallet's id; in place of an address its network and a short hash that tells it from others."""
        if kind in {"key", "wallet"}:
            return subject
        if day != self._addresses_day:
            self._addresses, self._addresses_day = {}, day
        known = self._addresses.get(subject)
        if known is None:
            if len(self._addresses) >= MOST_ADDRESSES:
                return OTHERS
            known = self._addresses[subject] = f"{_network(subject)} {self._address_hash(subject).hex()[:6]}"
        return known

    def _recent_row(self, at: float, call: RecordedCall) -> dict[str, Any]:
        row = msgspec.structs.asdict(call)
        del row["ended"]
        row |= {"subject": self._subject(call.kind, call.subject, int(at) // DAY)}
        row |= {name: masked(row[name])[:longest] for name, longest in _LONGEST.items()}
        return row | {"id": f"call_{secrets.token_hex(12)}", "at": at, "is_refused": call.status >= FIRST_ERROR}


@contextlib.asynccontextmanager
async def open_statistics(
    database: Database, address_hash: Callable[[str], bytes], *, answers_calls: bool
) -> AsyncIterator[Statistics]:
    """The statistics, stored in the background where this process answers calls, and at the end."""
    statistics = Statistics(database, address_hash)
    running = asyncio.create_task(statistics.run()) if answers_calls else None
    try:
        yield statistics
    finally:
        if running:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await statistics.flush()


def _points(counted: Iterable[Counted]) -> list[dict[str, Any]]:
    """The rows of the series."""
    sums: dict[tuple[int, int, str, str], Point] = {}
    for each in counted:
        for key, latencies in each.cells.items():
            for dimension, label in _labels(key):
                for step in store.SERIES_KEPT:
                    at = each.minute - each.minute % step
                    _add_point(sums, (step, at, dimension, label), key[2], latencies)
    return [store.point_row(step, dimension, point) for (step, _, dimension, _), point in sums.items()]


def _labels(key: tuple[Any, ...]) -> list[tuple[str, str]]:
    """The dimensions in which a call counts, each with its label."""
    service, operation, _, code, kind, plan, payment = key
    if not kind:
        return [] if operation.startswith("operator") else [("total", "other")]
    labels = [("total", "calls"), ("operation", f"{service} {operation}"), ("caller", f"{kind} {plan}".strip())]
    if code:
        labels.append(("refusal", f"{code} {service} {operation}"))
    if payment:
        labels.append(("payment", payment))
    return labels


def _add_point(
    sums: dict[tuple[int, int, str, str], Point], place: tuple[int, int, str, str], status: int, latencies: Latencies
) -> None:
    point = sums.get(place)
    if point is None:
        point = sums[place] = Point(place[1], place[3], 0, 0, Latencies())
    point.latencies.add(latencies)
    if status >= FIRST_FAILURE:
        point.failed += latencies.count
    elif status >= FIRST_ERROR:
        point.refused += latencies.count


def _usage_row(kind: str, subject: str, use: CallerUse) -> UsageRow:
    name = masked(use.name)[:100] if use.name else ""
    return kind, subject, use.plan[:64], name, use.requests, use.refused, use.failed, use.charged_micros


def _network(address: str) -> str:
    """`203.0.113.7` -> `203.0.113.0/24`, an IPv6 network -> its /48."""
    try:
        parsed = ip_address(address.partition("/")[0])
    except ValueError:
        return "unknown"
    return str(ip_network((parsed, 24 if parsed.version == 4 else 48), strict=False))
