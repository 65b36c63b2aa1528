"""A process that delivers webhooks from one simulated moment to another, as fast as the work allows."""

import asyncio

from tollhouse.config.settings import Settings
from tollhouse.storage.database import open_database
from tollhouse.webhooks.webhooks import open_webhooks


def deliver(database_url: str, folder: str, start: float, stop: float, step: float) -> None:
    """Deliver what is due at `start`, at every `step` seconds after it, and at `stop` at the latest."""
    asyncio.run(
        _deliver(Settings(database_url=database_url, data_dir=folder, webhook_allow_loopback=True), start, stop, step)
    )


async def _deliver(settings: Settings, start: float, stop: float, step: float) -> None:
    database = open_database(settings)
    webhooks = open_webhooks(settings, database)
    now = start
    while now <= stop:
        await webhooks.deliver_due(now)
        now += step
    await webhooks.close()
    await database.close()
