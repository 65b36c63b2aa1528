"""The front page: a section or a card of each service, how to publish a table, and the prices."""

import html
from collections.abc import Sequence

from msgspec import Struct

from tollhouse.accounts.plans import MINIMUM_DEPOSIT_MICROS, Plan, open_plans
from tollhouse.config.settings import Settings
from tollhouse.console.page_shell import HERE, PageShell, fill_template
from tollhouse.console.pages import needs_key, page_texts, terms_per_request
from tollhouse.http.endpoint import Response
from tollhouse.http.pages import FrontPageEntry
from tollhouse.http.service import Service
from tollhouse.http.terms import Terms
from tollhouse.money import usd

_COLUMNS = ("Service", "Free", "With a key", "Per request", "Wallet, per call", "Reference")


class _Section(Struct, frozen=True):
    """A part of the page about one service, or about all of a group."""

    title: str
    members: list[tuple[Service, FrontPageEntry]]

    @property
    def first(self) -> tuple[Service, FrontPageEntry]:
        return self.members[0]


def home_page(settings: Settings, services: Sequence[Service], shell: PageShell) -> Response:
    """The sections in the services' order, the leading one first; then the cards of services without a section."""
    sections: dict[str, _Section] = {}
    for service in services:
        if entry := service.front_page:
            key, title = (entry.group.path, entry.group.label) if entry.group else (service.name, entry.title)
            sections.setdefault(key, _Section(title, [])).members.append((service, entry))
    ordered = sorted(sections.values(), key=lambda one: not one.first[1].is_lead)
    pieces = [one for one in ordered if one.first[1].file]
    leads = [one for one in pieces if one.first[1].is_lead]
    cards = "".join(_card(*each, settings, shell) for one in ordered if not one.first[1].file for each in one.members)
    files = [(entry.file, entry.scripts) for one in pieces for entry in [one.first[1]]]
    scripts = ["front.css", *(name for file, own in files if file for name in shell.files.names(file, own)), "front.js"]
    facts = {service.name: entry.facts for one in pieces for service, entry in one.members if entry.facts is not None}
    main = (
        "".join(_piece(one, settings, shell) for one in leads)
        + _heading(is_led=bool(leads))
        + "".join(_piece(one, settings, shell) for one in pieces if one not in leads)
        + (
            f'<section class="services" aria-label="Services"><div class="cards">{cards}</div></section>'
            if cards
            else ""
        )
        + fill_template(HERE / "pages" / "publish.html", {})
        + _prices(settings, ordered, shell)
    )
    return shell.page("/", "Tollhouse", main, scripts=list(dict.fromkeys(scripts)), facts=facts)


def _piece(section: _Section, settings: Settings, shell: PageShell) -> str:
    service, entry = section.first
    assert entry.file
    texts = {**page_texts(service, settings, shell), "page": entry.page}
    content = fill_template(entry.file, texts)
    title = html.escape(section.title)
    if entry.is_lead:
        return f'<section class="piece lead" aria-label="{title}">{content}</section>'
    path = entry.group.path if entry.group else entry.page
    summary = html.escape(entry.group.summary if entry.group else entry.summary)
    return (
        f'<section class="piece" aria-labelledby="piece-{service.name}"><header>'
        f'<h2 id="piece-{service.name}"><a href="{path}">{title}</a></h2><p class="dim">{summary}</p></header>'
        f"{content}</section>"
    )


def _heading(*, is_led: bool) -> str:
    """What this server is. It stands on top, or under the section that leads."""
    size = "h1" if not is_led else 'h1 class="small-title"'
    return (
        f'<header class="hero"><{size}>Data feeds and catalogues, paid per call</h1><p class="dim">Read these pages '
        "without an account. Programs call the same data with a key, from a wallet, or pay per request.</p></header>"
    )


def _card(service: Service, entry: FrontPageEntry, settings: Settings, shell: PageShell) -> str:
    prefix = shell.prefixes[service.name]
    title = html.escape(entry.title)
    # Without a public address, the page's script inserts the address at which the visitor reads the page.
    base = f"{settings.public_url.rstrip('/') or '{origin}' + settings.root_path}{prefix}"
    key = "-H 'Authorization: Bearer YOUR_KEY' \\\n  " if needs_key(service, entry.example_calls[0]) else ""
    call = html.escape(f"curl {key}'{base}{entry.example_calls[0]}'")
    return (
        f'<article class="card"><h2><a href="{entry.page}">{title}</a></h2>'
        f'<p class="dim">{html.escape(entry.summary)}</p>'
        f'<div class="snippet"><pre tabindex="0" aria-label="Example call to {title}"><code>{call}</code></pre></div>'
        f'<p class="actions"><a class="button quiet" href="{entry.page}">{html.escape(entry.button)}</a> '
        f'<a href="{prefix}/docs">API reference</a></p></article>'
    )


def _prices(settings: Settings, sections: Sequence[_Section], shell: PageShell) -> str:
    """One table: a row for each price list of a service, and the plans of keys under it."""
    rows = "".join(_price_row(one, settings, shell) for one in sections)
    plans = html.escape(" ".join(map(_describe_plan, open_plans(settings).all)))
    names = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    return (
        '<section class="prices" aria-labelledby="prices"><h2 id="prices">Prices</h2>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Prices by service"><table>'
        f"<thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<p class="small dim">{plans} A wallet deposits at least {_amount(MINIMUM_DEPOSIT_MICROS)} USDC and signs '
        'each call (<a href="/wallet">how</a>). A 402 response says how to pay for one request '
        '(<a href="/guide/x402">x402</a>). Calls that fail cost nothing.</p></section>'
    )


def _price_row(section: _Section, settings: Settings, shell: PageShell) -> str:
    service, entry = section.first
    prefix = shell.prefixes[service.name]
    metered = [one.terms for one in service.endpoints if one.terms.is_metered]
    keyed = any(one.opens_to == "key" for one in metered)
    sold = terms_per_request(service)
    wallet = [one.price.micros() for one in metered if one.price]
    cells = (
        _free(sold, settings) if sold else "With a free key" if keyed else "All requests",
        "Every plan" if keyed else "Paid plans" if sold else "Not needed",
        f"{usd(sold.price.micros())} USDC" if sold and sold.price else "none",
        f"{usd(min(wallet))} USD" if wallet else "none",
    )
    path = entry.group.path if entry.group else entry.page
    name = f'<th scope="row"><a href="{path}">{html.escape(section.title)}</a></th>'
    reference = f'<td><a href="{prefix}/docs">API reference</a></td>'
    return f"<tr>{name}{''.join(f'<td>{html.escape(text)}</td>' for text in cells)}{reference}</tr>"


def _free(terms: Terms, settings: Settings) -> str:
    free = terms.free_requests(settings.free_per_ip_per_day)
    return f"{free:,} requests a day" if free else "None"


def _describe_plan(plan: Plan) -> str:
    per_day = plan.limits.requests_per_day
    limit = f"{per_day:,} requests a day" if per_day else f"{plan.limits.requests_per_minute:,} requests a minute"
    price = f" for {_amount(plan.month_micros)} USD a month" if plan.month_micros else ""
    return f"{plan.name.capitalize()}: {limit}{price}."


def _amount(micros: int) -> str:
    """`49_000_000` -> `"49"`. Cents are shown only where there are some."""
    return usd(micros).removesuffix(".00")
