"""Calls to Stripe through its official SDK, with time limits and idempotency keys.

The SDK is an optional extra: it is imported when a client is made, so that this module imports without it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

from msgspec import Struct, structs

from tollhouse import clock
from tollhouse.accounts.subscriptions.plan_resolution import PAID_STATUSES, RETRIED_STATUS, Subscription
from tollhouse.config.settings import SettingError, Settings
from tollhouse.logs import logger

log = logger("accounts.subscriptions")

T = TypeVar("T")
R = TypeVar("R")

KEY_METADATA = "tollhouse_key"
"""Customers, checkout sessions and subscriptions carry the id of their API key under this metadata name."""

# A webhook is refused when its timestamp is further than this from now, in either direction.
TOLERANCE_SECONDS = 300
PAGE_SIZE = 100
INVOICES_READ = 12

_REQUIRED_SETTINGS = ("stripe_secret_key", "stripe_webhook_secret", "stripe_prices")


class StripeCallFailed(Exception):
    """A call to Stripe failed.

    `outcome` is `unknown` (no response: Stripe may have carried out the call), `failed` (Stripe or the account there
    has a problem) or `refused` (the request is invalid, for the reason `code`).
    """

    def __init__(self, outcome: Literal["unknown", "failed", "refused"], code: str = "") -> None:
        super().__init__(f"{outcome} {code}".strip())
        self.outcome = outcome
        self.code = code

    @property
    def is_missing(self) -> bool:
        """Whether an object named in the request does not exist at Stripe."""
        return self.code == "resource_missing"


class InvalidWebhook(Exception):
    """The signature, timestamp or body of a webhook is invalid. The message is safe to show to a stranger."""


class StripeEvent(Struct, frozen=True):
    """A verified webhook event. `customer_id` is empty where the event names no customer."""

    id: str
    type: str
    created: float
    customer_id: str


class Session(Struct, frozen=True):
    """A checkout session. `url` is empty unless it is open."""

    id: str
    url: str
    expires_at: float


class Timeouts(Struct, frozen=True):
    """Limits for one HTTP exchange and for one call with its retries.

    Stripe waits about ten seconds for the response to a webhook.
    """

    attempt_seconds: float = 4.0
    call_seconds: float = 8.0
    retries: int = 2


class StripeApi:
    """One Stripe account. Every call raises StripeCallFailed.

    A call that takes an `idempotency_key` has its effect once, however often it is repeated with that key.
    """

    def __init__(self, settings: Settings, timeouts: Timeouts | None = None) -> None:
        import stripe

        from tollhouse.accounts.subscriptions.stripe_transport import EventLoopClient

        self._timeouts = timeouts or Timeouts()
        self._http = EventLoopClient(self._timeouts.attempt_seconds)
        self._webhook_secret = settings.stripe_webhook_secret
        # Buyers return to the console's page about keys, which shows the status.
        self._return_url = f"{settings.root_url}/keys"
        self._client = stripe.StripeClient(
            settings.stripe_secret_key,
            base_addresses={"api": settings.stripe_api_base},
            http_client=self._http,
            max_network_retries=self._timeouts.retries,
        )

    async def close(self) -> None:
        await self._http.close_async()

    async def find_customer(self, key_id: str, email: str) -> str | None:
        """The id of the customer that was created for this key, or None."""
        request = self._client.v1.customers.list_async({"email": email, "limit": PAGE_SIZE})
        customers = await self._call(request, lambda listed: [(one.id, one.metadata) for one in listed.data])
        return next((id_ for id_, metadata in customers if getattr(metadata, KEY_METADATA, "") == key_id), None)

    async def customer_exists(self, customer_id: str) -> bool:
        try:
            request = self._client.v1.customers.retrieve_async(customer_id)
            return await self._call(request, lambda customer: not getattr(customer, "deleted", False))
        except StripeCallFailed as failure:
            if failure.is_missing:
                return False
            raise

    async def create_customer(self, key_id: str, email: str, idempotency_key: str) -> str:
        request = self._client.v1.customers.create_async(
            {"email": email, "metadata": {KEY_METADATA: key_id}}, {"idempotency_key": idempotency_key}
        )
        return await self._call(request, lambda customer: customer.id)

    async def create_session(self, key_id: str, customer_id: str, price_id: str, idempotency_key: str) -> Session:
        request = self._client.v1.checkout.sessions.create_async(
            {
                "mode": "subscription",
                "customer": customer_id,
                "client_reference_id": key_id,
                "line_items": [{"price": price_id, "quantity": 1}],
                "metadata": {KEY_METADATA: key_id},
                "subscription_data": {"metadata": {KEY_METADATA: key_id}},
                "success_url": f"{self._return_url}?status=paid",
                "cancel_url": f"{self._return_url}?status=cancelled",
            },
            {"idempotency_key": idempotency_key},
        )
        return await self._call(request, _read_session)

    async def session(self, session_id: str) -> Session:
        return await self._call(self._client.v1.checkout.sessions.retrieve_async(session_id), _read_session)

    async def expire_session(self, session_id: str) -> None:
        await self._call(self._client.v1.checkout.sessions.expire_async(session_id), _read_session)

    async def create_portal(self, customer_id: str) -> str:
        """The URL of a customer portal, valid for a short time."""
        request = self._client.v1.billing_portal.sessions.create_async(
            {"customer": customer_id, "return_url": self._return_url}
        )
        return await self._call(request, lambda portal: portal.url)

    async def subscriptions(self, customer_id: str) -> Sequence[Subscription]:
        """All subscriptions of a customer, ended ones included, as they are now. Empty for a deleted customer."""
        request = self._client.v1.subscriptions.list_async(
            {"customer": customer_id, "status": "all", "limit": PAGE_SIZE}
        )
        try:
            subscriptions = await self._call(request, lambda listed: [_read_subscription(one) for one in listed.data])
        except StripeCallFailed as failure:
            if failure.is_missing:
                return ()  # Stripe ends every subscription of a customer it deletes.
            raise
        return [
            structs.replace(one, price_ids=await self._paid_prices(one.id)) if one.status == RETRIED_STATUS else one
            for one in subscriptions
        ]

    async def cancel_subscription(self, subscription_id: str) -> None:
        """End a subscription now. The unused part of what was paid becomes the customer's credit."""
        request = self._client.v1.subscriptions.cancel_async(
            subscription_id,
            {"prorate": True, "invoice_now": True},
            {"idempotency_key": f"tollhouse-cancel-{subscription_id}"},
        )
        try:
            await self._call(request, lambda canceled: canceled.id)
        except StripeCallFailed as failure:
            if not failure.is_missing:
                raise

    def read_webhook(self, raw: bytes, signature: str) -> StripeEvent:
        """Verify the signature over the raw body and return the event. Raises InvalidWebhook."""
        import stripe

        try:
            event = stripe.Webhook.construct_event(raw, signature, self._webhook_secret, TOLERANCE_SECONDS)
            # The SDK refuses old timestamps only.
            signed_at = float(dict(part.split("=", 1) for part in signature.split(","))["t"])
            if signed_at > clock.seconds() + TOLERANCE_SECONDS:
                raise InvalidWebhook("The timestamp of `Stripe-Signature` is in the future.")
            subject = event.to_dict()["data"]["object"]
            customer = subject["id"] if subject.get("object") == "customer" else subject.get("customer")
            return StripeEvent(event.id, event.type, event.created, customer if isinstance(customer, str) else "")
        except stripe.SignatureVerificationError:
            raise InvalidWebhook("`Stripe-Signature` is missing, wrong or too old.") from None
        except (ValueError, AttributeError, KeyError, TypeError):  # not UTF-8, not JSON, not an event
            raise InvalidWebhook("The body must be a Stripe event.") from None

    async def _paid_prices(self, subscription_id: str) -> tuple[str, ...]:
        """The prices that the last invoices paid for, the latest first."""
        request = self._client.v1.invoices.list_async(
            {"subscription": subscription_id, "status": "paid", "limit": INVOICES_READ}
        )
        return await self._call(
            request, lambda listed: tuple(price_id for one in listed.data for price_id in _read_prices(one))
        )

    async def _call(self, request: Awaitable[T], read: Callable[[T], R]) -> R:
        import stripe

        try:
            async with asyncio.timeout(self._timeouts.call_seconds):
                return read(await request)
        except (TimeoutError, stripe.APIConnectionError) as error:
            log.warning("Stripe did not respond", error=type(error).__name__)
            raise StripeCallFailed("unknown") from None
        except stripe.StripeError as error:
            # Its message may contain the buyer's data; its codes and request id do not.
            log.warning(
                "Stripe returned an error",
                error=type(error).__name__,
                status=error.http_status,
                code=error.code,
                stripe_request_id=error.request_id,
            )
            is_refusal = isinstance(error, stripe.InvalidRequestError | stripe.IdempotencyError)
            raise StripeCallFailed("refused" if is_refusal else "failed", error.code or "") from None
        except (AttributeError, KeyError, TypeError) as error:
            log.warning("Stripe sent an unexpected response", error=str(error))
            raise StripeCallFailed("failed") from None


