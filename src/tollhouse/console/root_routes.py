"""The endpoints at the root of a host: the front page, the console, and what only the operator opens."""

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from tollhouse import __version__
from tollhouse.accounts.plans import MINIMUM_DEPOSIT_MICROS, Plan, open_plans
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.console.guide import Guide
from tollhouse.console.operator import operator_endpoints
from tollhouse.console.page_shell import HERE, Link, PageFiles, PageShell
from tollhouse.console.pages import build_page_shell, console_pages, describe_price, needs_key, terms_per_request
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.pages import FrontPageEntry
from tollhouse.http.response import compute_etag
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import file_operation
from tollhouse.http.terms import AGENT_CALL_MICROS, FREE
from tollhouse.money import usd

MAX_PRICES = 3

_SWAGGER_ALLOWED = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SWAGGER_POLICY = ((b"content-security-policy", _SWAGGER_ALLOWED), (b"referrer-policy", b"no-referrer"))


def front_service(
    settings: Settings,
    context: AppContext,
    services: Sequence[Service],
    prefixes: Sequence[str],
    accounts: Service | None,
) -> Service:
    """The endpoints at the root, beside those of the services under `prefixes` and of `accounts` at the root."""
    shell = build_page_shell(settings, services, prefixes)

    async def status() -> dict[str, Any]:
        return {"status": "ok"}

    endpoints = [
        _index(settings, services, shell),
        *console_pages(settings, services, shell),
        *Guide(settings, [*services, *([accounts] if accounts else [])], shell).endpoints(),
        *([] if settings.operator_listen else operator_endpoints(context, services, shell)),
    ]
    return Service("front", "Tollhouse", __version__, "", endpoints, status, {"type": "object"})


def operator_service(context: AppContext, services: Sequence[Service]) -> Service:
    """The endpoints of the operator's own listener; its page stands at the root as well."""
    shell = PageShell({}, "", (Link("/operator", "Operator"),), (), PageFiles([]))
    endpoints = operator_endpoints(context, services, shell)
    root = [replace(each, id="page /", path="/") for each in endpoints if each.path == "/operator"]

    async def status() -> dict[str, Any]:
        return {"status": "ok"}

    endpoints += [*root, *shell.files.endpoints()]
    return Service("operator", "Tollhouse: operator", __version__, "", endpoints, status, {"type": "object"})


def api_docs_pages() -> list[Endpoint]:
    """`/docs`, where people read and try a service's endpoints (Swagger UI), and the files it loads."""
    pages, swagger = HERE / "pages", HERE / "vendor" / "swagger-ui"
    javascript, css = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
    return [
        file_operation("/docs", pages / "api-docs.html", "text/html; charset=utf-8", _SWAGGER_POLICY),
        file_operation("/docs/start.js", pages / "api-docs.js", javascript),
        file_operation("/docs/theme.js", pages / "api-docs-theme.js", javascript),
        file_operation("/docs/page.css", pages / "api-docs.css", css),
        file_operation("/docs/swagger-ui.css", swagger / "swagger-ui.css", css),
        file_operation("/docs/swagger-ui.js", swagger / "swagger-ui-bundle.js", javascript),
    ]


def _index(settings: Settings, services: Sequence[Service], shell: PageShell) -> Endpoint:
    """`/`: the list of services for programs, the front page for a client that accepts HTML."""
    page = _home_page(settings, services, shell)
    root = settings.public_url.rstrip("/")
    body = msgspec.json.encode({
        "name": "tollhouse",
        "version": __version__,
        "services": [
            {
                "name": service.name,
                "title": service.title,
                "base_url": base,
                "docs": f"{base}/docs",
                "openapi": f"{base}/api/openapi.yaml",
                "health": f"{base}/health",
            }
            for service, base in ((one, f"{root}{shell.prefixes[one.name]}") for one in services)
        ],
    })  # fmt: skip
    listing = Response(body, etag=compute_etag(body))

    async def index(request: Request[None, None]) -> Response:
        return listing if request.media_type == JSON else page

    responses: dict[str, Any] = {JSON: {}, "text/html": {}}
    return Endpoint("getServices", "GET", "/", "Services", index, FREE, responses=responses, is_described=False)


