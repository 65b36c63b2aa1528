"""The delivery loop: store results, take due deliveries, start attempts in fair shares, wait."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.storage.database import Database, Transaction
from tollhouse.webhooks import store
from tollhouse.webhooks.attempt import Job, Outcome, Sender
from tollhouse.webhooks.schedule import LONGEST_HOLD, Capacity, Waiting, allot, pause_after
from tollhouse.webhooks.store import State, change_endpoint, end_pending, forget_before

log = logger("webhooks")

GONE = "the receiver answered 410 Gone"
# With these statuses Retry-After speaks of the receiver as a whole (RFC 9110, RFC 6585), not of one message.
_BUSY = frozenset({429, 503})


class Standing(Struct):
    """What a row of outcomes says of one endpoint: its failures since it last took something."""

    took_at: float | None = None
    gone_at: float | None = None
    refusals: store.Refusals = field(default_factory=store.Refusals)

    def add(self, outcome: Outcome) -> None:
        """Take one more outcome into account, in the order in which attempts ended."""
        if outcome.failure is None:
            self.took_at, self.refusals.count = outcome.ended_at, 0
            return
        refusals = self.refusals
        refusals.since = refusals.since if refusals.count else outcome.at
        refusals.count += 1
        refusals.error = _error(outcome)
        if outcome.failure == "gone":
            self.gone_at = outcome.ended_at
        if outcome.status in _BUSY and outcome.asked_seconds:
            refusals.held_until = max(refusals.held_until, outcome.ended_at + min(outcome.asked_seconds, LONGEST_HOLD))


async def settle(transaction: Transaction, outcomes: Sequence[Outcome]) -> None:
    """Write down what these attempts came to; those whose lease was lost in between are only recorded."""
    if not outcomes:
        return
    await store.insert_attempts(transaction, [_attempt(outcome) for outcome in outcomes])
    ends = [end_of(outcome) for outcome in outcomes]
    await store.end_leases(transaction, ends)
    for outcome, end in zip(outcomes, ends, strict=True):
        if end["state"] == "parked":
            job = outcome.job
            log.warning("delivery parked", delivery=job.delivery_id, endpoint=job.endpoint_id, error=_error(outcome))
    standings: dict[str, Standing] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.ended_at):
        standings.setdefault(outcome.job.endpoint_id, Standing()).add(outcome)
    for endpoint_id in sorted(standings):
        await _stand(transaction, endpoint_id, standings[endpoint_id])


def end_of(outcome: Outcome) -> dict[str, Any]:
    """Delivered, due again later, or parked after the last try."""
    job = outcome.job
    pause = None if outcome.failure is None else pause_after(job.tries, outcome.asked_seconds)
    failed: State = "parked" if pause is None else "pending"
    state: State = "delivered" if outcome.failure is None else failed
    return {
        "id": job.delivery_id,
        "lease": job.lease,
        "state": state,
        "due_at": outcome.ended_at + (pause or 0.0),
        "finished_at": outcome.ended_at if pause is None else None,
        "last_status": outcome.status,
        "last_error": _error(outcome),
    }


async def _stand(transaction: Transaction, endpoint_id: str, standing: Standing) -> None:
    if standing.gone_at is not None:
        log.warning("endpoint disabled", endpoint=endpoint_id, reason=GONE)
        await end_pending(transaction, endpoint_id, "parked", "disabled", standing.gone_at)
        await change_endpoint(transaction, endpoint_id, disabled_at=standing.gone_at, disabled_reason=GONE)
    if standing.took_at is not None:
        await store.endpoint_took(transaction, endpoint_id, standing.took_at)
    if standing.refusals.count:
        await store.endpoint_refused(transaction, endpoint_id, standing.refusals)


def _attempt(outcome: Outcome) -> dict[str, Any]:
    return {
        "delivery_id": outcome.job.delivery_id,
        "number": outcome.job.number,
        "at": outcome.at,
        "status": outcome.status,
        "error": outcome.failure,
        "duration_ms": round(outcome.seconds * 1_000),
    }


def _error(outcome: Outcome) -> str | None:
    """`timeout`, or `status 500` where the number tells more than the class."""
    if outcome.failure in {"status", "redirect"}:
        return f"{outcome.failure} {outcome.status}"
    return outcome.failure


# Longer than any attempt: while its process lives, nobody else takes up what it is sending.
LEASE_SECONDS = 60.0
LOOK_EVERY_SECONDS = 1.0
STORAGE_PAUSE_SECONDS = 2.0
SLOW_SECONDS = 2.0
STOP_WITHIN_SECONDS = 3.0
KEPT_DAYS = 30
DAY_SECONDS = 86_400.0
FORGET_EVERY_SECONDS = 3_600.0


class Deliverer:
    """Delivers for one process. Several at once on one database share the work: a lease gives each its own."""

    def __init__(self, database: Database, sender: Sender, capacity: Capacity) -> None:
        self._database = database
        self._sender = sender
        self._capacity = capacity
        self._running: dict[asyncio.Task[None], Waiting] = {}
        self._outcomes: list[Outcome] = []
        self._ended = asyncio.Event()
        self._slow: set[str] = set()
        self._turns = 0
        self._served: Counter[str] = Counter()
        self._forget_at = 0.0

    async def deliver_for_ever(self) -> None:
        """Deliver what is due as it becomes due, until cancelled; attempts under way then get three seconds."""
        try:
            while True:
                await self._work_once()
                await self._wait(LOOK_EVERY_SECONDS)
        finally:
            await self._stop()

    async def deliver_due_once(self, now: float | None = None) -> int:
        """Deliver all that is due at `now` (seconds since 1970); how many attempts that took."""
        moment, made = clock.seconds() if now is None else now, 0
        while True:
            made += await self._turn(moment)
            if not (self._running or self._outcomes):
                return made
            await self._wait()

    async def _work_once(self) -> None:
        now = clock.seconds()
        try:
            await self._turn(now)
            if now >= self._forget_at:
                self._forget_at = now + FORGET_EVERY_SECONDS
                async with self._database.writing() as transaction:
                    await forget_before(transaction, now - KEPT_DAYS * DAY_SECONDS)
        except Problem:
            # What ended meanwhile is kept in memory and settled when the storage is back.
            await asyncio.sleep(STORAGE_PAUSE_SECONDS)

    async def _turn(self, now: float) -> int:
        """Settle and take in one transaction; how many attempts it began."""
        if not self._outcomes and not await self._is_anything_wanted(now):
            return 0
        ended, self._outcomes = self._outcomes, []
        try:
            async with self._database.writing() as transaction:
                await settle(transaction, ended)
                jobs = await self._take(transaction, now)
        except BaseException:
            self._outcomes = ended + self._outcomes
            raise
        self._turns += 1
        for job, waiting in jobs:
            self._served[waiting.endpoint_id] = self._turns
            self._begin(job, waiting, now)
        return len(jobs)

    async def _is_anything_wanted(self, now: float) -> bool:
        async with self._database.reading() as connection:
            return bool(self._allotted(await store.endpoints_with_due(connection, now))[1])

    async def _take(self, transaction: Transaction, now: float) -> list[tuple[Job, Waiting]]:
        line, shares = self._allotted(await store.endpoints_with_due(transaction, now))
        if not shares:
            return []
        lease = store.Lease(secrets.token_hex(16), now + LEASE_SECONDS)
        rows = await store.take(transaction, shares, now, lease)
        return [(_job(row, now), line[row.endpoint_id]) for row in rows]

    def _allotted(self, rows: list[Any]) -> tuple[dict[str, Waiting], dict[str, int]]:
        """Who waits, and how many attempts each may begin."""
        in_flight = Counter(waiting.endpoint_id for waiting in self._running.values())
        suspects = sum(waiting.is_suspect for waiting in self._running.values())
        line = {row.id: self._waiting(row, in_flight[row.id]) for row in rows}
        return line, allot(list(line.values()), self._capacity, len(self._running), suspects)

    def _waiting(self, row: Any, in_flight: int) -> Waiting:
        return Waiting(
            endpoint_id=row.id,
            is_suspect=row.failing_since is not None or row.id in self._slow,
            is_proven=row.last_success_at is not None,
            in_flight=in_flight,
            served_at=self._served[row.id],
        )

    def _begin(self, job: Job, waiting: Waiting, at: float) -> None:
        task = asyncio.create_task(self._attempt(job, at))
        self._running[task] = waiting
        task.add_done_callback(self._end)

    async def _attempt(self, job: Job, at: float) -> None:
        outcome = await self._sender.send(job, at)
        self._outcomes.append(outcome)
        (self._slow.add if outcome.seconds > SLOW_SECONDS else self._slow.discard)(job.endpoint_id)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._ended.set()

    async def _wait(self, at_most_seconds: float | None = None) -> None:
        """Until an attempt ends."""
        try:
            async with asyncio.timeout(at_most_seconds):
                await self._ended.wait()
        except TimeoutError:
            return
        self._ended.clear()

    async def _stop(self) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_WITHIN_SECONDS)
        left = list(self._running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        ended, self._outcomes = self._outcomes, []
        # Without the storage they are sent again when their leases are over; stopping must not fail for it.
        with suppress(Problem):
            async with self._database.writing() as transaction:
                await settle(transaction, ended)


def _job(row: Any, now: float) -> Job:
    former = [row.former_secret] if row.former_secret and row.former_until > now else []
    return Job(
        delivery_id=row.id,
        event_id=row.event_id,
        endpoint_id=row.endpoint_id,
        url=row.url,
        secrets=(row.secret, *former),
        body=bytes(row.body),
        tries=row.tries,
        number=row.attempts,
        lease=row.lease,
    )
