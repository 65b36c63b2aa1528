"""The webhook room as the house uses it: one object, built from the settings and the database."""

import ssl
from collections.abc import Awaitable, Callable

from tollhouse.config.settings import Settings
from tollhouse.storage.database import Database
from tollhouse.webhooks.delivery.attempt import Sender
from tollhouse.webhooks.delivery.deliverer import Deliverer
from tollhouse.webhooks.delivery.fair_share import USUAL, Capacity
from tollhouse.webhooks.delivery.history import Deliveries
from tollhouse.webhooks.subscriptions import Subscriptions
from tollhouse.webhooks.target_validation import Resolve, Rules, SystemResolver
from tollhouse.webhooks.transport import VettedTransport

Close = Callable[[], Awaitable[None]]


class Webhooks:
    """Endpoints, the record of deliveries, and the loop that delivers. Events are put with `webhooks.outbox`."""

    def __init__(
        self, subscriptions: Subscriptions, deliveries: Deliveries, deliverer: Deliverer, close: Close
    ) -> None:
        self.subscriptions = subscriptions
        self.deliveries = deliveries
        self._deliverer = deliverer
        self._close = close

    async def deliver_for_ever(self) -> None:
        """The background leader's work: deliver what is due until cancelled."""
        await self._deliverer.deliver_for_ever()

    async def deliver_due_once(self, now: float | None = None) -> int:
        """Deliver all that is due at `now` (seconds since 1970, the present by default); how many attempts it took."""
        return await self._deliverer.deliver_due_once(now)

    async def close(self) -> None:
        """Close every connection to receivers."""
        await self._close()


def open_webhooks(
    settings: Settings,
    database: Database,
    *,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
    capacity: Capacity = USUAL,
) -> Webhooks:
    """The room. By default names are resolved and certificates trusted as this machine does."""
    rules = Rules(allow_loopback=settings.webhook_allow_loopback)
    machine = SystemResolver()
    transport = VettedTransport(rules, resolve or machine, tls)
    deliverer = Deliverer(database, Sender(transport, capacity.attempt_seconds), capacity)

    async def close() -> None:
        await transport.aclose()
        machine.close()

    return Webhooks(Subscriptions(database, rules, resolve or machine), Deliveries(database), deliverer, close)
