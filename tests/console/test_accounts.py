"""What a person does about keys, questions, alerts and wallets in the pages, against one server that sells them all."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from tests.fakes.background_server import run_in_background
from tests.fakes.receiver import receiver
from tests.fakes.stripe import SECRET_KEY, WEBHOOK_SECRET, Stripe, signed
from tests.fakes.website import Asked, Reply, background_website
from tests.journeys.server import free_port, poll
from tollhouse.accounts.plans import open_plans
from tollhouse.client import Agent
from tollhouse.config.settings import PlanSettings, Settings
from tollhouse.console.pages import client_samples
from tollhouse.evm import parse_private_key, personal_digest, sign
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain
from tollhouse.services.defense.pages import build_pages

TREASURY, WALLET = ACCOUNTS[2], ACCOUNTS[4]
BRIEF = "/feeds/defense-brief"


class Checkout:
    """Stripe with the page its buyers see: one button, and the way back that the shop asked for."""

    def __init__(self) -> None:
        self.stripe = Stripe()

    def answer(self, asked: Asked) -> Reply:
        place, _, session = asked.path.strip("/").partition("/")
        if place != "pay":
            return self.stripe.answer(asked)
        if asked.method == "GET":
            page = "<!doctype html><title>Checkout</title><form method=post><button>Pay 49 USD</button></form>"
            return Reply(200, page.encode(), {"Content-Type": "text/html"})
        self.stripe.pay(session)
        return Reply(303, b"", {"Location": self._way_back()})

    def _way_back(self) -> str:
        begun = [one for one in self.stripe.asked if (one.method, one.path) == ("POST", "/v1/checkout/sessions")]
        return begun[-1].form["success_url"]


def signed_by_wallet(method: str, message: str, account: str) -> str:
    """What a browser's wallet answers (EIP-1193)."""
    assert (method, account) == ("personal_sign", WALLET.address)
    return sign(parse_private_key(WALLET.private_key), personal_digest(bytes.fromhex(message[2:])))


@pytest.fixture(scope="module")
def checkout() -> Iterator[Checkout]:
    made = Checkout()
    with background_website(made.answer) as site:
        made.stripe.url = site.url
        yield made


@asynccontextmanager
async def deposited() -> AsyncIterator[tuple[str, str]]:
    """The address of a chain, and a transfer of 2 USDC to the treasury that stands on it."""
    async with LocalChain.start() as chain:
        await chain.fund_usdc(WALLET.address, 5_000_000)
        tx_hash = await chain.transfer_usdc(WALLET, TREASURY.address, 2_000_000)
        await chain.wait_mined(tx_hash)
        yield chain.url, tx_hash


@pytest.fixture(scope="module")
def deposit() -> Iterator[tuple[str, str]]:
    with run_in_background(deposited()) as made:
        yield made


@pytest.fixture(scope="module")
def server(start_server, checkout, deposit):
    port = free_port()
    return start_server(
        port=port, public_url=f"http://127.0.0.1:{port}",
        stripe_secret_key=SECRET_KEY, stripe_webhook_secret=WEBHOOK_SECRET, stripe_api_base=checkout.stripe.url,
        stripe_prices="price_pro=pro,price_ent=enterprise", evm_rpc_url=deposit[0], treasury_address=TREASURY.address,
        deposit_confirmations=1, webhook_allow_loopback=True,
    )  # fmt: skip


def test_free_key_is_upgraded_at_the_checkout_and_comes_back_as_pro(visit, server, checkout):
    visitor = visit()
    visitor.open("/keys")
    page = visitor.page
    page.get_by_label("Email", exact=True).fill("buyer@example.org")
    page.get_by_role("button", name="Create a free key").click()
    made = page.locator("#shown-key .key").inner_text()
    assert "49 USD a month" in page.locator("#plans").inner_text()
    page.get_by_label("The key's email").fill("buyer@example.org")
    page.get_by_label("Plan", exact=True).select_option("price_pro")
    assert visitor.violations() == []
    page.get_by_role("button", name="Go to checkout").click()
    page.wait_for_url(f"{checkout.stripe.url}/pay/**")
    assert made not in page.url
    page.get_by_role("button", name="Pay 49 USD").click()
    page.wait_for_url(f"{server.root}/keys?status=paid")
    page.get_by_text("Waiting for the payment to be confirmed").wait_for()
    for event in checkout.stripe.events:
        body, signature = signed(event)
        heard = httpx2.post(f"{server.base}/api/stripe/webhook", content=body, headers={"Stripe-Signature": signature})
        assert heard.status_code == 200, heard.text
    page.get_by_text("Your key is now on the plan pro").wait_for()
    page.locator("#usage", has_text="plan pro").wait_for()
    assert "of 10,000 used" in page.locator("#usage").inner_text()
    assert page.get_by_label("Plan", exact=True).locator("option").all_inner_texts() == ["enterprise"]
    page.get_by_role("button", name="Manage subscription").click()
    page.wait_for_url(f"{checkout.stripe.url}/portal/**")