def _home_page(settings: Settings, services: Sequence[Service], shell: PageShell) -> Response:
    entries = [(service, service.front_page) for service in services if service.front_page]
    articles = "".join(_article(service, entry, settings, shell) for service, entry in entries)
    main = (
        '<header class="hero"><h1>Data feeds and catalogues, paid per call</h1>'
        "<p>For people and for software agents. Every service has an OpenAPI description and the same form of errors, "
        "and every response says how much of your plan remains.</p></header>"
        f'<section aria-labelledby="services"><h2 id="services" class="unseen">Services</h2>'
        f'<div class="offers panel">{articles}</div></section>{_payment_section(settings, entries, shell)}'
    )
    return shell.page("/", "Tollhouse", main, scripts=("front.js",))


def _article(service: Service, entry: FrontPageEntry, settings: Settings, shell: PageShell) -> str:
    prefix = shell.prefixes[service.name]
    title = html.escape(entry.title)
    # Without a public address, the page's script inserts the address at which the visitor reads the page.
    base = f"{settings.public_url.rstrip('/') or '{origin}'}{prefix}"
    key = "-H 'Authorization: Bearer YOUR_KEY' \\\n  " if needs_key(service, entry.example_calls[0]) else ""
    call = html.escape(f"curl {key}'{base}{entry.example_calls[0]}'")
    return (
        f'<article><div><h3>{title}</h3><p class="dim">{html.escape(entry.summary)}</p></div>'
        f'<div class="snippet"><pre tabindex="0" aria-label="Example call to {title}"><code>{call}</code></pre></div>'
        f'<p class="ways-in"><a class="button" href="{entry.page}">{html.escape(entry.button)}</a><span>'
        f'<a href="{prefix}/docs">API reference</a> <a href="{prefix}/api/openapi.yaml">OpenAPI</a></span></p>'
        "</article>"
    )


def _payment_section(settings: Settings, entries: Sequence[tuple[Service, FrontPageEntry]], shell: PageShell) -> str:
    """Each way has a title, a text and a link, the last two as HTML."""
    plans = html.escape(" ".join(map(_describe_plan, open_plans(settings).all)))
    wallet = (
        f"Register a wallet, deposit at least {_amount(MINIMUM_DEPOSIT_MICROS)} USDC, and sign each call: "
        f"{usd(AGENT_CALL_MICROS)} USD a call, no key."
    )
    ways = [
        ("With a key", plans, '<a class="button" href="/keys">Get a free key</a>'),
        ("From a wallet", wallet, '<a href="/wallet">Register and deposit</a>'),
    ]
    offers: dict[str, list[str]] = {}
    for service, entry in entries:
        if terms := terms_per_request(service):
            offers.setdefault(describe_price(terms, settings), []).append(entry.title)
    if offers:
        prices = [f"{html.escape(', '.join(titles))}: {price}." for price, titles in offers.items()]
        more = " The API references list the others." if len(prices) > MAX_PRICES else ""
        text = f"{' '.join(prices[:MAX_PRICES])}{more} A 402 response says how to pay for the request (x402)."
        ways.append(("Per request", text, '<a href="/guide/x402">How to pay</a>'))
    free = [entry.title for service, entry in entries if not any(one.terms.is_metered for one in service.endpoints)]
    if free:
        ways.append(("Free", f"{html.escape(', '.join(free))}: no cost, no key.", ""))
    ways.append(_way_of_agents(shell))
    listed = "".join(f"<div><h3>{title}</h3><p>{text}</p><p>{more}</p></div>" for title, text, more in ways)
    heading = '<h2 id="payment">Access and payment</h2>'
    return f'<section aria-labelledby="payment">{heading}<div class="ways">{listed}</div></section>'


def _describe_plan(plan: Plan) -> str:
    per_day = plan.limits.requests_per_day
    limit = f"{per_day:,} requests a day" if per_day else f"{plan.limits.requests_per_minute:,} requests a minute"
    price = f" for {_amount(plan.month_micros)} USD a month" if plan.month_micros else ""
    return f"{plan.name.capitalize()}: {limit}{price}."


def _amount(micros: int) -> str:
    """`49_000_000` -> `"49"`. Cents are shown only where there are some."""
    return usd(micros).removesuffix(".00")


def _way_of_agents(shell: PageShell) -> tuple[str, str, str]:
    others = " and under each service" if len(shell.prefixes) > 1 else ""
    prefix = html.escape(next(iter(shell.prefixes.values()), ""))
    files = (
        ("/llms.txt", "llms.txt"),
        ("/.well-known/api-catalog", "API catalogue"),
        ("/.well-known/agent-card.json", "agent card"),
    )
    links = " · ".join(f'<a href="{path}">{name}</a>' for path, name in files)
    return "As an agent", f"MCP at <code>{prefix}/mcp</code>{others}, or read:", links
