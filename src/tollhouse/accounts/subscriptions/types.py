"""The words of the checkout: subscriptions, sessions, events, and what the provider can be asked."""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from tollhouse.storage.database import Transaction


class Subscription(Struct, frozen=True):
    """A customer's subscription as the provider has it now.

    `bought` are the prices paid for, the deciding one first: those of its items while it is active, those of the last
    paid invoices while a payment is retried, none otherwise. `is_ours` says that this server's checkout made it.
    """

    id: str
    status: str
    created: int
    bought: tuple[str, ...]
    is_ours: bool
    cancels_at_period_end: bool
    period_ends_at: float | None


class Session(Struct, frozen=True):
    """A page at the provider where a key is paid for; moments are seconds since 1970."""

    id: str
    url: str
    is_open: bool
    expires_at: float


class StripeEventSummary(Struct, frozen=True):
    """An event the provider told of, its signature checked. `customer_id` is empty where it names none."""

    id: str
    type: str
    created: float
    customer_id: str


class CheckoutParams(Struct, frozen=True):
    """What is bought for which key, and where the buyer comes back to."""

    key_id: str
    customer_id: str
    price_id: str
    paid_url: str
    left_url: str


class ProviderFailed(Exception):
    """The provider gave no usable answer.

    `no-answer`: nobody knows whether it did what was asked. `failed`: it, or our account there, is in trouble.
    `refused`: it will not do this, for the reason `code`.
    """

    def __init__(self, how: Literal["no-answer", "failed", "refused"], code: str = "") -> None:
        super().__init__(f"{how} {code}".strip())
        self.how = how
        self.code = code

    @property
    def is_missing(self) -> bool:
        """Whether what was named does not exist there (any more)."""
        return self.code == "resource_missing"


class WebhookRefused(Exception):
    """A webhook's signature or moment will not do; the message may be shown to a stranger."""


class Provider(Protocol):
    """What is asked of the provider. Every question raises ProviderFailed; the same name makes a repeat harmless."""

    async def customer_named(self, key_id: str, email: str) -> str | None:
        """The customer that was made for this key, if there is one."""

    async def is_customer(self, customer_id: str) -> bool:
        """Whether there still is this customer."""

    async def create_customer(self, key_id: str, email: str, name: str) -> str:
        """A customer for this key, made once however often the same `name` is used."""

    async def create_session(self, order: CheckoutParams, name: str) -> Session:
        """A page where the order is paid, made once however often the same `name` is used."""

    async def session(self, session_id: str) -> Session:
        """The session as it is now."""

    async def expire(self, session_id: str) -> None:
        """Close a page that was not used."""

    async def subscriptions_of(self, customer_id: str) -> Sequence[Subscription]:
        """All subscriptions of a customer, ended ones too, as they are at this moment."""

    async def cancel(self, subscription_id: str) -> None:
        """End a subscription now; what was paid ahead becomes the customer's credit."""

    async def portal(self, customer_id: str, return_url: str) -> str:
        """Where the customer changes or ends what they pay, sees invoices and gives another card."""

    def read_webhook(self, raw: bytes, signature: str) -> StripeEventSummary:
        """The event in a webhook. Raises WebhookRefused."""


class Keys(Protocol):
    """The keys that are paid for, changed in the transaction of the checkout's own books."""

    async def is_active(self, transaction: Transaction, key_id: str) -> bool:
        """Whether the key opens anything."""

    async def set_tier(self, transaction: Transaction, key_id: str, tier: str) -> None:
        """Move the key to a tier once the transaction lands."""