@asynccontextmanager
async def open_stripe(settings: Settings) -> AsyncIterator[StripeApi | None]:
    """Open the Stripe account of the settings, None where not configured. Raises SettingError without the SDK."""
    missing = missing_settings(settings)
    if missing:
        if len(missing) < len(_REQUIRED_SETTINGS):
            log.warning("Stripe checkout is disabled", settings_missing=missing)
        yield None
        return
    try:
        api = StripeApi(settings)
    except ModuleNotFoundError:
        raise SettingError("stripe_secret_key: needs the extra: pip install 'tollhouse[stripe]'") from None
    try:
        yield api
    finally:
        await api.close()


def missing_settings(settings: Settings) -> Sequence[str]:
    """The required settings that are empty. Checkout needs all: without webhooks a payment would go unnoticed."""
    return [name for name in _REQUIRED_SETTINGS if not getattr(settings, name)]


# The objects that these functions read are the SDK's, whose types are there only with the extra.


def _read_session(session: Any) -> Session:
    return Session(session.id, (session.url or "") if session.status == "open" else "", session.expires_at)


def _read_subscription(subscription: Any) -> Subscription:
    items = subscription.items.data
    return Subscription(
        id=subscription.id,
        status=subscription.status,
        created=subscription.created,
        price_ids=tuple(item.price.id for item in items) if subscription.status in PAID_STATUSES else (),
        is_ours=KEY_METADATA in subscription.metadata,
        cancels_at_period_end=subscription.cancel_at_period_end,
        period_ends_at=max((item.current_period_end for item in items), default=None),
    )


def _read_prices(invoice: Any) -> list[str]:
    """The prices an invoice paid for, the one that is paid furthest into the future first.

    A negative line credits the unused part of a former price.
    """
    lines = sorted(invoice.lines.data, key=lambda line: line.period.end, reverse=True)
    details = [line.pricing.price_details for line in lines if line.amount >= 0 and line.pricing]
    return [detail.price if isinstance(detail.price, str) else detail.price.id for detail in details if detail]
