"""Synchronizes keys with their subscriptions: an event is only a reason to fetch the customer's current state.

Every sync takes a number before it calls Stripe, and its result is applied only if no sync with a higher number was
applied. A sync sees every change made at Stripe before it took its number. So the sync of the last event, or a later
one, decides, whatever the order, repetition and delay of the events.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from tollhouse import clock
from tollhouse.accounts import store as key_store
from tollhouse.accounts.plans import Plans
from tollhouse.accounts.subscriptions import store
from tollhouse.accounts.subscriptions.checkout_session import SYNC_AFTER_CHECKOUT_SECONDS
from tollhouse.accounts.subscriptions.plan_resolution import Resolution, Subscription, resolve_plan
from tollhouse.accounts.subscriptions.store import Account
from tollhouse.accounts.subscriptions.stripe_client import StripeApi, StripeCallFailed, StripeEvent
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.storage.database import Database, Transaction

log = logger("accounts.subscriptions")

CONCURRENT_SYNCS = 8
MONITOR_EVERY_SECONDS = 300.0
SECONDS_PER_DAY = 86_400.0
# Stripe sends the events of a renewal shortly after the period ends; only if none arrived is a sync due.
SYNC_AFTER_PERIOD_SECONDS = 900.0
# Stripe repeats an event for three days.
EVENT_RETENTION_SECONDS = 30 * SECONDS_PER_DAY


class _Batch(Struct):
    """Events of one customer, by id, whose sync has not begun; `new_ids` are those not processed before."""

    events: dict[str, StripeEvent]
    new_ids: asyncio.Task[frozenset[str]]


class SubscriptionSync:
    """Sets the tier of keys to what their customers pay for."""

    def __init__(self, api: StripeApi, database: Database, prices: Mapping[str, str], plans: Plans) -> None:
        self._api = api
        self._database = database
        self._prices = prices
        self._plans = plans
        self._batches: dict[str, _Batch] = {}
        self._slots = asyncio.Semaphore(CONCURRENT_SYNCS)

    async def handle(self, event: StripeEvent) -> bool:
        """Process an event; False if it was processed before. Raises StripeCallFailed: Stripe then sends it again.

        One change at Stripe causes several events, each perhaps sent twice. Those of one customer that arrive
        together share one sync, so that a storm of events needs few calls and few database connections.
        """
        batch = self._batches.get(event.customer_id)
        if batch is None:
            events: dict[str, StripeEvent] = {}
            batch = _Batch(events, asyncio.create_task(self._process(event.customer_id, events)))
            self._batches[event.customer_id] = batch
        batch.events[event.id] = event
        # The sender may disconnect; the sync is for all events of the batch.
        return event.id in await asyncio.shield(batch.new_ids)

    async def sync(self, key_id: str) -> None:
        """Fetch what the key's customer pays for now and apply it. Raises StripeCallFailed."""
        async with self._database.writing() as transaction:
            started = await store.start_sync(transaction, key_id)
        subscriptions = await self._api.subscriptions(started.customer_id) if started.customer_id else ()
        async with self._database.writing(lock=f"checkout:{key_id}") as transaction:
            key = await key_store.key_by_id(transaction, key_id)
            is_active = key is not None and key.revoked_at is None
            resolution = resolve_plan(subscriptions, self._prices, self._plans, key_is_active=is_active)
            account = await store.get_account(transaction, key_id)
            if account.last_applied_sync >= started.syncs_started:
                return
            await self._apply(transaction, account, resolution, started.syncs_started, is_active=is_active)
        for subscription_id in resolution.superfluous:
            log.info("canceling a superfluous subscription", key_id=key_id, subscription_id=subscription_id)
            await self._api.cancel_subscription(subscription_id)

    async def monitor(self) -> None:
        """Sync due keys periodically: checkouts and renewals without an event, and every paying key once a day."""
        while True:
            await self.sync_due()
            await asyncio.sleep(MONITOR_EVERY_SECONDS)

    async def sync_due(self) -> None:
        """Sync every key that is due, and delete old events."""
        async with self._database.reading() as connection:
            due = await store.due_keys(connection, clock.seconds())
        for key_id in due:
            try:
                await self.sync(key_id)
            except (StripeCallFailed, Problem) as failure:
                log.warning("subscription sync failed", key_id=key_id, error=str(failure))
        async with self._database.writing() as transaction:
            await store.delete_events(transaction, clock.seconds() - EVENT_RETENTION_SECONDS)

    async def _process(self, customer_id: str, events: Mapping[str, StripeEvent]) -> frozenset[str]:
        async with self._slots:
            # Before the sync takes its number: it may miss what changes from here on.
            del self._batches[customer_id]
            async with self._database.reading() as connection:
                processed = await store.processed_events(connection, events)
                key_id = await store.key_of_customer(connection, customer_id) if customer_id else None
            new = [event for event in events.values() if event.id not in processed]
            if not new:
                return frozenset()
            if key_id is not None:
                await self.sync(key_id)
            # Only now: after a crash before this point, Stripe sends the events again.
            processed_at = clock.seconds()
            async with self._database.writing() as transaction:
                for event in new:
                    await store.insert_event(
                        transaction,
                        id=event.id,
                        type=event.type[:100],
                        created=event.created,
                        processed_at=processed_at,
                    )
            return frozenset(event.id for event in new)

    async def _apply(
        self, transaction: Transaction, account: Account, resolution: Resolution, sync: int, *, is_active: bool
    ) -> None:
        key_id, tier, subscription, now = account.key_id, resolution.tier, resolution.subscription, clock.seconds()
        if tier is None:
            log.error("no setting names the price of a subscription: the key is unchanged", key_id=key_id)
            unresolved = {"last_applied_sync": sync, "next_sync_at": now + SECONDS_PER_DAY}
            await store.update_account(transaction, key_id, unresolved)
            return
        # Only a change at Stripe moves the key: the operator's `keys set-tier` lasts until then.
        if tier != account.applied_tier and is_active:
            await key_store.change_key(transaction, key_id, tier=tier)
            log.info("key moved to another tier", key_id=key_id, tier=tier, former=account.applied_tier)
        values = {
            "last_applied_sync": sync,
            "applied_tier": tier,
            "subscription_id": subscription.id if subscription else None,
            "subscription_status": subscription.status if subscription else None,
            "price_id": resolution.price_id,
            "cancels_at_period_end": bool(subscription and subscription.cancels_at_period_end),
            "period_ends_at": subscription.period_ends_at if subscription else None,
            "next_sync_at": _next_sync_at(account, subscription, now),
        }
        await store.update_account(transaction, key_id, values)


def _next_sync_at(account: Account, subscription: Subscription | None, now: float) -> float | None:
    if subscription is None:
        return now + SYNC_AFTER_CHECKOUT_SECONDS if (account.session_expires_at or 0) > now else None
    after_period = (subscription.period_ends_at or now) + SYNC_AFTER_PERIOD_SECONDS
    return after_period if now < after_period < now + SECONDS_PER_DAY else now + SECONDS_PER_DAY
