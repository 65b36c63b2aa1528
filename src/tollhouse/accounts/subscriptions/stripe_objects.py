"""Stripe's objects, read strictly down to what the checkout needs of them."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from tollhouse.accounts.subscriptions.types import ProviderFailed, Session, StripeEventSummary, Subscription

T = TypeVar("T")

KEY_NAME = "tollhouse_key"
"""The name under which customers, sessions and subscriptions carry the id of the key they are for."""

RETRIED = "past_due"

_PAID_FOR = frozenset({"active", "trialing"})


class _Price(Struct):
    id: str


class _Item(Struct):
    price: _Price
    current_period_end: float | None = None


class _Items(Struct):
    data: list[_Item]


class StripeSubscription(Struct):
    """https://docs.stripe.com/api/subscriptions/object; older API versions tell one period's end for all items."""

    id: str
    status: str
    created: int
    items: _Items
    cancel_at_period_end: bool = False
    current_period_end: float | None = None
    metadata: dict[str, str] = {}

    def seen(self, paid_prices: Sequence[str]) -> Subscription:
        """As the checkout speaks of it; `paid_prices` count while a payment is retried."""
        bought = [item.price.id for item in self.items.data] if self.status in _PAID_FOR else paid_prices
        ends = [item.current_period_end for item in self.items.data if item.current_period_end is not None]
        return Subscription(
            id=self.id,
            status=self.status,
            created=self.created,
            bought=tuple(bought),
            is_ours=KEY_NAME in self.metadata,
            cancels_at_period_end=self.cancel_at_period_end,
            period_ends_at=max(ends, default=self.current_period_end),
        )


class _PriceDetails(Struct):
    price: str | None = None


class _Pricing(Struct):
    price_details: _PriceDetails | None = None


class _Period(Struct):
    end: float


class _Line(Struct):
    amount: int
    period: _Period
    pricing: _Pricing | None = None

    @property
    def price(self) -> str | None:
        return self.pricing.price_details.price if self.pricing and self.pricing.price_details else None


class _Lines(Struct):
    data: list[_Line]


class StripeInvoice(Struct):
    """https://docs.stripe.com/api/invoices/object."""

    lines: _Lines


class StripeSession(Struct):
    """https://docs.stripe.com/api/checkout/sessions/object; a session that is over has no url."""

    id: str
    expires_at: float
    status: str | None = None
    url: str | None = None

    def seen(self) -> Session:
        """As the checkout speaks of it."""
        return Session(self.id, self.url or "", self.status == "open" and bool(self.url), self.expires_at)


class StripeCustomer(Struct):
    """https://docs.stripe.com/api/customers/object."""

    id: str
    metadata: dict[str, str] = {}


class _EventObject(Struct):
    object: str = ""
    id: str = ""
    customer: str | dict[str, Any] | None = None


class _EventData(Struct):
    object: _EventObject


class StripeEvent(Struct):
    """https://docs.stripe.com/api/events/object: an event is a reason to look, so only whom it is about matters."""

    id: str
    type: str
    created: float
    data: _EventData

    def seen(self) -> StripeEventSummary:
        """As the checkout speaks of it."""
        told = self.data.object
        customer = told.id if told.object == "customer" else told.customer
        return StripeEventSummary(self.id, self.type, self.created, customer if isinstance(customer, str) else "")


def prices_paid(invoices: Iterable[StripeInvoice]) -> list[str]:
    """The prices of paid invoices, newest invoice first, and in each what reaches furthest first.

    A change of plan also gives back what was not used of the former one: a negative line, which buys nothing.
    """
    prices = []
    for invoice in invoices:
        lines = sorted(invoice.lines.data, key=lambda line: line.period.end, reverse=True)
        prices += [line.price for line in lines if line.amount >= 0 and line.price]
    return prices


def parsed(kind: type[T], answer: dict[str, Any]) -> T:
    """Stripe's answer as this kind. Raises ProviderFailed."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ProviderFailed("failed", f"an answer that is no {kind.__name__}: {error}") from None
