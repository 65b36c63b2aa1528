"""A server that sells upgrades, its Stripe account, and a key to upgrade."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.stripe import SECRET_KEY, SLOW_SECONDS, WEBHOOK_SECRET, Mode, Stripe, signed, stripe
from tollhouse.accounts.checkout_endpoints import CheckoutEndpoints, CheckoutRequest
from tollhouse.accounts.keys import KeyRing, NewKey, open_key_ring
from tollhouse.accounts.subscriptions.checkout_session import CheckoutPage
from tollhouse.accounts.subscriptions.stripe_client import StripeApi, Timeouts
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request
from tollhouse.http.request import HttpRequest
from tollhouse.http.terms import AddressCaller
from tollhouse.metering.meter import CounterMeter
from tollhouse.storage.counters_file import FileCounters
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate

# A busy machine is slow too.
PATIENT = Timeouts(attempt_seconds=20.0, call_seconds=20.0, retries=0)
IMPATIENT = Timeouts(attempt_seconds=20.0, call_seconds=SLOW_SECONDS / 3, retries=0)

EMAIL = "ada@example.org"
PUBLIC_URL = "https://tolls.example"
SOLD = {"price_pro": "pro", "price_pro_year": "pro", "price_ent": "enterprise", "price_ent_year": "enterprise"}


@dataclass
class Pauses:
    """How long each of the next responses takes; later ones take no time."""

    seconds: list[float]
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)

    def pause(self) -> float:
        self.has_begun.set()
        return self.seconds.pop(0) if self.seconds else 0.0


@dataclass
class Shop:
    settings: Settings
    database: Database
    ring: KeyRing
    meter: CounterMeter
    stripe: Stripe
    api: StripeApi
    endpoints: CheckoutEndpoints
    other_endpoints: CheckoutEndpoints
    key: NewKey
    events_seen: int = 0

    async def begin(self, price: str = "price_pro", **other: Any) -> CheckoutPage:
        key, address = other.pop("key", self.key), other.pop("address", "127.0.0.1")
        body = {"price_id": price, "email": EMAIL, "api_key": key.text, **other}
        return await self.endpoints.checkout(_request(CheckoutRequest(**body), address=address))

    async def buy(self, price: str = "price_pro") -> str:
        """Through the checkout, all webhooks delivered; the subscription's id."""
        subscription = self.stripe.pay((await self.begin(price)).session_id)
        await self.deliver()
        return subscription

    async def portal(self) -> str:
        return (await self.endpoints.portal(_request(None, caller=self.key.holder))).portal_url

    def trouble(self, mode: Mode) -> None:
        """From now on Stripe responds like this; `ok` ends it."""
        self.stripe.mode = mode
        self.api._timeouts = IMPATIENT if mode in {"slow", "lost"} else PATIENT

    def new_events(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        events = self.stripe.events[self.events_seen :]
        self.events_seen = len(self.stripe.events)
        return events

    async def deliver(self, events: Iterable[dict[str, Any]] | None = None) -> list[bool]:
        """One after the other; whether each was new."""
        return [(await self.send(event)).is_new for event in (self.new_events() if events is None else events)]

    async def deliver_at_once(self, events: Iterable[dict[str, Any]], workers: int = 1) -> None:
        """To so many workers in turn, which share nothing but the database."""
        receivers = cycle([self.endpoints, self.other_endpoints][:workers])
        await asyncio.gather(*(self.send(event, next(receivers)) for event in events))

    async def send(self, event: dict[str, Any], endpoints: CheckoutEndpoints | None = None) -> Any:
        return await self.webhook(*signed(event), endpoints)

    async def webhook(self, raw: bytes, signature: str, endpoints: CheckoutEndpoints | None = None) -> Any:
        headers = [(b"stripe-signature", signature.encode())] if signature else []
        scope = {"method": "POST", "path": "/api/stripe/webhook", "query_string": b"", "headers": headers}
        request = Request(None, raw, {}, None, "127.0.0.1", "application/json", HttpRequest(scope, _nothing))
        return await (endpoints or self.endpoints).webhook(request)

    async def tier(self, key: NewKey | None = None) -> str:
        """As a server sees it that has not seen the key before."""
        ring = await open_key_ring(self.database, "")
        return (await ring.holder((key or self.key).text)).tier


@asynccontextmanager
async def opened(database_url: str, folder: Path) -> AsyncIterator[Shop]:
    async with stripe() as fake:
        settings = Settings(
            public_url=PUBLIC_URL,
            database_url=database_url.replace("sqlite+aiosqlite", "sqlite"),
            data_dir=str(folder),
            stripe_secret_key=SECRET_KEY,
            stripe_webhook_secret=WEBHOOK_SECRET,
            stripe_api_base=fake.url,
            stripe_prices=SOLD,
        )
        database = open_database(settings)
        await migrate(database)
        ring = await open_key_ring(database, "")
        meter = CounterMeter(FileCounters(folder))
        api = StripeApi(settings, PATIENT)
        endpoints, other_endpoints = (CheckoutEndpoints(settings, database, ring, meter, api) for _ in range(2))
        try:
            key = await ring.create(EMAIL, "free")
            yield Shop(settings, database, ring, meter, fake, api, endpoints, other_endpoints, key)
        finally:
            await api.close()
            await meter.close()
            await database.close()


async def _nothing() -> Any:
    raise AssertionError("the body was read already")


async def refused(work: Any, code: str) -> Problem:
    with pytest.raises(Problem) as raised:
        await work
    assert raised.value.code == code
    return raised.value


def _request(body: Any, caller: Any = None, address: str = "127.0.0.1") -> Request[None, Any]:
    return Request(None, body, {}, caller or AddressCaller(address), address, "application/json")
