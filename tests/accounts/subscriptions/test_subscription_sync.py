"""Keys whose subscriptions live: whatever the order of the events, the key ends at what is paid for."""

import asyncio
import random
from typing import Any

import pytest

from tests.accounts.subscriptions.shop import Pauses, Shop

SEEDS = 32
BATCHES = 4


async def test_key_goes_from_free_to_pro_to_yearly_enterprise_and_back_to_free(shop):
    subscription = shop.stripe.pay((await shop.begin("price_pro")).session_id)
    assert await shop.tier() == "free"
    await shop.deliver()
    assert await shop.tier() == "pro"
    shop.stripe.change_plan(subscription, "price_ent_year")
    await shop.deliver()
    assert await shop.tier() == "enterprise"
    shop.stripe.renew(subscription, pays=False)
    await shop.deliver()
    assert await shop.tier() == "enterprise"
    shop.stripe.give_up(subscription, "canceled")
    await shop.deliver()
    assert await shop.tier() == "free"


@pytest.mark.parametrize("status", ["unpaid", "canceled"])
async def test_key_keeps_its_tier_while_a_payment_is_retried(shop, status):
    subscription = await shop.buy("price_pro")
    shop.stripe.renew(subscription, pays=False)
    await shop.deliver()
    assert (shop.stripe.status_of(subscription), await shop.tier()) == ("past_due", "pro")
    shop.stripe.give_up(subscription, status)
    await shop.deliver()
    assert await shop.tier() == "free"


async def test_payment_that_comes_late_brings_the_tier_back(shop):
    subscription = await shop.buy("price_pro")
    shop.stripe.renew(subscription, pays=False)
    shop.stripe.give_up(subscription, "unpaid")
    await shop.deliver()
    assert await shop.tier() == "free"
    shop.stripe.settle(subscription)
    await shop.deliver()
    assert await shop.tier() == "pro"


async def test_cancelled_subscription_keeps_the_tier_until_its_period_ends(shop):
    subscription = await shop.buy("price_pro")
    shop.stripe.cancel_at_period_end(subscription)
    await shop.deliver()
    assert await shop.tier() == "pro"
    shop.stripe.end(subscription)
    await shop.deliver()
    assert await shop.tier() == "free"


async def test_declined_first_payment_gives_nothing(small_shop):
    small_shop.stripe.pay((await small_shop.begin("price_pro")).session_id, pays=False)
    await small_shop.deliver()
    assert await small_shop.tier() == "free"


@pytest.mark.parametrize("told_before", [True, False])
async def test_upgrade_that_is_not_paid_gives_no_more_than_was_paid_for(small_shop, told_before):
    shop = small_shop
    subscription = shop.stripe.pay((await shop.begin("price_pro")).session_id)
    if told_before:
        await shop.deliver()
    shop.stripe.change_plan(subscription, "price_ent_year", pays=False)
    await shop.deliver()
    assert await shop.tier() == "pro"
    shop.stripe.settle(subscription)
    await shop.deliver()
    assert await shop.tier() == "enterprise"


async def test_downgrade_in_the_portal_gives_the_lower_tier(small_shop):
    subscription = await small_shop.buy("price_ent")
    small_shop.stripe.change_plan(subscription, "price_pro")
    await small_shop.deliver()
    assert await small_shop.tier() == "pro"
    small_shop.stripe.renew(subscription, pays=False)
    await small_shop.deliver()
    assert await small_shop.tier() == "pro"


async def test_second_purchase_replaces_the_first_so_that_nobody_pays_twice(shop):
    first = await shop.buy("price_pro")
    second = await shop.buy("price_ent_year")
    await shop.deliver()
    assert (shop.stripe.status_of(first), shop.stripe.status_of(second)) == ("canceled", "active")
    assert await shop.tier() == "enterprise"
    assert len(shop.stripe.customers) == 1


async def test_subscription_of_a_revoked_key_costs_no_more(shop):
    subscription = await shop.buy("price_pro")
    await shop.ring.revoke(shop.key.holder.key_id)
    shop.stripe.renew(subscription)
    await shop.deliver()
    assert shop.stripe.status_of(subscription) == "canceled"


async def test_rotated_key_keeps_what_is_paid_for(small_shop):
    await small_shop.buy("price_pro")
    rotated = await small_shop.ring.rotate(small_shop.key.holder.key_id, small_shop.key.text)
    assert await small_shop.tier(rotated) == "pro"


async def test_subscription_to_something_else_changes_nothing(small_shop):
    subscription = await small_shop.buy("price_pro")
    customer = small_shop.stripe.subscriptions[subscription]["customer"]
    other = {**small_shop.stripe.subscriptions[subscription], "id": "sub_other", "metadata": {}, "customer": customer}
    small_shop.stripe.subscriptions["sub_other"] = other
    small_shop.stripe._set_price(other, "price_else")
    small_shop.stripe.renew("sub_other")
    await small_shop.deliver()
    assert await small_shop.tier() == "pro"
    assert small_shop.stripe.status_of("sub_other") == "active"


