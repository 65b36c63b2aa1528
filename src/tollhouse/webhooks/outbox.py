"""The outbox of events, written in the transaction of the change that caused them, and handed to endpoints after it."""

import re
import secrets
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.storage.database import Transaction
from tollhouse.webhooks import store

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DERIVED_HEX = 32
_MAX_TYPE = 64
_MAX_SUBJECT = 200
_ROWS_PER_STATEMENT = 500
_EVENTS_AT_ONCE = 200
_ROWS_AT_ONCE = 2_000


class Event(Struct, frozen=True):
    """Something that happened to `subject_id`. `data` is sent to receivers as JSON.

    `id` makes repeated events one event; empty, it is derived from the other fields, so data that can recur must
    contain a time. `to` names the only endpoint to notify; empty, every endpoint subscribed to the type is.
    """

    type: str
    data: Any
    subject_id: str
    id: str = ""
    to: str = ""


async def put(  # noqa: PLR0913, PLR0917 - the fields of an event
    transaction: Transaction,
    service: str,
    event_type: str,
    data: Any,
    subject_id: str,
    event_id: str = "",
    *,
    to: str = "",
) -> str:
    """Add one event, sent once the transaction commits; its id, which receivers see as `webhook-id`. See Event."""
    event = Event(event_type, data, subject_id, event_id, to)
    await put_all(transaction, service, [event])
    return _id(service, event)


async def put_all(transaction: Transaction, service: str, events: Sequence[Event]) -> int:
    """Add many events; how many of them are new. Events added before, within the retention, change nothing.

    Each goes once to every endpoint that is registered at this moment, and still is when it is handed out. For a
    disabled endpoint the delivery is parked.
    """
    now = clock.seconds()
    named = {_id(service, event): event for event in events}
    new = 0
    for ids in _chunks(list(named)):
        rows = [_row(event_id, service, named[event_id], now) for event_id in ids]
        inserted = await store.insert_events(transaction, rows)
        await _check_known(transaction, service, {name: named[name] for name in ids if name not in inserted})
        new += len(inserted)
    return new


async def fan_out(transaction: Transaction, event_id: str = "") -> bool:
    """Make some deliveries of the oldest events, or of that one, which have not all; whether there may be more to make.

    Repeated after a crash, it makes none twice.
    """
    events = await store.to_fan_out(transaction, _EVENTS_AT_ONCE, event_id)
    if not events:
        return False
    # Events of one service that have come equally far; those for one endpoint are of no concern to the others.
    first = events[0]
    events = [one for one in events if _group(one) == _group(first)]
    limit = max(_ROWS_AT_ONCE // len(events), 1)
    only = {one.endpoint_id for one in events} if first.endpoint_id else None
    receivers = await store.receivers(transaction, first.service, only, first.fan_out_after, limit)
    rows = [_delivery(one, receiver) for one in events for receiver in receivers if _receives(receiver, one)]
    called = sorted({str(row["endpoint_id"]) for row in rows if row["state"] == "pending"})
    if called:
        await store.lock_endpoints(transaction, called)
    for portion in _chunks(rows):
        await store.insert_deliveries(transaction, portion)
    if called:
        await store.wake(transaction, called, max(one.created_at for one in events))
    is_last = only is not None or len(receivers) < limit
    await store.move_fan_out(transaction, [one.id for one in events], None if is_last else receivers[-1].id)
    return True


def _group(event: Any) -> tuple[str, str, bool]:
    return event.service, event.fan_out_after, bool(event.endpoint_id)


def _receives(receiver: Any, event: Any) -> bool:
    if event.endpoint_id:
        return bool(receiver.id == event.endpoint_id)
    is_known = receiver.created_at <= event.created_at
    return is_known and (not receiver.types or event.type in receiver.types.split(","))


def _delivery(event: Any, receiver: Any) -> dict[str, object]:
    is_disabled = receiver.disabled_at is not None
    return {
        "id": f"dlv_{secrets.token_hex(10)}",
        "event_id": event.id,
        "endpoint_id": receiver.id,
        "state": "parked" if is_disabled else "pending",
        "created_at": event.created_at,
        "due_at": event.created_at,
        "finished_at": event.created_at if is_disabled else None,
        "last_error": "disabled" if is_disabled else None,
    }


async def _check_known(transaction: Transaction, service: str, events: dict[str, Event]) -> None:
    """An id that belongs to another event would lose this one silently."""
    if events:
        for row in await store.known_events(transaction, events):
            assert (row.service, row.type) == (service, events[row.id].type), f"event id {row.id} is another event's"


def _id(service: str, event: Event) -> str:
    assert len(event.type) <= _MAX_TYPE, "the event type is too long"
    assert len(event.subject_id) <= _MAX_SUBJECT, "the event's subject id is too long"
    if event.id:
        assert _ID.fullmatch(event.id), "an event id must be 1 to 64 letters, digits, - and _"
        return event.id
    content = msgspec.json.encode([service, event.type, event.subject_id, event.to, event.data], order="deterministic")
    return f"evt_{sha256(content).hexdigest()[:_DERIVED_HEX]}"


def _row(event_id: str, service: str, event: Event, now: float) -> dict[str, object]:
    body = {"type": event.type, "timestamp": clock.iso(clock.at(now)), "data": event.data}
    return {
        "id": event_id,
        "service": service,
        "type": event.type,
        "subject_id": event.subject_id,
        "body": msgspec.json.encode(body),
        "created_at": now,
        "endpoint_id": event.to or None,
        "fan_out_after": "",
    }


def _chunks(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        yield rows[start : start + _ROWS_PER_STATEMENT]
