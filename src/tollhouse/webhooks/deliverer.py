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
from tollhouse.webhooks import outbox, store
from tollhouse.webhooks.attempt import Job, Outcome, Sender
from tollhouse.webhooks.schedule import MAX_HOLD, Capacity, Waiting, allocate, has_capacity, pause_after
from tollhouse.webhooks.store import State, change_endpoint, end_pending

log = logger("webhooks")

# Longer than any attempt: while a process lives, no other takes what it is sending.
LEASE_SECONDS = 60.0
POLL_SECONDS = 1.0
STORAGE_PAUSE_SECONDS = 2.0
GATHER_SECONDS = 0.004
SLOW_SECONDS = 2.0
STOP_WITHIN_SECONDS = 3.0
# How many deliveries of each endpoint are taken at once, where many endpoints have some.
_AT_ONCE = 4

GONE = "the receiver answered 410 Gone"
# With these statuses Retry-After concerns the receiver (RFC 9110, RFC 6585), not one message.
_BUSY = frozenset({429, 503})


class EndpointResult(Struct):
    """The result of several attempts for one endpoint: its failures since the last success."""

    succeeded_at: float | None = None
    gone_at: float | None = None
    is_slow: bool = False
    failures: store.Failures = field(default_factory=store.Failures)

    def add(self, outcome: Outcome) -> None:
        """Add one more outcome, in the order in which the attempts ended."""
        self.is_slow = outcome.seconds > SLOW_SECONDS
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


async def settle(transaction: Transaction, outcomes: Sequence[Outcome], now: float) -> None:
    """Store the outcomes of attempts. Those whose lease was lost meanwhile are only recorded."""
    if not outcomes:
        return
    endpoint_ids = sorted({outcome.job.endpoint_id for outcome in outcomes})
    await store.lock_endpoints(transaction, endpoint_ids)
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
    succeeded = [
        {"b_id": name, "b_at": result.succeeded_at, "b_slow": int(result.is_slow)}
        for name, result in results.items()
        if result.succeeded_at is not None
    ]
    await store.mark_succeeded(transaction, succeeded)
    for endpoint_id, result in results.items():
        if result.gone_at is not None:
            await _disable(transaction, endpoint_id, result.gone_at)
        if result.failures.count:
            await store.mark_endpoint_failed(transaction, endpoint_id, result.failures)
    await store.schedule(transaction, endpoint_ids, now)


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


async def _disable(transaction: Transaction, endpoint_id: str, now: float) -> None:
    log.warning("endpoint disabled", endpoint=endpoint_id, reason=GONE)
    await end_pending(transaction, endpoint_id, "parked", "disabled", now)
    await change_endpoint(transaction, endpoint_id, disabled_at=now, disabled_reason=GONE)


def _error(outcome: Outcome) -> str | None:
    """`timeout`, or `status 500` where the number says more than the class."""
    if outcome.failure in {"status", "redirect"}:
        return f"{outcome.failure} {outcome.status}"
    return outcome.failure