async def test_price_taken_off_the_settings_takes_nothing_from_who_pays_it(small_shop):
    subscription = await small_shop.buy("price_pro")
    small_shop.stripe.change_plan(subscription, "price_else")
    await small_shop.deliver()
    assert await small_shop.tier() == "pro"
    small_shop.stripe.end(subscription)
    await small_shop.deliver()
    assert await small_shop.tier() == "free"


async def test_deleted_customer_pays_for_nothing_and_can_buy_again(shop):
    await shop.buy("price_pro")
    (customer,) = shop.stripe.customers
    shop.stripe.delete_customer(customer)
    await shop.deliver()
    assert await shop.tier() == "free"
    await shop.buy("price_ent")
    assert await shop.tier() == "enterprise"
    assert len(shop.stripe.customers) == 2


async def test_operators_set_tier_stays_until_the_subscription_itself_moves(shop):
    key_id = shop.key.holder.key_id
    subscription = await shop.buy("price_pro")
    events = list(shop.stripe.events)
    await shop.ring.set_tier(key_id, "enterprise")
    shop.stripe.renew(subscription)
    await shop.deliver()
    assert not any(await shop.deliver(events))
    assert await shop.tier() == "enterprise"
    await shop.ring.set_tier(key_id, "free")
    shop.stripe.renew(subscription, pays=False)
    await shop.deliver()
    assert await shop.tier() == "free"
    shop.stripe.settle(subscription)
    shop.stripe.change_plan(subscription, "price_ent")
    await shop.deliver()
    assert await shop.tier() == "enterprise"
    shop.stripe.end(subscription)
    await shop.deliver()
    assert await shop.tier() == "free"


async def test_look_that_answers_late_does_not_undo_a_later_one(shop):
    subscription = await shop.buy("price_pro")
    shop.stripe.renew(subscription)
    shop.stripe.jitter = Pauses([0.4])
    early = asyncio.ensure_future(shop.deliver_at_once(shop.new_events()[:1]))
    await shop.stripe.jitter.has_begun.wait()
    shop.stripe.change_plan(subscription, "price_ent")
    await shop.deliver_at_once(shop.new_events()[:1])
    assert await shop.tier() == "enterprise"
    assert not early.done()
    await early
    assert await shop.tier() == "enterprise"


@pytest.mark.parametrize("batch", range(BATCHES))
async def test_every_webhook_doubled_and_shuffled_ends_at_what_is_paid_for(shop, batch):
    ends = set()
    for seed in range(batch, SEEDS, BATCHES):
        chance = random.Random(seed)
        shop.key = await shop.ring.create(f"buyer{seed}@example.org", "free")
        ends.add(await _life(shop, chance, f"buyer{seed}@example.org"))
    assert ends == {"free", "pro", "enterprise"}


async def _life(shop: Shop, chance: random.Random, email: str) -> str:
    """A life of a key: events come twice, in any order, and while the subscription already moves on."""
    fake = shop.stripe
    price = chance.choice(["price_pro", "price_pro_year"])
    subscription = fake.pay((await shop.begin(price, email=email, address=email)).session_id)
    late, worth, is_over = shop.new_events(), "pro", False
    steps = chance.choices(["renew", "upgrade", "downgrade", "fail", "pay", "end", "unpaid"], k=chance.randint(1, 5))
    for number, step in enumerate(steps, start=1):
        chance.shuffle(late)
        now = len(late) if number == len(steps) else chance.randint(0, len(late))
        # One answer is on its way while the subscription moves on and newer answers overtake it.
        fake.jitter = Pauses([chance.random() / 4])
        first = shop.deliver_at_once(_doubled(late[:now]), workers=2)
        hearing = asyncio.gather(first, asyncio.sleep(0))
        await asyncio.sleep(chance.random() / 20)
        worth, is_over = _lived(fake, subscription, step, worth, is_over=is_over)
        fresh = shop.new_events()
        is_told_now = number == len(steps) or chance.random() < 0.5
        await asyncio.gather(hearing, shop.deliver_at_once(_doubled(fresh if is_told_now else []), workers=2))
        late = late[now:] + late[: now // 2] + ([] if is_told_now else fresh)
    assert await shop.tier() == ("free" if is_over else worth)
    return await shop.tier()


def _doubled(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events for _ in range(2)]


def _lived(fake, subscription: str, step: str, worth: str, *, is_over: bool) -> tuple[str, bool]:
    """What the key is worth after this step, and whether its subscription gives nothing."""
    status = fake.status_of(subscription)
    if status == "canceled":
        return worth, True
    if step in {"pay", "renew", "upgrade", "downgrade"} and status in {"past_due", "unpaid"}:
        fake.settle(subscription)
        status = "active"
    if step == "renew":
        fake.renew(subscription)
    elif step == "upgrade":
        fake.change_plan(subscription, "price_ent_year")
        return "enterprise", False
    elif step == "downgrade":
        fake.change_plan(subscription, "price_pro")
        return "pro", False
    elif step == "fail" and status == "active":
        fake.renew(subscription, pays=False)
    elif step == "end":
        fake.end(subscription)
        return worth, True
    elif step == "unpaid" and status == "past_due":
        fake.give_up(subscription, "unpaid")
        return worth, True
    return worth, fake.status_of(subscription) in {"unpaid", "canceled"}
