"""What attempts came to, written down: for the delivery, for its endpoint, for the record."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from tollhouse.logs import logger
from tollhouse.storage.database import Transaction
from tollhouse.webhooks.delivery import store
from tollhouse.webhooks.delivery.attempt import Outcome
from tollhouse.webhooks.delivery.retry_schedule import LONGEST_HOLD, pause_after
from tollhouse.webhooks.delivery.store import State
from tollhouse.webhooks.store import change_endpoint, end_pending

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