def test_cancelled_checkout_changes_nothing_and_says_so(visit):
    visitor = visit()
    visitor.open("/keys?status=cancelled")
    assert visitor.page.get_by_text("Your plan has not changed").is_visible()
    visitor.check()


def test_interrupted_answer_shows_an_error_and_can_be_retried(visit, key):
    visitor = visit(width=390, scheme="dark")
    visitor.key(key)
    visitor.open("/ask")
    page = visitor.page
    page.route("**/chat", lambda route: route.abort(), times=1)
    page.get_by_role("button", name="How many battles were there in Ethiopia?").click()
    assert "cannot be reached" in page.get_by_role("alert").inner_text()
    page.get_by_role("button", name="Try again").click()
    page.locator(".turn .by", has_text="extractive").wait_for()
    assert page.locator(".turn").count() == 1


def test_key_without_the_entitlement_sees_which_plans_include_it(visit, server):
    visitor = visit()
    visitor.open("/alerts")
    visitor.page.get_by_role("heading", name="needs a key on the enterprise plan").wait_for()
    visitor.page.get_by_label("Existing key").fill(server.new_key()["api_key"])
    visitor.page.get_by_role("button", name="Use this key").click()
    visitor.page.get_by_role("heading", name=re.compile("free plan.* needs the enterprise plan")).wait_for()
    visitor.check()
    visitor.page.get_by_role("link", name="Upgrade this key").click()
    visitor.page.wait_for_url("**/keys#upgrade-heading")


def test_alert_is_previewed_created_triggered_tested_changed_and_deleted(visit, key):
    visitor = visit()
    visitor.key(key)
    visitor.accept_dialogs()
    with receiver() as hook:
        visitor.open("/alerts")
        page = visitor.page
        page.get_by_text("No alerts yet").wait_for()
        page.get_by_label("Name", exact=True).fill("Fighting in Ethiopia")
        page.get_by_label("Category").select_option("Battles")
        page.get_by_label("Country").fill("Ethiopia")
        page.get_by_label("Threshold", exact=True).fill("3")
        page.get_by_label("Threshold", exact=True).press("Tab")
        page.locator("#preview", has_text=re.compile(r"It would have triggered \d+ time")).wait_for()
        assert page.locator("#preview svg .mark").count() >= 1
        assert hook.taken == []
        page.get_by_label("Your endpoint").fill(hook.url())
        page.get_by_role("button", name="Create the alert").click()
        secret = page.locator("#secret .key").inner_text()
        assert secret.startswith("whsec_")
        visitor.check()
        poll(lambda: any(json.loads(one.body)["type"] == "alert.triggered" for one in hook.taken))
        card = page.locator(".alert")
        card.get_by_role("button", name="Send a test").click()
        poll(lambda: any(json.loads(one.body)["type"] == "alert.test" for one in hook.taken))
        assert page.locator("#secret").count() == 0
        card.get_by_role("button", name="History and deliveries").click()
        dialog = page.get_by_role("dialog")
        dialog.locator("#sent li", has_text="alert.test").first.wait_for()
        dialog.locator("svg .mark").first.wait_for()
        assert dialog.locator("svg .threshold-name").text_content() == "threshold 3"
        assert dialog.locator("svg .span").count() == dialog.locator("svg .mark").count()
        assert "alert=alert_" in page.url
        assert visitor.violations() == []
        before = len(hook.taken)
        dialog.get_by_role("button", name="Send again").first.click()
        poll(lambda: len(hook.taken) > before)
        dialog.get_by_role("button", name="Close").click()
    card.get_by_role("button", name="Change").click()
    page.get_by_label("Threshold", exact=True).fill("500")
    page.get_by_role("button", name="Save the change").click()
    page.locator(".alert", has_text="≥ 500").wait_for()
    page.locator(".alert").get_by_role("button", name="Delete").click()
    page.get_by_text("No alerts yet").wait_for()
    visitor.check()


