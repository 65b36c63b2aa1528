"""Which plan a customer's subscriptions pay for: a pure function of Stripe's current state."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tollhouse.accounts.plans import Plans

PAID_STATUSES = frozenset({"active", "trialing"})
# Stripe retries the payment of the last invoice.
RETRIED_STATUS = "past_due"
_ENDED_STATUSES = frozenset({"canceled", "incomplete_expired"})
# The first payment is not complete: the subscription becomes active, or expires within a day.
_INCOMPLETE_STATUS = "incomplete"


class Subscription(Struct, frozen=True):
    """A customer's subscription as Stripe has it now.

    `price_ids` are the prices that are paid: those of its items while it is active, those of the last paid invoices
    while a payment is retried (the latest first), none otherwise. `is_ours`: this server's checkout created it.
    """

    id: str
    status: str
    created: int
    price_ids: tuple[str, ...]
    is_ours: bool
    cancels_at_period_end: bool
    period_ends_at: float | None


class Resolution(Struct, frozen=True):
    """`tier` is what is paid for; None if a subscription of ours has a price that no setting names.

    `subscription` pays for it, by `price_id`. `superfluous` are the ids of subscriptions to cancel.
    """

    tier: str | None
    subscription: Subscription | None
    price_id: str | None
    superfluous: tuple[str, ...]


def resolve_plan(
    subscriptions: Sequence[Subscription], prices: Mapping[str, str], plans: Plans, *, key_is_active: bool
) -> Resolution:
    """Resolve to the newest subscription that pays for a plan. It replaces older ones: no key is paid twice.

    All subscriptions of a revoked key are superfluous.
    """
    ours = [
        one
        for one in subscriptions
        if one.status not in _ENDED_STATUSES and (one.is_ours or _deciding_price(one, prices, plans))
    ]
    if not key_is_active:
        return Resolution(plans.default.name, None, None, tuple(one.id for one in ours))
    newest_first = sorted(ours, key=lambda one: (one.created, one.id), reverse=True)
    for rank, subscription in enumerate(newest_first):
        price_id = _deciding_price(subscription, prices, plans)
        if price_id is not None:
            older = [one.id for one in newest_first[rank + 1 :] if one.status != _INCOMPLETE_STATUS]
            return Resolution(prices[price_id], subscription, price_id, tuple(older))
    has_unknown_price = any(one.price_ids for one in ours)
    return Resolution(None if has_unknown_price else plans.default.name, None, None, ())


def _deciding_price(subscription: Subscription, prices: Mapping[str, str], plans: Plans) -> str | None:
    """The price that decides the plan: the most expensive plan's of an active subscription, else the latest paid."""
    sold = [price_id for price_id in subscription.price_ids if price_id in prices]
    if subscription.status == RETRIED_STATUS:
        return next(iter(sold), None)
    return max(sold, key=lambda price_id: plans.names.index(prices[price_id]), default=None)
