"""The outbox of events, written in the transaction of the change that caused them."""

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

    Each goes once to every endpoint subscribed at this moment. For a disabled endpoint the delivery is parked.
    """
    now = clock.seconds()
    named = {_id(service, event): event for event in events}
    new: dict[str, Event] = {}
    for ids in _chunks(list(named)):
        rows = [_row(event_id, service, named[event_id], now) for event_id in ids]
        inserted = await store.insert_events(transaction, rows)
        await _check_known(transaction, service, {name: named[name] for name in ids if name not in inserted})
        new |= {name: named[name] for name in ids if name in inserted}
    if new:
        await _fan_out(transaction, service, new, now)
    return len(new)


async def _fan_out(transaction: Transaction, service: str, events: dict[str, Event], now: float) -> None:
    directed = {event.to for event in events.values()}
    receivers = await store.receivers(transaction, service, None if "" in directed else directed)
    rows = [
        _delivery(event_id, receiver, now)
        for event_id, event in events.items()
        for receiver in receivers
        if _receives(receiver, event)
    ]
    for portion in _chunks(rows):
        await store.insert_deliveries(transaction, portion)


def _receives(receiver: Any, event: Event) -> bool:
    if event.to:
        return bool(receiver.id == event.to)
    return not receiver.types or event.type in receiver.types.split(",")


def _delivery(event_id: str, receiver: Any, now: float) -> dict[str, object]:
    is_disabled = receiver.disabled_at is not None
    return {
        "id": f"dlv_{secrets.token_hex(10)}",
        "event_id": event_id,
        "endpoint_id": receiver.id,
        "state": "parked" if is_disabled else "pending",
        "created_at": now,
        "due_at": now,
        "finished_at": now if is_disabled else None,
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
    }


def _chunks(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        yield rows[start : start + _ROWS_PER_STATEMENT]
