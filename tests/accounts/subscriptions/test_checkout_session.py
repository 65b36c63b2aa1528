"""Checkout sessions and portals, and what happens when Stripe fails."""

import asyncio

import pytest

from tests.accounts.subscriptions.shop import EMAIL, PUBLIC_URL, refused
from tollhouse import clock

pytestmark = pytest.mark.both_databases


async def test_checkout_leads_to_a_page_for_this_key_and_price(shop):
    begun = await shop.begin("price_ent", email="ADA@Example.org")
    assert begun.checkout_url == f"{shop.stripe.url}/pay/{begun.session_id}"
    session = shop.stripe.sessions[begun.session_id]
    assert session["client_reference_id"] == shop.key.holder.key_id
    assert shop.stripe.customers[session["customer"]]["email"] == EMAIL


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"email": "eve@example.org"}, "email"),
        ({"price_id": "price_else"}, "price_id"),
        ({"api_key": "th_live_0000000000000000000000000000000000"}, "api_key"),
        ({"api_key": ""}, "api_key"),
    ],
)
async def test_body_that_fits_no_key_or_price_is_refused_before_stripe_is_asked(small_shop, body, parameter):
    price = body.pop("price_id", "price_pro")
    problem = await refused(small_shop.begin(price, **body), "invalid-body")
    assert (problem.status, problem.facts["parameter"]) == (400, parameter)
    assert small_shop.stripe.asked == []


async def test_revoked_key_cannot_be_upgraded(small_shop):
    await small_shop.ring.revoke(small_shop.key.holder.key_id)
    assert (await refused(small_shop.begin(), "invalid-body")).facts["parameter"] == "api_key"


async def test_key_has_one_customer_and_one_page_however_many_ask_at_once(shop):
    begun = await asyncio.gather(*(shop.begin() for _ in range(12)))
    assert len(shop.stripe.customers) == 1
    assert len({one.session_id for one in begun}) == 1
    assert (await shop.begin()).session_id == begun[0].session_id
    assert len(shop.stripe.sessions) == 1


async def test_two_keys_of_one_person_are_two_customers(small_shop):
    first = await small_shop.begin()
    second = await small_shop.begin(key=await small_shop.ring.create(EMAIL, "free"))
    customers = {small_shop.stripe.sessions[one.session_id]["customer"] for one in (first, second)}
    assert len(customers) == 2


async def test_changing_ones_mind_closes_the_page_before(small_shop):
    first = await small_shop.begin("price_pro")
    second = await small_shop.begin("price_ent")
    assert small_shop.stripe.sessions[first.session_id]["status"] == "expired"
    assert small_shop.stripe.sessions[second.session_id]["status"] == "open"


async def test_page_that_was_used_is_not_given_again(small_shop):
    first = await small_shop.begin("price_pro")
    subscription = small_shop.stripe.pay(first.session_id)
    await small_shop.deliver()
    small_shop.stripe.end(subscription)
    await small_shop.deliver()
    assert (await small_shop.begin("price_pro")).session_id != first.session_id


async def test_what_is_paid_already_is_not_sold_again(shop):
    await shop.buy("price_pro")
    assert (await refused(shop.begin("price_pro"), "already-subscribed")).status == 409
    assert (await shop.begin("price_pro_year")).checkout_url


@pytest.mark.parametrize("mode", ["error", "busy", "slow"])
async def test_stripe_in_trouble_is_502_and_the_next_try_finds_one_customer(shop, mode):
    shop.trouble(mode)
    problem = await refused(shop.begin(), "upstream-unavailable")
    assert (problem.status, problem.facts["upstream"]) == (502, "stripe")
    shop.trouble("ok")
    assert (await shop.begin()).checkout_url
    assert len(shop.stripe.customers) == 1


async def test_customer_whose_making_was_not_heard_of_is_not_made_again(shop):
    shop.trouble("lost")
    await refused(shop.begin(), "upstream-unavailable")
    assert len(shop.stripe.customers) == 1
    shop.trouble("ok")
    shop.stripe.kept.clear()  # Stripe keeps answers for a day
    await shop.begin()
    assert len(shop.stripe.customers) == 1


async def test_waiting_for_stripe_holds_up_nobody_else(small_shop):
    small_shop.stripe.mode = "slow"
    begun = asyncio.ensure_future(refused(small_shop.begin(), "upstream-unavailable"))
    await small_shop.stripe.was_asked.wait()
    await asyncio.gather(*(small_shop.ring.holder(small_shop.key.text) for _ in range(100)))
    assert not begun.done()
    await begun


async def test_wrong_secret_key_and_a_price_stripe_does_not_know_are_502(small_shop):
    small_shop.settings.stripe_prices["price_new"] = "pro"
    await refused(small_shop.begin("price_new"), "upstream-unavailable")
    small_shop.api._client._requestor._options.api_key = "sk_test_other"
    await refused(small_shop.begin(), "upstream-unavailable")


async def test_portal_opens_for_a_key_that_was_at_the_checkout(shop):
    await refused(shop.portal(), "not-found")
    await shop.begin()
    (customer,) = shop.stripe.customers
    assert await shop.portal() == f"{shop.stripe.url}/portal/{customer}"


async def test_buyers_come_back_to_the_page_about_keys_which_says_what_became_of_it(small_shop):
    await small_shop.begin()
    checkout = small_shop.stripe.asked[-1].form
    assert checkout["success_url"] == f"{PUBLIC_URL}/keys?status=paid"
    assert checkout["cancel_url"] == f"{PUBLIC_URL}/keys?status=cancelled"
    await small_shop.portal()
    assert small_shop.stripe.asked[-1].form["return_url"] == f"{PUBLIC_URL}/keys"


async def test_too_many_checkouts_of_one_address_are_told_to_wait(small_shop):
    for _ in range(60):
        await refused(small_shop.begin("price_else"), "invalid-body")
    problem = await refused(small_shop.begin(), "rate-limited")
    assert int(problem.headers["Retry-After"]) > 0


async def test_payment_is_noticed_though_no_webhook_ever_came(shop, monkeypatch):
    subscription = shop.stripe.pay((await shop.begin()).session_id)
    await shop.endpoints._sync.sync_due()
    assert await shop.tier() == "free"
    now = clock.seconds()
    monkeypatch.setattr(clock, "seconds", lambda: now + 3_700)
    await shop.endpoints._sync.sync_due()
    assert await shop.tier() == "pro"
    shop.stripe.end(subscription)
    monkeypatch.setattr(clock, "seconds", lambda: now + 2 * 86_400)
    shop.trouble("error")
    await shop.endpoints._sync.sync_due()
    assert await shop.tier() == "pro"
    shop.trouble("ok")
    await shop.endpoints._sync.sync_due()
    assert await shop.tier() == "free"
