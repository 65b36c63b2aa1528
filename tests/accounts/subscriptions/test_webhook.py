"""What is believed of what comes as a webhook, and that nothing is done twice or lost."""

import asyncio
import sys
import time

import pytest

from tests.accounts.subscriptions.shop import Pauses, refused
from tests.fakes.stripe import signed
from tollhouse.accounts.checkout_endpoints import CheckoutEndpoints
from tollhouse.accounts.plans import open_plans
from tollhouse.accounts.subscriptions.stripe_client import open_stripe
from tollhouse.config.loader import load, masked
from tollhouse.config.settings import SettingError, Settings

pytestmark = pytest.mark.both_databases


async def paid(shop):
    """The event that tells of a payment, not told yet."""
    shop.stripe.pay((await shop.begin()).session_id)
    return next(event for event in shop.new_events() if event["type"] == "checkout.session.completed")


async def test_event_is_acted_on_once(shop):
    event = await paid(shop)
    assert [answer.is_new for answer in (await shop.send(event), await shop.send(event))] == [True, False]
    asked = len(shop.stripe.asked)
    await shop.send(event)
    assert len(shop.stripe.asked) == asked
    assert await shop.tier() == "pro"


async def test_forged_old_and_future_webhooks_are_refused(small_shop):
    event = await paid(small_shop)
    raw, good = signed(event)
    other = signed(event, secret="whsec_of_somebody_else")[1]
    now = time.time()
    tried = [
        (raw, ""),
        (raw, "t=1,v1=abc"),
        (raw, "nonsense"),
        (raw, other),
        (raw + b" ", good),
        (raw, good.replace("v1=", "v2=")),
        signed(event, at=now - 310),
        signed(event, at=now + 310),
        signed(event, at=now + 3_600),
    ]
    for body, signature in tried:
        assert (await refused(small_shop.webhook(body, signature), "invalid-webhook")).status == 400
    assert await small_shop.tier() == "free"
    for at in (now - 290, now + 290):
        assert (await small_shop.webhook(*signed(event, at=at))).received


@pytest.mark.parametrize("told", [[], 7, "event", {}, {"object": "event"}, {"id": "evt_1", "type": "x"}])
async def test_signed_nonsense_is_refused(small_shop, told):
    await refused(small_shop.webhook(*signed(told)), "invalid-webhook")


async def test_signature_over_bytes_that_are_no_text_is_refused(small_shop):
    await refused(small_shop.webhook(b"\xff\xfe", "t=1,v1=0"), "invalid-webhook")


async def test_event_about_somebody_else_is_received_and_changes_nothing(small_shop):
    event = await paid(small_shop)
    for about in ({"object": "product", "id": "prod_1"}, {"object": "invoice", "customer": "cus_stranger"}):
        answer = await small_shop.send({**event, "id": f"evt_{about['object']}", "data": {"object": about}})
        assert answer.received
    assert await small_shop.tier() == "free"


async def test_event_alone_moves_nothing_without_what_stripe_has_now(shop):
    event = await paid(shop)
    for subscription in shop.stripe.subscriptions:
        shop.stripe.end(subscription)
    await shop.send(event)
    assert await shop.tier() == "free"


@pytest.mark.parametrize("mode", ["error", "busy", "slow", "lost"])
async def test_webhook_that_could_not_be_acted_on_is_asked_for_again(shop, mode):
    event = await paid(shop)
    shop.trouble(mode)
    assert (await refused(shop.send(event), "upstream-unavailable")).status == 502
    assert await shop.tier() == "free"
    shop.trouble("ok")
    assert (await shop.send(event)).is_new
    assert await shop.tier() == "pro"


async def test_storm_of_events_about_one_subscription_is_one_reason_to_look(shop):
    subscription = await shop.buy("price_pro")
    for _ in range(40):
        shop.stripe.renew(subscription)
    shop.stripe.change_plan(subscription, "price_ent")
    storm = shop.new_events() * 2
    asked = len(shop.stripe.asked)
    await shop.deliver_at_once(storm)
    assert len(shop.stripe.asked) - asked == 1
    assert await shop.tier() == "enterprise"
    assert not any(await shop.deliver(storm[:5]))


