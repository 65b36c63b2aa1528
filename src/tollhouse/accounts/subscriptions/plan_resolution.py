"""Which tier a customer's subscriptions pay for: a pure decision over what the provider has at one moment."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tollhouse.accounts.subscriptions.types import Subscription

_ENDED = frozenset({"canceled", "incomplete_expired"})
# A first payment that is not through yet: it becomes active, or ends by itself within a day.
_NOT_BEGUN = frozenset({"incomplete"})


class Verdict(Struct, frozen=True):
    """`tier` is what is paid for; None where a subscription of ours has a price that no setting names any more.

    `holds` is the subscription that pays for it, by `price_id`; `superfluous` are those that should stop costing money.
    """

    tier: str | None
    holds: Subscription | None
    price_id: str | None
    superfluous: tuple[str, ...]


def decide(subscriptions: Sequence[Subscription], prices: Mapping[str, str], *, key_is_active: bool) -> Verdict:
    """The newest subscription that pays for a tier counts, and replaces older ones: nobody pays twice for one key.

    A key that opens nothing any more (revoked) is worth nothing, so all of its subscriptions are superfluous.
    """
    running = [one for one in subscriptions if one.status not in _ENDED]
    ours = [one for one in running if one.is_ours or _tier(one, prices)]
    if not key_is_active:
        return Verdict("free", None, None, tuple(one.id for one in ours))
    paying = sorted((one for one in ours if _tier(one, prices)), key=_age)
    if paying:
        holds = paying[-1]
        older = [one.id for one in ours if _age(one) < _age(holds) and one.status not in _NOT_BEGUN]
        return Verdict(_tier(holds, prices), holds, _price(holds, prices), tuple(older))
    is_unclear = any(one.bought for one in ours)
    return Verdict(None if is_unclear else "free", None, None, ())


def _tier(subscription: Subscription, prices: Mapping[str, str]) -> str | None:
    price = _price(subscription, prices)
    return None if price is None else prices[price]


def _price(subscription: Subscription, prices: Mapping[str, str]) -> str | None:
    return next((price for price in subscription.bought if price in prices), None)


def _age(subscription: Subscription) -> tuple[int, str]:
    return subscription.created, subscription.id
