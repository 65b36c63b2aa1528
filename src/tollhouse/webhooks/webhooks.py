"""The webhooks of a server: subscriptions, the record of deliveries, and the delivery loop."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http_client.targets import Resolve, SystemResolver, TargetRules
from tollhouse.http_client.validated import ValidatedClient
from tollhouse.logs import logger
from tollhouse.storage.database import Database, Transaction
from tollhouse.storage.secret_box import SecretBox
from tollhouse.webhooks import store
from tollhouse.webhooks.attempt import Sender
from tollhouse.webhooks.deliverer import Deliverer
from tollhouse.webhooks.schedule import DEFAULT_CAPACITY, Capacity
from tollhouse.webhooks.store import State, endpoint_by_id
from tollhouse.webhooks.subscriptions import Subscriptions

log = logger("webhooks")

DAY_SECONDS = 86_400.0
MAINTAIN_SECONDS = 60.0
DELETE_EVERY_SECONDS = 3_600.0
DELETE_PAUSE_SECONDS = 0.02


class Attempt(Struct, frozen=True):
    """One attempt. `error` is a class of failure, such as `timeout`, `connection`, `tls`, `address` or `protocol`."""

    at: str
    status: int | None
    error: str | None
    duration_ms: int


class Delivery(Struct, frozen=True):
    """One event for one endpoint. `event_id` is the `webhook-id`; `due_at` is None if no attempt is planned."""

    id: str
    event_id: str
    endpoint_id: str
    type: str
    subject_id: str
    state: State
    created_at: str
    due_at: str | None
    finished_at: str | None
    last_status: int | None
    last_error: str | None
    attempt_count: int
    attempts: tuple[Attempt, ...]


class Backlog(Struct, frozen=True):
    """The number of deliveries of an endpoint in a state, and when the oldest was made."""

    endpoint_id: str
    state: State
    deliveries: int
    oldest_at: str


class Deliveries:
    """The record of one server's deliveries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(
        self, endpoint_id: str | None = None, state: State | None = None, limit: int = 100
    ) -> list[Delivery]:
        """The newest deliveries first, each with its last 20 attempts."""
        async with self._database.reading() as connection:
            rows = await store.deliveries(connection, endpoint_id, state, limit)
            attempts = await store.attempts_of(connection, [row.id for row in rows])
        return [_delivery(row, attempts.get(row.id, [])) for row in rows]

    async def backlog(self) -> list[Backlog]:
        """The deliveries of every endpoint by state."""
        async with self._database.reading() as connection:
            rows = await store.backlog(connection)
        return [Backlog(row.endpoint_id, row.state, row.deliveries, clock.iso(clock.at(row.oldest_at))) for row in rows]

    async def replay(self, transaction: Transaction, delivery_id: str, endpoint_id: str | None = None) -> Delivery:
        """Send a delivery again, whatever its state; one in progress is not changed.

        Raises ValueError if it does not exist (for that endpoint, where given) or its endpoint is disabled.
        """
        row = await store.delivery_by_id(transaction, delivery_id)
        if row is None or endpoint_id not in {None, row.endpoint_id}:
            raise ValueError(f"delivery {delivery_id} does not exist")
        await _check_is_enabled(transaction, row.endpoint_id)
        await store.replay(transaction, delivery_id, row.endpoint_id, clock.seconds())
        attempts = await store.attempts_of(transaction, [delivery_id])
        return _delivery(await store.delivery_by_id(transaction, delivery_id), attempts.get(delivery_id, []))

    async def replay_parked(self, transaction: Transaction, endpoint_id: str, since: float = 0.0) -> int:
        """Send all parked deliveries of an endpoint made since then; their number. Raises ValueError."""
        await _check_is_enabled(transaction, endpoint_id)
        return await store.replay_parked(transaction, endpoint_id, since, clock.seconds())

    async def delete_before(self, moment: float) -> None:
        """Delete older events that no delivery waits for, with their records, and endpoints removed before."""
        more = True
        while more:
            async with self._database.writing() as transaction:
                more = await store.delete_some_before(transaction, moment)
            # Let others have their turn.
            await asyncio.sleep(DELETE_PAUSE_SECONDS)
        async with self._database.writing() as transaction:
            await store.delete_removed_endpoints(transaction, moment)


async def _check_is_enabled(transaction: Transaction, endpoint_id: str) -> None:
    endpoint = await endpoint_by_id(transaction, endpoint_id)
    if endpoint is None:
        raise ValueError(f"endpoint {endpoint_id} does not exist")
    if endpoint.disabled_at is not None:
        raise ValueError(f"endpoint {endpoint_id} is disabled: enable it first")


def _delivery(row: Any, attempts: list[Any]) -> Delivery:
    return Delivery(
        id=row.id,
        event_id=row.event_id,
        endpoint_id=row.endpoint_id,
        type=row.type,
        subject_id=row.subject_id,
        state=row.state,
        created_at=clock.iso(clock.at(row.created_at)),
        due_at=clock.iso(clock.at(row.due_at)) if row.state == "pending" else None,
        finished_at=None if row.finished_at is None else clock.iso(clock.at(row.finished_at)),
        last_status=row.last_status,
        last_error=row.last_error,
        attempt_count=row.attempts,
        attempts=tuple(
            Attempt(clock.iso(clock.at(one.at)), one.status, one.error, one.duration_ms) for one in attempts
        ),
    )


Close = Callable[[], Awaitable[None]]


class Webhooks:
    """Endpoints, deliveries, and the delivery loop. Add events with `webhooks.outbox`."""

    def __init__(  # noqa: PLR0913, PLR0917 - its parts
        self,
        database: Database,
        subscriptions: Subscriptions,
        deliveries: Deliveries,
        deliverer: Deliverer,
        retention_seconds: float,
        close: Close,
    ) -> None:
        self.subscriptions = subscriptions
        self.deliveries = deliveries
        self._database = database
        self.run_deliveries, self.deliver_due = deliverer.run_deliveries, deliverer.deliver_due
        self.fan_out = deliverer.fan_out
        self._retention_seconds = retention_seconds
        self.close = close
        """Close every connection to receivers."""

    async def maintain(self) -> None:
        """Encrypt stored secrets, then delete what is old, until cancelled: a job of one process."""
        await self.subscriptions.encrypt_stored()
        deleted_at = 0.0
        while True:
            now = clock.seconds()
            try:
                async with self._database.writing() as transaction:
                    await store.wake_overdue(transaction, now)
                if now >= deleted_at + DELETE_EVERY_SECONDS:
                    await self.deliveries.delete_before(now - self._retention_seconds)
                    deleted_at = now
            except Problem as problem:
                log.warning("webhooks not maintained", code=problem.code)
            await asyncio.sleep(MAINTAIN_SECONDS)


def open_webhooks(
    settings: Settings,
    database: Database,
    *,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
    capacity: Capacity = DEFAULT_CAPACITY,
) -> Webhooks:
    """Build the webhooks. By default names are resolved and certificates verified as this machine does."""
    rules = TargetRules(allow_loopback=settings.webhook_allow_loopback)
    system = SystemResolver()
    client = ValidatedClient(rules, resolve or system, tls)
    box = SecretBox(settings)
    sender = Sender(client, capacity.attempt_seconds, box)
    deliverer = Deliverer(database, sender, capacity)

    async def close() -> None:
        await sender.close()
        system.close()

    subscriptions = Subscriptions(database, rules, resolve or system, box)
    retention_seconds = settings.webhook_retention_days * DAY_SECONDS
    return Webhooks(database, subscriptions, Deliveries(database), deliverer, retention_seconds, close)
