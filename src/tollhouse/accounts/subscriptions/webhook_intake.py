"""Events as webhooks bring them: those about one customer that come together are one reason to look.

One change at Stripe is several events, each of which may come twice, all within a moment. A storm of them costs one
look a customer at a time and few of the database's connections, so that it neither fails nor keeps others waiting.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from tollhouse import clock
from tollhouse.accounts.subscriptions import store
from tollhouse.accounts.subscriptions.types import StripeEventSummary
from tollhouse.storage.database import Database

LOOKS_AT_ONCE = 8

Look = Callable[[str], Awaitable[None]]


class _Gathering(Struct):
    """Events of one customer, by id, whose look has not begun; `done` tells the ids of those that were new."""

    events: dict[str, StripeEventSummary]
    done: asyncio.Task[frozenset[str]]


class Hearing:
    """What is done about events; `look` brings a key to what is paid for, and may raise ProviderFailed."""

    def __init__(self, database: Database, look: Look) -> None:
        self._database = database
        self._look = look
        self._gatherings: dict[str, _Gathering] = {}
        self._turns = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def hear(self, event: StripeEventSummary) -> bool:
        """Act on an event; False when that was done before. Raises ProviderFailed, and the event may be sent again."""
        gathering = self._gatherings.get(event.customer_id)
        if gathering is None:
            events: dict[str, StripeEventSummary] = {}
            gathering = _Gathering(events, asyncio.create_task(self._act(event.customer_id, events)))
            self._gatherings[event.customer_id] = gathering
        gathering.events[event.id] = event
        # Whoever brought it may hang up; the look is for all that were gathered.
        return event.id in await asyncio.shield(gathering.done)

    async def _act(self, customer_id: str, events: Mapping[str, StripeEventSummary]) -> frozenset[str]:
        async with self._turns:
            # Before the look takes its number: what changes from here on, it may miss.
            del self._gatherings[customer_id]
            async with self._database.reading() as connection:
                known = await store.heard_among(connection, events)
                key_id = await store.key_of_customer(connection, customer_id) if customer_id else None
            new = [event for event in events.values() if event.id not in known]
            if new and key_id is not None:
                await self._look(key_id)
            await self._remember(new)
            return frozenset(event.id for event in new)

    async def _remember(self, events: list[StripeEventSummary]) -> None:
        """Keep what was done; only now: after a crash on the way here, Stripe sends the events again."""
        if not events:
            return
        heard_at = clock.seconds()
        async with self._database.writing() as transaction:
            for event in events:
                await store.keep_event(
                    transaction, id=event.id, type=event.type[:100], created=event.created, heard_at=heard_at
                )