def test_rejected_rule_focuses_its_field(visit, key):
    visitor = visit()
    visitor.key(key)
    visitor.open("/alerts")
    page = visitor.page
    page.get_by_label("Name", exact=True).fill("Nowhere")
    page.get_by_label("Country").fill("Atlantis")
    page.get_by_label("Your endpoint").fill("https://example.com/hook")
    page.get_by_role("button", name="Create the alert").click()
    assert "no country" in page.locator("#form").get_by_role("alert").inner_text()
    assert page.evaluate("document.activeElement.id") == "country"
    assert visitor.violations() == []


def test_wallet_registers_deposits_and_sees_what_its_calls_cost(visit, server, deposit):
    visitor = visit()
    page = visitor.page
    page.expose_function("signedByWallet", signed_by_wallet)
    page.add_init_script(
        "window.ethereum = { request: async ({ method, params = [] }) => "
        f"method === 'eth_requestAccounts' ? ['{WALLET.address}'] : signedByWallet(method, ...params) }}"
    )
    visitor.open("/wallet")
    page.get_by_label("Wallet address").fill(WALLET.address)
    page.get_by_role("button", name="Show balance").click()
    page.get_by_role("button", name="Register this wallet").click()
    page.get_by_text("not enough for a call").wait_for()
    page.get_by_label("Transaction hash").fill(deposit[1])
    page.get_by_role("button", name="Credit deposit").click()
    page.get_by_text("2.00 USD credited").wait_for()
    page.get_by_text("enough for 200 more calls").wait_for()
    assert (visitor.violations(), visitor.foreign_requests, visitor.overflow()) == ([], [], 0)
    headers = Agent(WALLET.private_key).headers(BRIEF)
    assert httpx2.get(f"{server.base}{BRIEF}", headers=headers).status_code == 200
    page.get_by_role("button", name="Refresh").click()
    page.get_by_text("enough for 199 more calls").wait_for()
    page.get_by_role("button", name="Sign and show").click()
    page.get_by_role("row", name="defense getDefenseBrief 1 0.01 USD").wait_for()
    assert (visitor.violations(), visitor.foreign_requests, visitor.overflow()) == ([], [], 0)
    assert TREASURY.address in page.locator("#chain").inner_text()
    assert f"address={WALLET.address}" in page.url


def test_wallet_page_shows_the_documented_programs_with_the_servers_prefix():
    titles = [sample["title"] for sample in client_samples("service")]
    assert titles == ["Python, with eth-account", "JavaScript, with viem"]
    for sample in client_samples("elsewhere"):
        assert "elsewhere:" in sample["code"]
        assert "service:" not in sample["code"]


def test_chat_page_shows_the_daily_cap_of_every_plan_with_chat():
    plans = open_plans(Settings(plans={"pro": PlanSettings(chat_per_day=7)}))
    chat = next(page for page in build_pages(Settings(), plans) if page.path == "/ask")
    assert chat.facts["plans"] == [{"tier": "pro", "chat_per_day": 7}, {"tier": "enterprise", "chat_per_day": None}]


def test_navigation_is_folded_away_on_a_phone_and_opened_by_keyboard(visit):
    visitor = visit(width=390)
    visitor.open("/studio-catalogue")
    page = visitor.page
    link = page.get_by_role("link", name="Value chain", exact=True)
    assert not link.is_visible()
    menu = page.get_by_role("button", name="Menu")
    menu.press("Enter")
    assert menu.get_attribute("aria-expanded") == "true"
    assert link.is_visible()
    visitor.check()
    page.keyboard.press("Escape")
    assert not link.is_visible()
    assert page.evaluate("document.activeElement.id") == "menu"
