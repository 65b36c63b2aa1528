"""The pages of a host: those its services declare, those of accounts, and lists of page groups."""

import html
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.accounts.plans import MINIMUM_DEPOSIT_MICROS, open_plans
from tollhouse.config.settings import Settings
from tollhouse.console.guide import read_page
from tollhouse.console.page_shell import HERE, HTML, Link, PageFiles, PageShell, fill_template
from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.pages import FrontPageEntry, Page, PageGroup
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import serve
from tollhouse.http.terms import AGENT_CALL, FREE, Terms
from tollhouse.money import usd

SAMPLES = "agents-client"

_FILES = HERE / "pages"
_SAMPLE = re.compile(
    r"^## (?P<title>[^\n]+)\n\n`(?P<install>[^`\n]+)`\n\n```\w+\n(?P<code>.*?)```", re.MULTILINE | re.DOTALL
)
_CHAINS = {8453: "Base", 84532: "Base Sepolia", 1: "Ethereum"}


def build_page_shell(settings: Settings, services: Sequence[Service], prefixes: Sequence[str]) -> PageShell:
    """The shell of a host with these services, each mounted under its prefix."""
    entries = [entry for service in services if (entry := service.front_page)]
    # The main page of each service, then the others.
    main, others = [one.pages[:1] for one in services], [one.pages[1:] for one in services]
    shown = [page.group or page for pages in (*main, *others) for page in pages]
    links = dict.fromkeys(Link(one.path, one.label) for one in shown)
    mounted = dict(zip((service.name for service in services), prefixes, strict=True))
    calls = [(one, call) for one in services if one.front_page for call in one.front_page.example_calls]
    keyed_call = next((f"{mounted[one.name]}{call}" for one, call in calls if needs_key(one, call)), "")
    tools = (Link("/guide", "Docs"), Link("/status", "Status"), Link("/keys", "Get a key"))
    footer = (
        Link("/status", "Sources and age"),
        Link("/llms.txt", "llms.txt"),
        Link("/.well-known/api-catalog", "OpenAPI"),
        Link("/wallet", "Wallet"),
        *([] if settings.operator_listen else [Link("/operator", "Operator")]),
    )
    sources = tuple(dict.fromkeys(name for entry in entries for name in entry.sources))
    pieces = [entry.file.parent for entry in entries if entry.file]
    files = PageFiles([*(page.file.parent for service in services for page in service.pages), *pieces])
    return PageShell(
        mounted, keyed_call, tuple(links), tools, footer, sources, files, settings.console_free > 0, settings.root_path
    )


def console_pages(settings: Settings, services: Sequence[Service], shell: PageShell) -> list[Endpoint]:
    """Every page except the front page and the guide, and the files they load."""
    own = account_pages(settings, services)
    groups: dict[PageGroup, list[tuple[Service, Page]]] = {}
    declared = [(service, page) for service in services for page in service.pages]
    for service, page in declared:
        if page.group:
            groups.setdefault(page.group, []).append((service, page))
    return [
        *(_endpoint(page, _render(page, shell, page_texts(service, settings, shell))) for service, page in declared),
        *(_endpoint(page, _render(page, shell, {})) for page in own),
        *(_page_list(settings, shell, group, members) for group, members in groups.items()),
        *shell.files.endpoints(),
    ]


def account_pages(settings: Settings, services: Sequence[Service]) -> list[Page]:
    """The pages for keys and wallets, which every host has. Prices are shown only where the checkout is configured."""
    prices = settings.stripe_prices if settings.stripe_secret_key else {}
    sold = [
        one.name for one in services if any(each.terms.opens_to == "key" and each.terms.price for each in one.endpoints)
    ]
    keys = {
        "plans": [plan.described() for plan in open_plans(settings).all],
        "prices": prices,
        "contact": settings.contact,
    }
    return [
        Page(
            "/keys", "API keys and plans", "Keys", _FILES / "keys.html", ("keys.js", "accounts.css"), (), ("status",),
            facts=keys,
        ),
        Page(
            "/wallet", "Wallet", "Wallet", _FILES / "wallet.html", ("wallet.js", "accounts.css"), (), ("address",),
            facts={**_wallet_facts(settings), "service": sold[0] if sold else ""},
        ),
    ]  # fmt: skip


