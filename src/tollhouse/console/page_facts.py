"""What single pages know of their server beyond its operations: plans, prices, what a call costs, how a wallet pays."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tollhouse.accounts.plans import MINIMUM_DEPOSIT_MICROS, open_plans
from tollhouse.config.settings import Settings
from tollhouse.http.endpoint import Endpoint
from tollhouse.http.service import Service
from tollhouse.http.terms import AGENT_CALL_MICROS, Terms
from tollhouse.money import usd

CHECKOUT = "/api/stripe/checkout"
CHAT = "/chat"
ALERTS = "/api/alerts"
SAMPLES = "agents-client.md"

_SAMPLE = re.compile(
    r"^## (?P<title>[^\n]+)\n\n`(?P<install>[^`\n]+)`\n\n```\w+\n(?P<code>.*?)```", re.MULTILINE | re.DOTALL
)
_CHAINS = {8453: "Base", 84532: "Base Sepolia", 1: "Ethereum"}


def docs_file(name: str) -> Path:
    """A page of the documentation: in the package when installed, beside `src` in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "docs" / name
    return installed if installed.exists() else package.parents[1] / "docs" / name


def facts_of(page: str, settings: Settings, services: Sequence[Service]) -> Any:
    """The facts of the page of that name; None where its script asks for everything itself."""
    about = _FACTS.get(page)
    return about(settings, services) if about else None


def plan_facts(settings: Settings) -> list[dict[str, Any]]:
    """The plans as the keys page shows them."""
    described = [plan.described() for plan in open_plans(settings).all]
    return [
        {
            "tier": plan["tier"],
            "per_day": plan["requests_per_day"],
            "per_minute": plan["requests_per_minute"],
            "month_usd": plan["price_per_month_usd"],
            "year_usd": plan["price_per_year_usd"],
            "includes": plan["includes"],
        }
        for plan in described
    ]


def offer(terms: Terms, settings: Settings) -> str:
    """What is free of an operation that is paid per request, and what each one more costs, in words."""
    free = terms.free_per_day if terms.allowance else settings.free_per_ip_per_day
    price = f"{usd(terms.request_price_micros or 0)} USDC"
    return f"{free:,} requests a day are free, then {price} each" if free else f"{price} a request"


def _keys(settings: Settings, services: Sequence[Service]) -> dict[str, Any]:
    """The plans, and the prices a visitor can buy here: none where no checkout is offered."""
    prices = settings.stripe_prices if _operation(services, CHECKOUT) else {}
    return {"plans": plan_facts(settings), "prices": prices}


def _ask(settings: Settings, services: Sequence[Service]) -> dict[str, Any]:
    """Who may ask, what it costs, and which models answer: none where the feeds are asked without one."""
    models = dict.fromkeys((settings.model_fast, settings.model_pro)) if settings.llm_base_url else ()
    caps = [
        {"tier": plan.name, "per_day": plan.chat_per_day}
        for plan in open_plans(settings).all
        if "chat" in plan.entitlements
    ]
    return {**_needed(settings, _operation(services, CHAT)), "models": list(models), "caps": caps}


def _alerts(settings: Settings, services: Sequence[Service]) -> dict[str, Any]:
    return _needed(settings, _operation(services, ALERTS))


def _wallet(settings: Settings, _services: Sequence[Service]) -> dict[str, Any]:
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


def _operator(settings: Settings, _services: Sequence[Service]) -> dict[str, Any]:
    return {"needs_token": bool(settings.admin_token)}


_FACTS: Mapping[str, Callable[[Settings, Sequence[Service]], dict[str, Any]]] = {
    "keys": _keys, "ask": _ask, "alerts": _alerts, "wallet": _wallet, "operator": _operator,
}  # fmt: skip


def client_samples(prefix: str) -> list[dict[str, str]]:
    """The programs of the documentation that need nothing but a published library, with this server's first word."""
    found = [one.groupdict() for one in _SAMPLE.finditer(docs_file(SAMPLES).read_text("utf-8"))]
    return [{**sample, "code": sample["code"].replace("service:", f"{prefix}:")} for sample in found]


def _needed(settings: Settings, operation: Endpoint | None) -> dict[str, Any]:
    """The tiers that may call an operation, and what a registered wallet pays for it, if it may."""
    if operation is None:
        return {"tiers": [], "agent_usd": None}
    price = operation.terms.agent_price_micros
    tiers = open_plans(settings).including(operation.terms.entitlement)
    return {"tiers": tiers, "agent_usd": None if price is None else usd(price)}


def _operation(services: Sequence[Service], path: str) -> Endpoint | None:
    return next((one for service in services for one in service.endpoints if one.path == path), None)