async def test_event_that_comes_while_stripe_is_asked_has_a_look_of_its_own(small_shop):
    subscription = await small_shop.buy("price_pro")
    small_shop.stripe.renew(subscription)
    asked = len(small_shop.stripe.asked)
    small_shop.stripe.jitter = Pauses([0.3])
    early = asyncio.ensure_future(small_shop.deliver_at_once(small_shop.new_events()))
    await small_shop.stripe.jitter.has_begun.wait()
    small_shop.stripe.change_plan(subscription, "price_ent")
    await small_shop.deliver_at_once(small_shop.new_events())
    await early
    assert len(small_shop.stripe.asked) - asked == 2
    assert await small_shop.tier() == "enterprise"


async def test_events_that_came_together_are_all_asked_for_again_when_stripe_is_away(small_shop):
    subscription = await small_shop.buy("price_pro")
    small_shop.stripe.change_plan(subscription, "price_ent")
    events = small_shop.new_events()
    small_shop.trouble("error")
    told = await asyncio.gather(*map(small_shop.send, events), return_exceptions=True)
    assert [getattr(one, "code", one) for one in told] == ["upstream-unavailable"] * len(events)
    small_shop.trouble("ok")
    assert all(await small_shop.deliver(events))
    assert await small_shop.tier() == "enterprise"


async def test_who_hangs_up_takes_the_look_from_nobody_else(small_shop):
    subscription = await small_shop.buy("price_pro")
    small_shop.stripe.change_plan(subscription, "price_ent")
    first, *others = small_shop.new_events()
    impatient = asyncio.ensure_future(small_shop.send(first))
    patient = asyncio.gather(*map(small_shop.send, others))
    await asyncio.sleep(0)
    impatient.cancel()
    assert all(answer.is_new for answer in await patient)
    assert await small_shop.tier() == "enterprise"


async def test_where_nothing_is_sold_all_of_it_is_503_and_names_the_settings(small_shop):
    settings = Settings(stripe_secret_key="sk_test_1", stripe_prices={"price_pro": "pro"})
    async with open_stripe(settings) as provider:
        assert provider is None
    endpoints = CheckoutEndpoints(settings, small_shop.database, small_shop.ring, small_shop.meter, None)
    small_shop.endpoints = endpoints
    for work in (small_shop.begin(), small_shop.portal(), small_shop.webhook(b"{}", "")):
        problem = await refused(work, "not-configured")
        assert (problem.status, problem.facts["setting"]) == (503, "stripe_webhook_secret")


async def test_with_all_settings_stripe_is_asked_where_they_say(small_shop):
    async with open_stripe(small_shop.settings) as provider:
        assert provider is not None
        assert not await provider.customer_exists("cus_unknown")
    assert small_shop.stripe.asked[-1].path == "/v1/customers/cus_unknown"


async def test_without_the_extra_the_start_says_what_to_install(small_shop, monkeypatch):
    monkeypatch.setitem(sys.modules, "stripe", None)
    monkeypatch.delitem(sys.modules, "tollhouse.accounts.subscriptions.stripe_transport")
    with pytest.raises(SettingError, match=r"pip install 'tollhouse\[stripe\]'"):
        async with open_stripe(small_shop.settings):
            pass


@pytest.mark.parametrize("wrong", ["price_a=free", "price_a=gold", "price_a"])
def test_prices_are_sold_for_paid_plans_only(monkeypatch, wrong):
    monkeypatch.setenv("TOLLHOUSE_STRIPE_PRICES", wrong)
    with pytest.raises(SettingError, match="stripe_prices"):
        open_plans(load())


def test_prices_are_read_from_the_environment_and_secrets_never_shown(monkeypatch):
    monkeypatch.setenv("TOLLHOUSE_STRIPE_PRICES", "price_a=pro,price_b=enterprise")
    monkeypatch.setenv("TOLLHOUSE_STRIPE_SECRET_KEY", "sk_live_1")
    monkeypatch.setenv("TOLLHOUSE_STRIPE_WEBHOOK_SECRET", "whsec_1")
    settings = load()
    assert settings.stripe_prices == {"price_a": "pro", "price_b": "enterprise"}
    assert {masked(settings)[name] for name in ("stripe_secret_key", "stripe_webhook_secret")} == {"***"}