def client_samples(prefix: str) -> list[dict[str, str]]:
    """The sample programs of docs/agents-client.md, with this server's prefix of signed messages."""
    samples = [one.groupdict() for one in _SAMPLE.finditer(read_page(SAMPLES))]
    return [{**sample, "code": sample["code"].replace("service:", f"{prefix}:")} for sample in samples]


def needs_key(service: Service, call: str) -> bool:
    """Whether an example call, a path with its query, is of an endpoint that needs a key."""
    path = call.partition("?")[0]
    return any(one.terms.opens_to == "key" for one in service.endpoints if one.path == path)


def terms_per_request(service: Service) -> Terms | None:
    """The terms under which a service sells single requests beyond a free allowance, or None."""
    return next((one.terms for one in service.endpoints if one.terms.price and one.terms.opens_to == "anyone"), None)


def describe_price(terms: Terms, settings: Settings) -> str:
    """The free allowance of an endpoint that is paid per request, and the price beyond it, in words."""
    free = terms.free_requests(settings.free_per_ip_per_day)
    price = terms.price.text.replace("USD", "USDC") if terms.price else "free"
    return f"{free:,} free requests a day, then {price} each" if free else f"{price} a request"


def _wallet_facts(settings: Settings) -> dict[str, Any]:
    """Where a wallet deposits, what a signed call costs, and programs that sign one."""
    chain_id = settings.evm_chain_id
    return {
        "treasury_address": settings.treasury_address if settings.rpc_urls else "",
        "chain": f"{_CHAINS.get(chain_id, 'chain')} ({chain_id})",
        "usdc_address": settings.usdc_address,
        "confirmations": settings.deposit_confirmations,
        "prefix": settings.agent_prefix,
        "call_usd": usd(AGENT_CALL.micros()),
        "minimum_usd": usd(MINIMUM_DEPOSIT_MICROS),
        "samples": client_samples(settings.agent_prefix),
    }


def page_texts(service: Service, settings: Settings, shell: PageShell) -> dict[str, str]:
    terms = terms_per_request(service)
    return {"prefix": shell.prefixes[service.name], "price": describe_price(terms, settings) if terms else "free"}


def _render(page: Page, shell: PageShell, texts: dict[str, str]) -> Response:
    main = fill_template(page.file, {**texts, **page.texts})
    scripts = shell.files.names(page.file, page.scripts)
    title = f"{page.title} · Tollhouse"
    return shell.page(page.path, title, main, scripts=scripts, facts=page.facts)


def _page_list(
    settings: Settings, shell: PageShell, group: PageGroup, members: Sequence[tuple[Service, Page]]
) -> Endpoint:
    cards = "".join(_card(page, page_texts(service, settings, shell)) for service, page in members if page.label)
    label = html.escape(group.label)
    main = f'<h1>{label}</h1><p class="dim">{html.escape(group.summary)}</p><div class="cards">{cards}</div>'
    page = Page(group.path, group.label, group.label, members[0][1].file)
    return _endpoint(page, shell.page(group.path, f"{group.label} · Tollhouse", main))


def _card(page: Page, texts: dict[str, str]) -> str:
    note = html.escape(f"Price: {texts['price']}. {page.note}".strip())
    return (
        f'<article class="card"><h2><a href="{page.path}">{html.escape(page.title)}</a></h2>'
        f'<p>{html.escape(page.summary)}</p><p class="small dim">{note}</p>'
        f'<p class="actions"><a class="button" href="{page.path}">Open</a> '
        f'<a href="{texts["prefix"]}/docs">API reference</a></p></article>'
    )


def page_query(pages: Sequence[Page | FrontPageEntry]) -> type[Struct] | None:
    """The query that the address of a page may carry, or of a page that is made of several."""
    fields: list[tuple[str, Any, Any]] = [(name, str | None, None) for one in pages for name in one.parameters]
    fields += [
        (name, list[str], msgspec.field(default_factory=list)) for one in pages for name in one.list_parameters
    ]  # fmt: skip
    unique = list({field[0]: field for field in fields}.values())
    return msgspec.defstruct("PageQuery", unique, frozen=True) if unique else None


def _endpoint(page: Page, response: Response) -> Endpoint:
    """Serves a page. Its parameters are declared, so that any other is refused."""
    return Endpoint(
        f"page {page.path}", "GET", page.path, page.title, serve(response), FREE,
        query=page_query([page]), responses={HTML.partition(";")[0]: {}}, is_described=False,
    )  # fmt: skip
