"""The pages of accounts (keys and wallets) and of the operator, with the facts they show."""

import re
from collections.abc import Sequence
from typing import Any

from tollhouse.accounts.plans import MINIMUM_DEPOSIT_MICROS, open_plans
from tollhouse.config.settings import Settings
from tollhouse.console.guide import read_page
from tollhouse.console.page_shell import HERE
from tollhouse.http.pages import Page
from tollhouse.http.service import Service
from tollhouse.http.terms import AGENT_CALL_MICROS
from tollhouse.money import usd

SAMPLES = "agents-client"

_FILES = HERE / "pages"
_SAMPLE = re.compile(
    r"^## (?P<title>[^\n]+)\n\n`(?P<install>[^`\n]+)`\n\n```\w+\n(?P<code>.*?)```", re.MULTILINE | re.DOTALL
)
_CHAINS = {8453: "Base", 84532: "Base Sepolia", 1: "Ethereum"}


def account_pages(settings: Settings, services: Sequence[Service]) -> list[Page]:
    """The pages for keys and wallets, which every host has. Prices are shown only where the checkout is configured."""
    prices = settings.stripe_prices if settings.stripe_secret_key else {}
    sold = [one.name for one in services if any(each.terms.agent_price_micros for each in one.endpoints)]
    keys = {"plans": [plan.described() for plan in open_plans(settings).all], "prices": prices}
    return [
        Page("/keys", "API keys and plans", "Keys", _FILES / "keys.html", ("keys.js",), (), ("status",), facts=keys),
        Page(
            "/wallet", "Wallet", "Wallet", _FILES / "wallet.html", ("wallet.js",), (), ("address",),
            facts={**_wallet_facts(settings), "service": sold[0] if sold else ""},
        ),
    ]  # fmt: skip


def operator_page(settings: Settings) -> Page:
    """The operator's page. It is served everywhere; its data needs the operator's token."""
    facts = {"needs_token": bool(settings.admin_token)}
    parameters = ("account", "state")
    return Page(
        "/operator", "Operator", "Operator", _FILES / "operator.html", ("operator.js",), (), parameters, facts=facts
    )


def client_samples(prefix: str) -> list[dict[str, str]]:
    """The sample programs of docs/agents-client.md, with this server's prefix of signed messages."""
    samples = [one.groupdict() for one in _SAMPLE.finditer(read_page(SAMPLES))]
    return [{**sample, "code": sample["code"].replace("service:", f"{prefix}:")} for sample in samples]


def _wallet_facts(settings: Settings) -> dict[str, Any]:
    """Where a wallet deposits, what a signed call costs, and programs that sign one."""
    chain_id = settings.evm_chain_id
    return {
        "treasury_address": settings.treasury_address if settings.evm_rpc_url else "",
        "chain": f"{_CHAINS.get(chain_id, 'chain')} ({chain_id})",
        "usdc_address": settings.usdc_address,
        "confirmations": settings.deposit_confirmations,
        "call_usd": usd(AGENT_CALL_MICROS),
        "minimum_usd": usd(MINIMUM_DEPOSIT_MICROS),
        "samples": client_samples(settings.agent_prefix),
    }
