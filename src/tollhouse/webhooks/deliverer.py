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
from tollhouse.webhooks.schedule import MAX_HOLD, Capacity, Waiting, allocate, pause_after
from tollhouse.webhooks.store import State, change_endpoint, delete_before, end_pending

log = logger("webhooks")

GONE = "the receiver answered 410 Gone"
# With these statuses Retry-After concerns the receiver (RFC 9110, RFC 6585), not one message.
_BUSY = frozenset({429, 503})


class EndpointResult(Struct):
    """The result of several attempts for one endpoint: its failures since the last success."""

    succeeded_at: float | None = None
    gone_at: float | None = None
    failures: store.Failures = field(default_factory=store.Failures)

    def add(self, outcome: Outcome) -> None:
        """Add one more outcome, in the order in which the attempts ended."""
        if outcome.failure is None:
            self.succeeded_at, self.failures.count = outcome.ended_at, 0
            return
        failures = self.failures
        failures.since = failures.since if failures.count else outcome.at
        failures.count += 1
        failures.error = _error(outcome)
        if outcome.failure == "gone":
            self.gone_at = outcome.ended_at
        if outcome.status in _BUSY and outcome.retry_after:
            failures.held_until = max(failures.held_until, outcome.ended_at + min(outcome.retry_after, MAX_HOLD))


async def settle(transaction: Transaction, outcomes: Sequence[Outcome]) -> None:
    """Store the outcomes of attempts. Those whose lease was lost meanwhile are only recorded."""
    if not outcomes:
        return
    attempts = [
        {
            "delivery_id": outcome.job.delivery_id,
            "number": outcome.job.number,
            "at": outcome.at,
            "status": outcome.status,
            "error": outcome.failure,
            "duration_ms": round(outcome.seconds * 1_000),
        }
        for outcome in outcomes
    ]
    await store.insert_attempts(transaction, attempts)
    ends = [delivery_update(outcome) for outcome in outcomes]
    await store.end_leases(transaction, ends)
    for outcome, end in zip(outcomes, ends, strict=True):
        if end["state"] == "parked":
            job = outcome.job
            log.warning("delivery parked", delivery=job.delivery_id, endpoint=job.endpoint_id, error=_error(outcome))
    results: dict[str, EndpointResult] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.ended_at):
        results.setdefault(outcome.job.endpoint_id, EndpointResult()).add(outcome)
    for endpoint_id in sorted(results):
        await _update_endpoint(transaction, endpoint_id, results[endpoint_id])


def delivery_update(outcome: Outcome) -> dict[str, Any]:
    """Delivered, due again later, or parked after the last try."""
    job = outcome.job
    pause = None if outcome.failure is None else pause_after(job.tries, outcome.retry_after)
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


async def _update_endpoint(transaction: Transaction, endpoint_id: str, result: EndpointResult) -> None:
    if result.gone_at is not None:
        log.warning("endpoint disabled", endpoint=endpoint_id, reason=GONE)
        await end_pending(transaction, endpoint_id, "parked", "disabled", result.gone_at)
        await change_endpoint(transaction, endpoint_id, disabled_at=result.gone_at, disabled_reason=GONE)
    if result.succeeded_at is not None:
        await store.mark_endpoint_succeeded(transaction, endpoint_id, result.succeeded_at)
    if result.failures.count:
        await store.mark_endpoint_failed(transaction, endpoint_id, result.failures)


def _error(outcome: Outcome) -> str | None:
    """`timeout`, or `status 500` where the number says more than the class."""
    if outcome.failure in {"status", "redirect"}:
        return f"{outcome.failure} {outcome.status}"
    return outcome.failure


# Longer than any attempt: while a process lives, no other takes what it is sending.
LEASE_SECONDS = 60.0
POLL_SECONDS = 1.0
STORAGE_PAUSE_SECONDS = 2.0
SLOW_SECONDS = 2.0
STOP_WITHIN_SECONDS = 3.0
RETENTION_DAYS = 30
DAY_SECONDS = 86_400.0
DELETE_EVERY_SECONDS = 3_600.0


