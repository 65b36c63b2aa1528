"""Endpoints under /api/stripe: checkout, customer portal and Stripe's webhook."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct, to_builtins

from tollhouse.accounts import store as key_store
from tollhouse.accounts.keys import KeyRing
from tollhouse.accounts.plans import open_plans
from tollhouse.accounts.subscriptions.checkout_session import Checkout, CheckoutPage
from tollhouse.accounts.subscriptions.stripe_client import InvalidWebhook, StripeApi, StripeCallFailed, missing_settings
from tollhouse.accounts.subscriptions.subscription_sync import SubscriptionSync
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Example, Request, endpoint
from tollhouse.http.terms import FREE, KEY_UNMETERED, KeyCaller
from tollhouse.metering.address_budget import count_or_refuse
from tollhouse.metering.meter import Meter, Windows
from tollhouse.storage.database import Database

# Each checkout makes several calls to Stripe.
CHECKOUTS_PER_ADDRESS_PER_MINUTE = 60
RETRY_SECONDS = 5


class CheckoutRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/stripe/checkout`."""

    price_id: Annotated[
        str, Meta(max_length=255, description="One of the prices this server sells", examples=["price_pro_month"])
    ]
    email: Annotated[str, Meta(max_length=254, description="The email address of the key, in any case")]
    api_key: Annotated[str, Meta(max_length=100, description="The key to upgrade")]


class PortalOpened(Struct, frozen=True):
    """Where to change or cancel the subscription, see invoices and replace the card. Valid for a short time."""

    portal_url: str


class WebhookReceived(Struct, frozen=True):
    """Stripe need not send the event again. `is_new` is false for an event that was processed before."""

    received: Literal[True]
    is_new: bool


_EXAMPLE_REQUEST = {
    "price_id": "price_pro_month",
    "email": "ada@example.org",
    "api_key": "th_live_0000000000000000000000000000000000",
}
_EXAMPLE_PAGE = to_builtins(CheckoutPage("https://checkout.stripe.com/c/pay/cs_live_a1b2c3", "cs_live_a1b2c3"))

_endpoint = partial(endpoint, "POST", terms=FREE, tag="keys")


class CheckoutEndpoints:
    """Handlers of checkout, portal and webhook. `api` is None where Stripe is not configured."""

    def __init__(
        self, settings: Settings, database: Database, keys: KeyRing, meter: Meter, api: StripeApi | None
    ) -> None:
        self._settings = settings
        self._database = database
        self._keys = keys
        self._meter = meter
        self._api = api
        self._per_address = Windows(None, CHECKOUTS_PER_ADDRESS_PER_MINUTE)
        if api is not None:
            plans = open_plans(settings)
            self._checkout = Checkout(api, database, plans.default.name)
            self._sync = SubscriptionSync(api, database, settings.stripe_prices, plans)

    @_endpoint(
        "/api/stripe/checkout",
        id="beginCheckout",
        problems=("already-subscribed", "rate-limited", "upstream-unavailable", "not-configured"),
        examples={"body": _EXAMPLE_REQUEST, JSON: _EXAMPLE_PAGE},
        sample=Example(body={"price_id": "$PRICE_ID", "email": "$EMAIL", "api_key": "$TOLLHOUSE_KEY"}),
    )
    async def checkout(self, request: Request[None, CheckoutRequest]) -> CheckoutPage:
        """Upgrade a key.

        Returns the URL of a Stripe page where the price is paid. The key moves to the price's tier when the
        payment succeeds, and back to the default plan when the subscription ends.
        """
        self._require_stripe()
        await self._count(request.address)
        body = request.body
        email = body.email.strip().casefold()
        try:
            holder = await self._keys.holder(body.api_key)
        except Problem as problem:
            if problem.code == "invalid-key":
                raise Problem("invalid-body", f"`api_key`: {problem.detail}", parameter="api_key") from None
            raise
        async with self._database.reading() as connection:
            key = await key_store.key_by_id(connection, holder.key_id)
        if key.email != email:
            raise Problem("invalid-body", "`email` must be the email address of this key.", parameter="email")
        if body.price_id not in self._settings.stripe_prices:
            allowed = sorted(self._settings.stripe_prices)
            raise Problem(
                "invalid-body", "`price_id` must be a price of this server.", parameter="price_id", allowed=allowed
            )
        async with _stripe_failures():
            return await self._checkout.open_page(holder.key_id, email, body.price_id)

    @_endpoint(
        "/api/stripe/portal",
        id="openPortal",
        terms=KEY_UNMETERED,
        problems=("not-found", "rate-limited", "upstream-unavailable", "not-configured"),
        examples={JSON: {"portal_url": "https://billing.stripe.com/p/session/live_YWNjdF8x"}},
    )
    async def portal(self, request: Request[None, None]) -> PortalOpened:
        """Change or cancel the subscription of a key.

        Returns the URL of the Stripe customer portal: plan, card, invoices, cancellation.
        """
        self._require_stripe()
        await self._count(request.address)
        assert isinstance(request.caller, KeyCaller), "the terms admit keys only"
        async with _stripe_failures():
            return PortalOpened(await self._checkout.open_portal(request.caller.key_id))

    @_endpoint(
        "/api/stripe/webhook",
        id="receiveStripeEvent",
        takes_bytes=True,
        problems=("invalid-webhook", "payload-too-large", "request-timeout", "upstream-unavailable", "not-configured"),
        examples={JSON: {"received": True, "is_new": True}},
        sample=Example(body="$STRIPE_EVENT", headers={"Stripe-Signature": "$STRIPE_SIGNATURE"}),
    )
    async def webhook(self, request: Request[None, bytes]) -> WebhookReceived:
        """Receive a Stripe event.

        For Stripe only: the event must carry Stripe's signature. Each event is processed once; the order does
        not matter.
        """
        api = self._require_stripe()
        try:
            event = api.read_webhook(request.body, request.over_http.header(b"stripe-signature"))
        except InvalidWebhook as invalid:
            raise Problem("invalid-webhook", str(invalid)) from None
        async with _stripe_failures():
            return WebhookReceived(received=True, is_new=await self._sync.handle(event))

    async def monitor(self) -> None:
        """Leader task: notice changes of subscriptions that no webhook reported."""
        await self._sync.monitor()

    def _require_stripe(self) -> StripeApi:
        if self._api is None:
            missing = ", ".join(missing_settings(self._settings))
            raise Problem("not-configured", "Stripe is not configured on this server.", setting=missing)
        return self._api

    async def _count(self, address: str) -> None:
        await count_or_refuse(self._meter, "checkout", address, self._per_address, "checkouts")


@asynccontextmanager
async def _stripe_failures() -> AsyncIterator[None]:
    """Turn failed calls to Stripe into a 502."""
    try:
        yield
    except StripeCallFailed:
        raise Problem(
            "upstream-unavailable",
            "Stripe is not available. Nothing was charged. Try again shortly.",
            upstream="stripe",
            retry_after_seconds=RETRY_SECONDS,
        ) from None
