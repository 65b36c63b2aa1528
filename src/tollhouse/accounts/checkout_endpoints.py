"""Where a key is upgraded: the way to the checkout, to the customer's portal, and what Stripe tells us."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tollhouse.accounts import store as key_store
from tollhouse.accounts.keys import KeyRing
from tollhouse.accounts.subscriptions.checkout_session import Buying, Returning
from tollhouse.accounts.subscriptions.factory import settings_missing
from tollhouse.accounts.subscriptions.subscription_sync import Following
from tollhouse.accounts.subscriptions.types import Provider, ProviderFailed, WebhookRefused
from tollhouse.accounts.subscriptions.webhook_intake import Hearing
from tollhouse.caller import KeyCaller
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Endpoint, Example, Request
from tollhouse.http.terms import FREE, KEY_UNMETERED
from tollhouse.metering.meter import Meter
from tollhouse.metering.rate_limit import count_or_refuse
from tollhouse.metering.windows import Windows
from tollhouse.storage.database import Database, Transaction

SECONDS_PER_MINUTE = 60
# Each way to the checkout asks Stripe several questions.
CHECKOUTS_PER_ADDRESS_PER_MINUTE = 60
RETRY_SECONDS = 5


class CheckoutRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/stripe/checkout`."""

    price_id: Annotated[
        str, Meta(max_length=255, description="One of the prices this server sells", examples=["price_pro_month"])
    ]
    email: Annotated[str, Meta(max_length=254, description="The email the key was made for, in any case")]
    api_key: Annotated[str, Meta(max_length=100, description="The key to upgrade")]


class CheckoutBegun(Struct, frozen=True):
    """Where to pay. The key changes its tier once Stripe says that the payment went through."""

    checkout_url: str
    session_id: str


class PortalOpened(Struct, frozen=True):
    """Where to change or end the subscription, see invoices and give another card. Good for a short while."""

    portal_url: str


class WebhookReceived(Struct, frozen=True):
    """The event needs not be sent again; `is_new` is false for one that was heard before."""

    received: Literal[True]
    is_new: bool


class KeysOnFile:
    """The keys, moved in a transaction of the checkout's; key rings see it within a second, as any other change."""

    async def is_active(self, transaction: Transaction, key_id: str) -> bool:
        """Whether the key was not revoked."""
        row = await key_store.key_by_id(transaction, key_id)
        return row is not None and row.revoked_at is None

    async def set_tier(self, transaction: Transaction, key_id: str, tier: str) -> None:
        """Move the key."""
        await key_store.change_key(transaction, key_id, tier=tier)


class CheckoutEndpoints:
    """The operations under `/api/stripe`. `provider` is None where nothing is sold."""

    def __init__(
        self, settings: Settings, database: Database, keys: KeyRing, meter: Meter, provider: Provider | None
    ) -> None:
        self._settings = settings
        self._database = database
        self._keys = keys
        self._meter = meter
        self._provider = provider
        self._per_address = Windows(None, CHECKOUTS_PER_ADDRESS_PER_MINUTE, SECONDS_PER_MINUTE)
        if provider is not None:
            self._buying = Buying(provider, database, _returning(settings))
            self._following = Following(provider, database, settings.stripe_prices, KeysOnFile())
            self._hearing = Hearing(database, self._following.look)

    async def checkout(self, request: Request[None, CheckoutRequest]) -> CheckoutBegun:
        """Lead to where the key is paid for. Raises Problem for a body that fits no key or price, and Stripe's."""
        self._open()
        await self._count(request.address)
        body = request.body
        holder = await self._holder(body)
        if body.price_id not in self._settings.stripe_prices:
            allowed = sorted(self._settings.stripe_prices)
            raise Problem(
                "invalid-body", "`price_id` is no price of this server.", parameter="price_id", allowed=allowed
            )
        async with _stripe_asked():
            session = await self._buying.begin(holder.key_id, body.email.strip().casefold(), body.price_id)
        return CheckoutBegun(session.url, session.id)

    async def portal(self, request: Request[None, None]) -> PortalOpened:
        """Lead to the customer's portal. Raises Problem `not-found` for a key that never was at the checkout."""
        self._open()
        await self._count(request.address)
        assert isinstance(request.caller, KeyCaller), "the terms let nobody else in"
        async with _stripe_asked():
            return PortalOpened(await self._buying.portal(request.caller.key_id))

    async def webhook(self, request: Request[None, bytes]) -> WebhookReceived:
        """Act on what Stripe tells; its signature is over the body as it came.

        Raises Problem `invalid-webhook`, or `upstream-unavailable`, after which Stripe sends the event again.
        """
        provider = self._open()
        try:
            event = provider.read_webhook(request.body, _signature(request))
        except WebhookRefused as refusal:
            raise Problem("invalid-webhook", str(refusal)) from None
        async with _stripe_asked():
            return WebhookReceived(received=True, is_new=await self._hearing.hear(event))

    async def watch(self) -> None:
        """Notice for ever what no webhook told, where something is sold."""
        await self._following.watch()

    def _open(self) -> Provider:
        if self._provider is None:
            missing = ", ".join(settings_missing(self._settings))
            detail = "This server sells no upgrades: its operator has not set up Stripe."
            raise Problem("not-configured", detail, setting=missing)
        return self._provider

    async def _holder(self, body: CheckoutRequest) -> KeyCaller:
        try:
            holder = await self._keys.holder(body.api_key)
        except Problem as problem:
            if problem.code == "invalid-key":
                raise Problem("invalid-body", f"`api_key`: {problem.detail}", parameter="api_key") from None
            raise
        async with self._database.reading() as connection:
            row = await key_store.key_by_id(connection, holder.key_id)
        if row.email != body.email.strip().casefold():
            raise Problem("invalid-body", "`email` is not the one this key was made for.", parameter="email")
        return holder

    async def _count(self, address: str) -> None:
        await count_or_refuse(self._meter, f"checkout:{address}", self._per_address, "checkouts")