class Deliverer:
    """Delivers for one process. Several processes on one database share the work by leases of deliveries."""

    def __init__(self, database: Database, sender: Sender, capacity: Capacity) -> None:
        self._database = database
        self._sender = sender
        self._capacity = capacity
        self._running: dict[asyncio.Task[None], Waiting] = {}
        self._outcomes: list[Outcome] = []
        self._ended = asyncio.Event()

    async def run_deliveries(self) -> None:
        """Deliver what is due until cancelled. Any number of processes may do so at once.

        Attempts in progress then get three seconds.
        """
        try:
            while True:
                await self._run_once()
                await self._wait(POLL_SECONDS)
        finally:
            await self._stop()

    async def deliver_due(self, now: float | None = None) -> int:
        """Deliver all that is due at `now` (seconds since 1970, by default the present); the number of attempts."""
        moment, made = clock.seconds() if now is None else now, 0
        await self.fan_out()
        while True:
            made += await self._round(moment)
            if not (self._running or self._outcomes):
                return made
            await self._wait()

    async def fan_out(self) -> None:
        """Make the deliveries of all events that are put. `run_deliveries` does so by itself."""
        more = True
        while more:
            async with self._database.writing() as transaction:
                more = await outbox.fan_out(transaction)

    async def _run_once(self) -> None:
        try:
            await self._round(clock.seconds())
        except Problem:
            # Results stay in memory and are stored when the storage is available again.
            await asyncio.sleep(STORAGE_PAUSE_SECONDS)

    async def _round(self, now: float) -> int:
        """Store outcomes and take due deliveries in one transaction; the number of attempts started."""
        if not self._outcomes and not await self._has_work(now):
            return 0
        ended, self._outcomes = self._outcomes, []
        try:
            async with self._database.writing() as transaction:
                await settle(transaction, ended, now)
                jobs = await self._take(transaction, now)
        except BaseException:
            self._outcomes = ended + self._outcomes
            raise
        for job, waiting in jobs:
            task = asyncio.create_task(self._attempt(job, now))
            self._running[task] = waiting
            task.add_done_callback(self._end)
        return len(jobs)

    async def _has_work(self, now: float) -> bool:
        """Whether deliveries are due and there is capacity for some. Makes the deliveries of some new events."""
        async with self._database.reading() as connection:
            has_work = await store.has_work(connection, now)
        if has_work:
            async with self._database.writing() as transaction:
                await outbox.fan_out(transaction)
        return has_work and len(self._running) < self._capacity.overall

    async def _take(self, transaction: Transaction, now: float) -> list[tuple[Job, Waiting]]:
        """Take due deliveries of the endpoints that wait for longest, within the capacity of each."""
        suspects = sum(waiting.is_suspect for waiting in self._running.values())
        free = self._capacity.overall - len(self._running)
        free_for_suspects = min(free, self._capacity.suspects - suspects)
        rows: list[Any] = []
        for is_suspect, number in ((False, free), (True, free_for_suspects)):
            if number > 0:
                limit = max(number // _AT_ONCE, _AT_ONCE)
                rows += await store.take_endpoints(transaction, now, is_suspect=is_suspect, limit=limit)
        if not rows:
            return []
        in_flight = await store.in_flight(transaction, [row.id for row in rows], now)
        endpoints = {row.id: row for row in rows}
        line = {row.id: _waiting(row, in_flight.get(row.id, 0)) for row in rows}
        shares = allocate(list(line.values()), self._capacity, len(self._running), suspects)
        until = now + LEASE_SECONDS
        taken = await store.take(transaction, shares, now, secrets.token_hex(16), until) if shares else []
        sending = Counter(in_flight) + Counter(row.endpoint_id for row in taken)
        full = [name for name, one in line.items() if not has_capacity(one, sending[name], self._capacity)]
        if full:
            await store.postpone(transaction, full, until)
        if others := sorted(shares.keys() - set(full)):
            await store.schedule(transaction, others, now)
        return [(_job(row, endpoints[row.endpoint_id], now), line[row.endpoint_id]) for row in taken]

    async def _attempt(self, job: Job, at: float) -> None:
        outcome = await self._sender.send(job, at)
        self._outcomes.append(outcome)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._ended.set()

    async def _wait(self, at_most_seconds: float | None = None) -> None:
        """Wait until an attempt ends, and a moment for those that end with it."""
        try:
            async with asyncio.timeout(at_most_seconds):
                await self._ended.wait()
        except TimeoutError:
            return
        await asyncio.sleep(GATHER_SECONDS)
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
                await settle(transaction, ended, clock.seconds())


def _waiting(row: Any, in_flight: int) -> Waiting:
    return Waiting(
        endpoint_id=row.id,
        is_suspect=bool(row.is_suspect) or row.failing_since is not None,
        is_proven=row.last_success_at is not None,
        in_flight=in_flight,
        since=row.next_due_at,
    )


def _job(row: Any, endpoint: Any, now: float) -> Job:
    former = [endpoint.former_secret] if endpoint.former_secret and endpoint.former_until > now else []
    return Job(
        delivery_id=row.id,
        event_id=row.event_id,
        endpoint_id=row.endpoint_id,
        url=endpoint.url,
        secrets=(endpoint.secret, *former),
        body=bytes(row.body),
        tries=row.tries,
        number=row.attempts,
        lease=row.lease,
    )
