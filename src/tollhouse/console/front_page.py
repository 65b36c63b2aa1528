"""What the front page says: the services, a first call to each, and how it is paid, all read off the declarations."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from tollhouse.console.sheets import Frame
from tollhouse.gate.service import Service
from tollhouse.metering.plans import AGENT_CALL_MICROS, MINIMUM_DEPOSIT_MICROS, PLANS
from tollhouse.money import micros, usd
from tollhouse.settings import Settings

_PAGE_OF: Mapping[str, tuple[str, str]] = {
    "defense": ("/board", "Open the board"),
    "mattress": ("/mattresses", "Search mattresses"),
    "infra": ("/value-chain", "See the graph"),
    "studio": ("/studio-catalogue", "Read the catalogue"),
}
_FIRST_CALL: Mapping[str, str] = {
    "defense": "curl -H 'Authorization: Bearer YOUR_KEY' \\\n  '{base}/feeds/events?limit=5'",
    "mattress": "curl '{base}/api/search?q=firm+queen'",
    "infra": "curl '{base}/api/paths?from=asml&to=openai'",
    "studio": "curl '{base}/api/catalogue'",
}
_FREE: Mapping[str, str] = {"infra": "the value chain", "studio": "the studio catalogue"}
_ORDER = ("defense", "mattress", "infra", "studio")

# A title, what it is in words, and a link as HTML.
Way = tuple[str, str, str]


def front_main(settings: Settings, services: Sequence[Service], frame: Frame) -> str:
    """The page's own part, as HTML."""
    known = sorted((service for service in services if service.name in _PAGE_OF), key=_place)
    cards = "".join(_card(service, settings, frame) for service in known)
    return (
        '<header class="hero"><h1>Data you can call, and pay for by the call</h1>'
        "<p>Feeds and catalogues for people and for software agents. Every service has one description, one shape of "
        "error, and tells you in each answer what is left of your plan.</p></header>"
        f'<section aria-labelledby="services"><h2 id="services">What this server offers</h2>'
        f'<div class="cards two">{cards}</div></section>{_paying(settings, frame)}{_agents(frame)}'
    )


def plan_facts() -> list[dict[str, Any]]:
    """The plans as the keys page shows them."""
    return [
        {
            "tier": plan.tier,
            "per_day": plan.limits.requests_per_day,
            "per_minute": plan.limits.requests_per_minute,
            "month_usd": usd(plan.month_micros),
            "year_usd": None if plan.year_micros is None else usd(plan.year_micros),
            "includes": list(plan.includes),
        }
        for plan in PLANS.values()
    ]


def _place(service: Service) -> int:
    return _ORDER.index(service.name)


def _card(service: Service, settings: Settings, frame: Frame) -> str:
    prefix = frame.prefixes[service.name]
    title = _capital(html.escape(service.title.removeprefix("Tollhouse: ")))
    path, text = _PAGE_OF[service.name]
    summary = html.escape(service.description.strip().partition("\n\n")[0].partition(". ")[0].rstrip("."))
    # Without a public address the page's script puts the visitor's own in.
    call = html.escape(
        _FIRST_CALL[service.name].format(base=f"{settings.public_url.rstrip('/') or '{origin}'}{prefix}")
    )
    return (
        f'<article class="card"><h3>{title}</h3><p>{summary}.</p>'
        f'<div class="snippet"><pre tabindex="0" aria-label="First call to {title}"><code>{call}</code></pre></div>'
        f'<p class="actions"><a class="button" href="{path}">{text}</a> '
        f'<a href="{prefix}/docs">Reference</a> <a href="{prefix}/api/openapi.yaml">OpenAPI</a></p></article>'
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _paying(settings: Settings, frame: Frame) -> str:
    there = frame.prefixes
    ways = [*(_by_key(there["defense"]) if "defense" in there else ())]
    if "mattress" in there:
        ways.append(_by_request(settings, there["mattress"]))
    if free := [text for name, text in _FREE.items() if name in there]:
        ways.append(("Free", f"{_capital(' and '.join(free))}: no cost, no key.", ""))
    listed = "".join(f"<div><h3>{title}</h3><p>{text}</p><p>{more}</p></div>" for title, text, more in ways)
    return (
        f'<section aria-labelledby="paying"><h2 id="paying">How to pay</h2><div class="ways">{listed}</div></section>'
    )


def _by_key(prefix: str) -> list[Way]:
    free, pro = PLANS["free"], PLANS["pro"]
    per_key = (
        f"Free: {free.limits.requests_per_day} requests a day. Pro: {pro.limits.requests_per_day:,} a day for "
        f"{usd(pro.month_micros)} USD a month."
    )
    signed = (
        f"An agent registers a wallet, deposits at least {usd(MINIMUM_DEPOSIT_MICROS)} USDC and signs each call: "
        f"{usd(AGENT_CALL_MICROS)} USD a call, no key."
    )
    return [
        ("With a key", per_key, '<a class="button" href="/keys">Get a free key</a>'),
        ("From a wallet", signed, f'<a href="{prefix}/docs">How to register</a>'),
    ]


def _by_request(settings: Settings, prefix: str) -> Way:
    text = (
        f"The first {settings.free_per_ip_per_day} requests a day are free, without a key. After that an answer 402 "
        f"says how to pay {usd(micros(settings.x402_price_usd))} USDC for the next one (x402)."
    )
    return "Per request", text, f'<a href="{prefix}/docs">How to pay</a>'


def _agents(frame: Frame) -> str:
    mcp = next(iter(frame.prefixes.values()), "")
    return (
        '<section aria-labelledby="agents"><h2 id="agents">For agents</h2><p>'
        '<a href="/llms.txt">llms.txt</a>, <a href="/.well-known/api-catalog">API catalogue</a>, '
        '<a href="/.well-known/agent-card.json">agent card</a>, and an MCP endpoint at '
        f"<code>{html.escape(mcp)}/mcp</code>{' and its like under each service' if len(frame.prefixes) > 1 else ''}."
        "</p></section>"
    )
