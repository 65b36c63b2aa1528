"""Keeping keys at the tier that is paid for: an event is only a reason to look at what Stripe has now.

Every look takes a number before it asks, and what it found lands only if no look with a higher number has landed.
Whatever changed at Stripe before a look took its number, that look and all later ones have seen. So the last event's
look, or a later one, decides, whatever the order, the repetition and the delay of the events.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from tollhouse import clock
from tollhouse.accounts.subscriptions import store
from tollhouse.accounts.subscriptions.checkout_session import LOOK_AFTER_SECONDS
from tollhouse.accounts.subscriptions.plan_resolution import Verdict, decide
from tollhouse.accounts.subscriptions.types import Keys, Provider, ProviderFailed, Subscription
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.storage.database import Database, Transaction

log = logger("payments.checkout")

WATCH_SECONDS = 300.0
SECONDS_PER_DAY = 86_400.0
# Stripe tells of a period's end a little after it; only when it has not is it asked.
AFTER_PERIOD_SECONDS = 900.0
# Stripe sends an event again for three days.
REMEMBER_EVENTS_SECONDS = 30 * SECONDS_PER_DAY


class Following:
    """How a key comes to what is paid for it: by a look whenever there is a reason, and now and then without one."""

    def __init__(self, provider: Provider, database: Database, prices: Mapping[str, str], keys: Keys) -> None:
        self._provider = provider
        self._database = database
        self._prices = prices
        self._keys = keys

    async def look(self, key_id: str) -> None:
        """Bring the key to what its customer pays for at this moment. Raises ProviderFailed."""
        async with self._database.writing() as transaction:
            account = await store.begin_look(transaction, key_id)
        subscriptions = await self._subscriptions(account.customer_id)
        async with self._database.writing(lock=f"checkout:{key_id}") as transaction:
            verdict = await self._land(transaction, account, subscriptions)
        for subscription_id in verdict.superfluous:
            log.info("ending a superfluous subscription", key_id=key_id, subscription_id=subscription_id)
            await self._cancel(subscription_id)

    async def watch(self) -> None:
        """Look for ever where a period ended and no event told of it, and at every paying key once a day."""
        while True:
            await self.round()
            await asyncio.sleep(WATCH_SECONDS)

    async def round(self) -> None:
        """One look at every key that is due."""
        async with self._database.reading() as connection:
            due = await store.due_for_a_look(connection, clock.seconds())
        for key_id in due:
            try:
                await self.look(key_id)
            except (ProviderFailed, Problem) as failure:
                log.warning("a subscription could not be looked at", key_id=key_id, error=str(failure))
        async with self._database.writing() as transaction:
            await store.forget_events(transaction, clock.seconds() - REMEMBER_EVENTS_SECONDS)

    async def _subscriptions(self, customer_id: str | None) -> Sequence[Subscription]:
        if customer_id is None:
            return ()
        try:
            return await self._provider.subscriptions_of(customer_id)
        except ProviderFailed as failure:
            if failure.is_missing:
                return ()  # Stripe ends every subscription of a customer it deletes.
            raise

    async def _land(self, transaction: Transaction, look: Any, subscriptions: Sequence[Subscription]) -> Verdict:
        key_id: str = look.key_id
        is_active = await self._keys.is_active(transaction, key_id)
        verdict = decide(subscriptions, self._prices, key_is_active=is_active)
        account = await store.account_of_key(transaction, key_id)
        if account.look_applied >= look.looks:
            return structs.replace(verdict, superfluous=())
        if verdict.tier is None:
            log.error("a subscription's price is in no setting: the key stays as it is", key_id=key_id)
            later = clock.seconds() + SECONDS_PER_DAY
            await store.change_account(transaction, key_id, look_applied=look.looks, look_again_at=later)
            return verdict
        await self._move(transaction, account, verdict.tier, is_active=is_active)
        kept = _kept(account, verdict)
        await store.change_account(transaction, key_id, look_applied=look.looks, tier_given=verdict.tier, **kept)
        return verdict

    async def _move(self, transaction: Transaction, account: Any, tier: str, *, is_active: bool) -> None:
        # Only what changes at Stripe moves the key: the operator's `keys set-tier` stays until then.
        if tier != account.tier_given and is_active:
            await self._keys.set_tier(transaction, account.key_id, tier)
            log.info("a key changes its tier", key_id=account.key_id, tier=tier, former=account.tier_given)

    async def _cancel(self, subscription_id: str) -> None:
        try:
            await self._provider.cancel(subscription_id)
        except ProviderFailed as failure:
            if not failure.is_missing:
                raise


def _kept(account: Any, verdict: Verdict) -> dict[str, object]:
    """What the account remembers of the subscription that pays for it, and when it is looked at again."""
    holds = verdict.holds
    return {
        "subscription_id": holds.id if holds else None,
        "subscription_status": holds.status if holds else None,
        "price_id": verdict.price_id,
        "cancels_at_period_end": bool(holds and holds.cancels_at_period_end),
        "period_ends_at": holds.period_ends_at if holds else None,
        "look_again_at": _look_again_at(account, holds, clock.seconds()),
    }


def _look_again_at(account: Any, holds: Subscription | None, now: float) -> float | None:
    if holds is None:
        return now + LOOK_AFTER_SECONDS if (account.session_expires_at or 0) > now else None
    after_period = (holds.period_ends_at or now) + AFTER_PERIOD_SECONDS
    return after_period if now < after_period < now + SECONDS_PER_DAY else now + SECONDS_PER_DAY
