"""Plan resolution as a pure function: which of a customer's subscriptions decides."""

from decimal import Decimal

from tollhouse.accounts.plans import open_plans
from tollhouse.accounts.subscriptions.plan_resolution import Subscription, resolve_plan
from tollhouse.config.settings import PlanSettings, Settings

TEAM = PlanSettings(requests_per_minute=300, price_usd_month=Decimal(199))
PLANS = open_plans(Settings(plans={"team": TEAM}))
PRICES = {"price_pro": "pro", "price_team": "team", "price_ent": "enterprise"}


def subscription(id_: str, *price_ids: str, status: str = "active", created: int = 1) -> Subscription:
    return Subscription(id_, status, created, price_ids, True, False, None)


def resolve(*subscriptions: Subscription, key_is_active: bool = True):
    return resolve_plan(subscriptions, PRICES, PLANS, key_is_active=key_is_active)


def test_most_expensive_plan_of_one_subscription_decides():
    assert resolve(subscription("sub_1", "price_pro", "price_team")).tier == "team"
    assert resolve(subscription("sub_1", "price_ent", "price_team", "price_pro")).price_id == "price_ent"


def test_latest_paid_price_decides_while_a_payment_is_retried():
    assert resolve(subscription("sub_1", "price_pro", "price_ent", status="past_due")).tier == "pro"


def test_newest_subscription_decides_and_older_ones_are_superfluous():
    older, newer = subscription("sub_1", "price_ent"), subscription("sub_2", "price_team", created=2)
    resolution = resolve(older, newer)
    assert (resolution.tier, resolution.superfluous) == ("team", ("sub_1",))


def test_without_a_paid_subscription_the_default_plan_counts():
    assert resolve().tier == "free"
    assert resolve(subscription("sub_1", "price_ent", status="canceled")).tier == "free"
    assert resolve(subscription("sub_1", status="incomplete")).superfluous == ()


def test_unknown_price_of_our_subscription_resolves_to_no_plan():
    assert resolve(subscription("sub_1", "price_former")).tier is None


def test_all_subscriptions_of_a_revoked_key_are_superfluous():
    resolution = resolve(subscription("sub_1", "price_ent"), key_is_active=False)
    assert (resolution.tier, resolution.superfluous) == ("free", ("sub_1",))