class Deliverer:
    """Delivers for one process. Several processes on one database share the work by leases."""

    def __init__(self, database: Database, sender: Sender, capacity: Capacity) -> None:
        self._database = database
        self._sender = sender
        self._capacity = capacity
        self._running: dict[asyncio.Task[None], Waiting] = {}
        self._outcomes: list[Outcome] = []
        self._ended = asyncio.Event()
        self._slow: set[str] = set()
        self._rounds = 0
        self._served: Counter[str] = Counter()
        self._delete_at = 0.0

    async def run_deliveries(self) -> None:
        """Deliver what is due until cancelled. Attempts in progress then get three seconds."""
        try:
            while True:
                await self._run_once()
                await self._wait(POLL_SECONDS)
        finally:
            await self._stop()

    async def deliver_due(self, now: float | None = None) -> int:
        """Deliver all that is due at `now` (seconds since 1970); the number of attempts."""
        moment, made = clock.seconds() if now is None else now, 0
        while True:
            made += await self._round(moment)
            if not (self._running or self._outcomes):
                return made
            await self._wait()

    async def _run_once(self) -> None:
        now = clock.seconds()
        try:
            await self._round(now)
            if now >= self._delete_at:
                self._delete_at = now + DELETE_EVERY_SECONDS
                async with self._database.writing() as transaction:
                    await delete_before(transaction, now - RETENTION_DAYS * DAY_SECONDS)
        except Problem:
            # Results stay in memory and are stored when the storage is available again.
            await asyncio.sleep(STORAGE_PAUSE_SECONDS)

    async def _round(self, now: float) -> int:
        """Store outcomes and take due deliveries in one transaction; the number of attempts started."""
        if not self._outcomes and not await self._has_due_work(now):
            return 0
        ended, self._outcomes = self._outcomes, []
        try:
            async with self._database.writing() as transaction:
                await settle(transaction, ended)
                jobs = await self._take(transaction, now)
        except BaseException:
            self._outcomes = ended + self._outcomes
            raise
        self._rounds += 1
        for job, waiting in jobs:
            self._served[waiting.endpoint_id] = self._rounds
            task = asyncio.create_task(self._attempt(job, now))
            self._running[task] = waiting
            task.add_done_callback(self._end)
        return len(jobs)

    async def _has_due_work(self, now: float) -> bool:
        async with self._database.reading() as connection:
            return bool(self._allocate(await store.endpoints_with_due(connection, now))[1])

    async def _take(self, transaction: Transaction, now: float) -> list[tuple[Job, Waiting]]:
        line, shares = self._allocate(await store.endpoints_with_due(transaction, now))
        if not shares:
            return []
        rows = await store.take(transaction, shares, now, secrets.token_hex(16), now + LEASE_SECONDS)
        return [(_job(row, now), line[row.endpoint_id]) for row in rows]

    def _allocate(self, rows: list[Any]) -> tuple[dict[str, Waiting], dict[str, int]]:
        """The waiting endpoints, and how many attempts each may start."""
        in_flight = Counter(waiting.endpoint_id for waiting in self._running.values())
        suspects = sum(waiting.is_suspect for waiting in self._running.values())
        line = {row.id: self._waiting(row, in_flight[row.id]) for row in rows}
        return line, allocate(list(line.values()), self._capacity, len(self._running), suspects)

    def _waiting(self, row: Any, in_flight: int) -> Waiting:
        return Waiting(
            endpoint_id=row.id,
            is_suspect=row.failing_since is not None or row.id in self._slow,
            is_proven=row.last_success_at is not None,
            in_flight=in_flight,
            served_at=self._served[row.id],
        )

    async def _attempt(self, job: Job, at: float) -> None:
        outcome = await self._sender.send(job, at)
        self._outcomes.append(outcome)
        (self._slow.add if outcome.seconds > SLOW_SECONDS else self._slow.discard)(job.endpoint_id)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._ended.set()

    async def _wait(self, at_most_seconds: float | None = None) -> None:
        """Wait until an attempt ends."""
        try:
            async with asyncio.timeout(at_most_seconds):
                await self._ended.wait()
        except TimeoutError:
            return
        self._ended.clear()

    async def _stop(self) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_WITHIN_SECONDS)
        remaining = list(self._running)
        for task in remaining:
            task.cancel()
        await asyncio.gather(*remaining, return_exceptions=True)
        ended, self._outcomes = self._outcomes, []
        # Without the storage they are sent again when their leases expire. Stopping must not fail.
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
