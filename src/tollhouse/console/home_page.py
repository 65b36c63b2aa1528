"""What the front page says: the services, a first call to each, and how it is paid, all read off the declarations."""

import html
from collections.abc import Mapping, Sequence

from tollhouse.accounts.plans import MINIMUM_DEPOSIT_MICROS, Plan, open_plans
from tollhouse.config.settings import Settings
from tollhouse.console.page_facts import offer
from tollhouse.console.page_shell import Frame
from tollhouse.console.table_pages import table_rows
from tollhouse.http.service import Service
from tollhouse.http.terms import AGENT_CALL_MICROS, Terms
from tollhouse.money import usd

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
_MOST_PRICED = 3

# A title, what it is in words, and a link as HTML.
Way = tuple[str, str, str]


def front_main(settings: Settings, services: Sequence[Service], frame: Frame) -> str:
    """The page's own part, as HTML."""
    known = sorted((service for service in services if service.name in _PAGE_OF), key=_place)
    rows = "".join(_row(service, settings, frame) for service in known) + table_rows(settings, services, frame)
    return (
        '<header class="hero"><h1>Data you can call, and pay for by the call</h1>'
        "<p>Feeds and catalogues for people and for software agents: one description, one shape of error, and each "
        "answer says what is left of your plan.</p></header>"
        f'<section aria-labelledby="services"><h2 id="services" class="unseen">What this server offers</h2>'
        f'<div class="offers panel">{rows}</div></section>{_paying(settings, services, frame)}'
    )


def _place(service: Service) -> int:
    return _ORDER.index(service.name)


def _row(service: Service, settings: Settings, frame: Frame) -> str:
    prefix = frame.prefixes[service.name]
    title = html.escape(_name(service))
    path, text = _PAGE_OF[service.name]
    summary = html.escape(service.description.strip().partition("\n\n")[0].partition(". ")[0].rstrip("."))
    # Without a public address the page's script puts the visitor's own in.
    call = html.escape(
        _FIRST_CALL[service.name].format(base=f"{settings.public_url.rstrip('/') or '{origin}'}{prefix}")
    )
    return (
        f'<article><div><h3>{title}</h3><p class="dim">{summary}.</p></div>'
        f'<div class="snippet"><pre tabindex="0" aria-label="First call to {title}"><code>{call}</code></pre></div>'
        f'<p class="ways-in"><a class="button" href="{path}">{text}</a><span><a href="{prefix}/docs">Reference</a> '
        f'<a href="{prefix}/api/openapi.yaml">OpenAPI</a></span></p></article>'
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _name(service: Service) -> str:
    """As people read it; a table's title is its owner's, and stays as it is."""
    return service.title if service.browsing else _capital(service.title.removeprefix("Tollhouse: "))


def _paying(settings: Settings, services: Sequence[Service], frame: Frame) -> str:
    there = frame.prefixes
    ways = [*(_by_key(settings) if "defense" in there else ())]
    if priced := [(service, terms) for service in services if (terms := _terms_by_request(service))]:
        ways.append(_by_request(settings, priced, there))
    if free := [text for name, text in _FREE.items() if name in there]:
        ways.append(("Free", f"{_capital(' and '.join(free))}: no cost, no key.", ""))
    ways.append(_for_agents(there))
    listed = "".join(f"<div><h3>{title}</h3><p>{text}</p><p>{more}</p></div>" for title, text, more in ways)
    heading = '<h2 id="paying">How to call and pay</h2>'
    return f'<section aria-labelledby="paying">{heading}<div class="ways">{listed}</div></section>'


def _by_key(settings: Settings) -> list[Way]:
    """The default plan and the cheapest that has a price."""
    plans = open_plans(settings)
    shown = [plans.default, *[plan for plan in plans.all if plan.month_micros][:1]]
    per_key = " ".join(map(_plan, shown))
    signed = (
        f"An agent registers a wallet, deposits at least {_whole(MINIMUM_DEPOSIT_MICROS)} USDC and signs each call: "
        f"{usd(AGENT_CALL_MICROS)} USD a call, no key."
    )
    return [
        ("With a key", per_key, '<a class="button" href="/keys">Get a free key</a>'),
        ("From a wallet", signed, '<a href="/wallet">Register and deposit</a>'),
    ]


def _plan(plan: Plan) -> str:
    per_day = plan.limits.requests_per_day
    requests = f"{per_day:,} requests a day" if per_day else f"{plan.limits.requests_per_minute:,} requests a minute"
    price = f" for {_whole(plan.month_micros)} USD a month" if plan.month_micros else ""
    return f"{_capital(plan.name)}: {requests}{price}."


def _whole(amount_micros: int) -> str:
    """`49_000_000` -> `"49"`: cents are told where there are some."""
    return usd(amount_micros).removesuffix(".00")


def _terms_by_request(service: Service) -> Terms | None:
    """What is paid per request there, if anything is."""
    return next((one.terms for one in service.endpoints if one.terms.request_price_micros is not None), None)


def _by_request(settings: Settings, priced: Sequence[tuple[Service, Terms]], there: Mapping[str, str]) -> Way:
    """Services of the same terms are told together: the mattresses and most tables."""
    alike: dict[str, list[str]] = {}
    for service, terms in priced:
        alike.setdefault(offer(terms, settings), []).append(_name(service))
    told = [f"{html.escape(', '.join(names))}: {words}." for words, names in alike.items()]
    more = " The references tell the others." if len(told) > _MOST_PRICED else ""
    text = f"{' '.join(told[:_MOST_PRICED])}{more} An answer 402 says how to pay for the next one (x402)."
    return "Per request", text, f'<a href="{there[priced[0][0].name]}/docs">How to pay</a>'


def _for_agents(there: Mapping[str, str]) -> Way:
    others = " and under each service" if len(there) > 1 else ""
    text = f"MCP at <code>{html.escape(next(iter(there.values()), ''))}/mcp</code>{others}, or read:"
    files = (
        ("/llms.txt", "llms.txt"),
        ("/.well-known/api-catalog", "API catalogue"),
        ("/.well-known/agent-card.json", "agent card"),
    )
    return "As an agent", text, " · ".join(f'<a href="{path}">{name}</a>' for path, name in files)
