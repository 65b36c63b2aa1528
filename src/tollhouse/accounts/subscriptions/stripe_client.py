"""Stripe, asked through its official SDK: bounded in time, every change under a name that makes a repeat harmless."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec
import stripe
from msgspec import Struct

from tollhouse import clock
from tollhouse.accounts.subscriptions.stripe_objects import (
    KEY_NAME,
    RETRIED,
    StripeCustomer,
    StripeEvent,
    StripeInvoice,
    StripeSession,
    StripeSubscription,
    parsed,
    prices_paid,
)
from tollhouse.accounts.subscriptions.stripe_transport import EventLoopClient
from tollhouse.accounts.subscriptions.types import (
    CheckoutParams,
    ProviderFailed,
    Session,
    StripeEventSummary,
    Subscription,
    WebhookRefused,
)
from tollhouse.logs import logger

log = logger("payments.checkout")

T = TypeVar("T")

# A webhook is refused this long after it was signed, and this long before its moment has come.
TOLERANCE_SECONDS = 300
LISTED = 100
INVOICES_READ = 12


class Bounds(Struct, frozen=True):
    """How long Stripe may take: for one exchange, and for one question with all its retries.

    Stripe itself waits about ten seconds for the answer to a webhook.
    """

    attempt_seconds: float = 4.0
    deadline_seconds: float = 8.0
    retries: int = 2


class StripeApi:
    """One account at Stripe. See Provider for what each question means."""

    def __init__(self, secret_key: str, webhook_secret: str, base_url: str, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._http = EventLoopClient(self._bounds.attempt_seconds)
        self._webhook_secret = webhook_secret
        self._client = stripe.StripeClient(
            secret_key,
            base_addresses={"api": base_url},
            http_client=self._http,
            max_network_retries=self._bounds.retries,
        )

    async def close(self) -> None:
        """Give every connection back."""
        await self._http.close_async()

    async def customer_named(self, key_id: str, email: str) -> str | None:
        listed = await self._asked(self._client.v1.customers.list_async({"email": email, "limit": LISTED}))
        customers = [parsed(StripeCustomer, one) for one in listed["data"]]
        return next((one.id for one in customers if one.metadata.get(KEY_NAME) == key_id), None)

    async def is_customer(self, customer_id: str) -> bool:
        try:
            found = await self._asked(self._client.v1.customers.retrieve_async(customer_id))
        except ProviderFailed as failure:
            if failure.is_missing:
                return False
            raise
        return not found.get("deleted", False)

    async def create_customer(self, key_id: str, email: str, name: str) -> str:
        work = self._client.v1.customers.create_async(
            {"email": email, "metadata": {KEY_NAME: key_id}}, {"idempotency_key": name}
        )
        return parsed(StripeCustomer, await self._asked(work)).id

    async def create_session(self, order: CheckoutParams, name: str) -> Session:
        work = self._client.v1.checkout.sessions.create_async(
            {
                "mode": "subscription",
                "customer": order.customer_id,
                "client_reference_id": order.key_id,
                "line_items": [{"price": order.price_id, "quantity": 1}],
                "metadata": {KEY_NAME: order.key_id},
                "subscription_data": {"metadata": {KEY_NAME: order.key_id}},
                "success_url": order.paid_url,
                "cancel_url": order.left_url,
            },
            {"idempotency_key": name},
        )
        return parsed(StripeSession, await self._asked(work)).seen()

    async def session(self, session_id: str) -> Session:
        return parsed(
            StripeSession, await self._asked(self._client.v1.checkout.sessions.retrieve_async(session_id))
        ).seen()

    async def expire(self, session_id: str) -> None:
        await self._asked(self._client.v1.checkout.sessions.expire_async(session_id))

    async def subscriptions_of(self, customer_id: str) -> Sequence[Subscription]:
        work = self._client.v1.subscriptions.list_async({"customer": customer_id, "status": "all", "limit": LISTED})
        found = [parsed(StripeSubscription, one) for one in (await self._asked(work))["data"]]
        return [one.seen(await self._prices_paid(one.id) if one.status == RETRIED else ()) for one in found]

    async def cancel(self, subscription_id: str) -> None:
        work = self._client.v1.subscriptions.cancel_async(
            subscription_id,
            {"prorate": True, "invoice_now": True},
            {"idempotency_key": f"tollhouse-cancel-{subscription_id}"},
        )
        await self._asked(work)

    async def portal(self, customer_id: str, return_url: str) -> str:
        work = self._client.v1.billing_portal.sessions.create_async({"customer": customer_id, "return_url": return_url})
        return str((await self._asked(work))["url"])

    def read_webhook(self, raw: bytes, signature: str) -> StripeEventSummary:
        try:
            self._client.construct_event(raw, signature, self._webhook_secret, TOLERANCE_SECONDS)
            # The SDK looks for moments too long ago only.
            if _signed_at(signature) > clock.seconds() + TOLERANCE_SECONDS:
                raise WebhookRefused("The signature's timestamp lies in the future.")
            return msgspec.json.decode(raw, type=StripeEvent).seen()
        except stripe.SignatureVerificationError:
            raise WebhookRefused("The `Stripe-Signature` is missing, wrong, or too old.") from None
        except (ValueError, AttributeError, msgspec.MsgspecError):  # no UTF-8, no JSON, no event
            raise WebhookRefused("The body is no event of Stripe's.") from None

    async def _prices_paid(self, subscription_id: str) -> list[str]:
        """The prices that were last paid for, the newest first."""
        work = self._client.v1.invoices.list_async(
            {
                "subscription": subscription_id,
                "status": "paid",
                "limit": INVOICES_READ,
            }
        )
        return prices_paid(parsed(StripeInvoice, one) for one in (await self._asked(work))["data"])

    async def _asked(self, work: Awaitable[stripe.StripeObject]) -> dict[str, Any]:
        """Stripe's answer. Raises ProviderFailed; what it says of the cause goes to the log."""
        try:
            async with asyncio.timeout(self._bounds.deadline_seconds):
                return (await work).to_dict()
        except (TimeoutError, stripe.APIConnectionError) as error:
            log.warning("Stripe did not answer", error=type(error).__name__)
            raise ProviderFailed("no-answer") from None
        except stripe.StripeError as error:
            raise _failure(error) from None


def _failure(error: stripe.StripeError) -> ProviderFailed:
    # Its message may name the buyer; its codes and the id of the request at Stripe do not.
    log.warning(
        "Stripe refused", error=type(error).__name__, status=error.http_status, code=error.code, at=error.request_id
    )
    is_refusal = isinstance(error, stripe.InvalidRequestError | stripe.IdempotencyError)
    return ProviderFailed("refused" if is_refusal else "failed", error.code or "")


def _signed_at(signature: str) -> float:
    """The moment in a `Stripe-Signature` that was found good."""
    parts = (part.partition("=") for part in signature.split(","))
    return float(next(value for name, _, value in parts if name == "t"))