def checkout_operations(desk: CheckoutEndpoints) -> Sequence[Endpoint]:
    """What a key's holder calls, and what Stripe calls."""
    return [
        Endpoint(
            id="beginCheckout",
            method="POST",
            path="/api/stripe/checkout",
            summary="Upgrade a key",
            description="Answers the address of a page of Stripe's where the price is paid. The key moves to the "
            "price's tier when the payment went through, and back to free when the subscription ends.",
            handler=desk.checkout,
            terms=FREE,
            body=CheckoutRequest,
            responses={JSON: CheckoutBegun},
            problems=("already-subscribed", "rate-limited", "upstream-unavailable", "not-configured"),
            tag="keys",
            examples={"body": _EXAMPLE_REQUEST, JSON: _EXAMPLE_BEGUN},
            sample=Example(body={"price_id": "$PRICE_ID", "email": "$EMAIL", "api_key": "$TOLLHOUSE_KEY"}),
        ),
        Endpoint(
            id="openPortal",
            method="POST",
            path="/api/stripe/portal",
            summary="Change or end what is paid for the key",
            description="Answers the address of the customer's portal at Stripe: plan, card, invoices, end.",
            handler=desk.portal,
            terms=KEY_UNMETERED,
            responses={JSON: PortalOpened},
            problems=("not-found", "rate-limited", "upstream-unavailable", "not-configured"),
            tag="keys",
            examples={JSON: {"portal_url": "https://billing.stripe.com/p/session/live_YWNjdF8x"}},
        ),
        Endpoint(
            id="hearStripe",
            method="POST",
            path="/api/stripe/webhook",
            summary="What Stripe tells",
            description="For Stripe alone: the event must carry its signature. Each is acted on once, in any order.",
            handler=desk.webhook,
            terms=FREE,
            takes_bytes=True,
            responses={JSON: WebhookReceived},
            problems=(
                "invalid-webhook",
                "payload-too-large",
                "request-timeout",
                "upstream-unavailable",
                "not-configured",
            ),
            tag="keys",
            examples={JSON: {"received": True, "is_new": True}},
            sample=Example(body="$STRIPE_EVENT", headers={"Stripe-Signature": "$STRIPE_SIGNATURE"}),
        ),
    ]


_EXAMPLE_REQUEST = {
    "price_id": "price_pro_month",
    "email": "ada@example.org",
    "api_key": "th_live_0000000000000000000000000000000000",
}
_EXAMPLE_BEGUN = {
    "checkout_url": "https://checkout.stripe.com/c/pay/cs_live_a1b2c3",
    "session_id": "cs_live_a1b2c3",
}


@asynccontextmanager
async def _stripe_asked() -> AsyncIterator[None]:
    """Stripe's failures as the caller sees them."""
    try:
        yield
    except ProviderFailed:
        raise Problem(
            "upstream-unavailable",
            "Stripe did not answer as it should. Nothing was charged; try again shortly.",
            headers={"Retry-After": str(RETRY_SECONDS)},
            upstream="stripe",
            retry_after_seconds=RETRY_SECONDS,
        ) from None


def _signature(request: Request[None, bytes]) -> str:
    assert request.http is not None, "what came over HTTP has headers"
    return request.http.header(b"stripe-signature")


def _returning(settings: Settings) -> Returning:
    """The console's page about keys, which buyers come back to; the page says what became of it."""
    keys = f"{settings.root_url}/keys"
    return Returning(paid_url=f"{keys}?status=paid", left_url=f"{keys}?status=cancelled", portal_url=keys)
