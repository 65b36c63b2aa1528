"""A sender of webhooks over each kind of database, and a receiver on loopback whose behavior a test sets."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from tests.fakes.receiver import Receiver, Told, receiver
from tollhouse.config.settings import Settings
from tollhouse.storage.database import Database
from tollhouse.webhooks import deliverer, outbox
from tollhouse.webhooks.schedule import Capacity
from tollhouse.webhooks.subscriptions import Endpoint, NewSecret
from tollhouse.webhooks.webhooks import Delivery, Webhooks, open_webhooks

# For attempts that nobody answers: the usual patience would be waited out.
IMPATIENT = Capacity(attempt_seconds=0.5)


class Sender:
    """The webhooks and their database, with what tests do again and again."""

    def __init__(self, database: Database, new_webhooks: Callable[..., Webhooks]) -> None:
        self.database = database
        self.new_webhooks = new_webhooks
        self.webhooks = new_webhooks()

    async def register(self, url: str, types: Sequence[str] = (), service: str = "mattress") -> NewSecret:
        target = await self.webhooks.subscriptions.validate(url)
        async with self.database.writing() as transaction:
            return await self.webhooks.subscriptions.add(transaction, service, target, "ada@example.org", types)

    async def put(self, number: object = 1, kind: str = "product.created", **options: Any) -> str:
        async with self.database.writing() as transaction:
            return await outbox.put(transaction, "mattress", kind, {"number": number}, f"prod_{number}", **options)

    async def deliveries(self, **options: Any) -> list[Delivery]:
        await self.webhooks.fan_out()
        return await self.webhooks.deliveries.newest(**options)

    async def endpoint(self, endpoint_id: str) -> Endpoint:
        found = await self.webhooks.subscriptions.find(endpoint_id)
        assert found is not None
        return found

    async def change(self, method: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        async with self.database.writing() as transaction:
            return await method(transaction, *arguments)


@pytest.fixture
async def sender(database, tmp_path) -> AsyncIterator[Sender]:
    opened = []

    def settings(loopback: bool) -> Settings:
        return Settings(data_dir=str(tmp_path), webhook_allow_loopback=loopback)

    def new_webhooks(**options: Any) -> Webhooks:
        loopback = options.pop("allow_loopback", True)
        opened.append(open_webhooks(settings(loopback), database, **options))
        return opened[-1]

    yield Sender(database, new_webhooks)
    for webhooks in opened:
        await webhooks.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop looks for due deliveries often, and waits for no attempt that hangs when it stops."""
    monkeypatch.setattr(deliverer, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(deliverer, "STOP_WITHIN_SECONDS", 0.05)


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


def is_signed(told: Told, secret: str) -> bool:
    """Whether one of the signatures is right for the time the headers say, however long ago that is."""
    moment = datetime.fromtimestamp(int(told.headers["webhook-timestamp"]), UTC)
    right = Webhook(secret).sign(told.id, moment, told.body.decode())
    return right in told.headers["webhook-signature"].split(" ")
