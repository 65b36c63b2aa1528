"""A page for each declared table, the list of them, and how they stand on the front page."""

import html
from collections.abc import Sequence
from string import Template
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.config.settings import Settings
from tollhouse.console.page_facts import offer
from tollhouse.console.page_shell import HTML, Frame, Link, fragment
from tollhouse.http.browsing import Browsing
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE

TABLES = "/tables"

_TEXTS = ("q", "sort", "offset", "item")


def table_links(services: Sequence[Service]) -> list[Link]:
    """The navigation's way to the tables, where there are any."""
    return [Link(TABLES, "Tables")] if any(service.browsing for service in services) else []


def table_pages(settings: Settings, services: Sequence[Service], frame: Frame) -> list[Endpoint]:
    """`/tables`, and a page under it for each table."""
    tables = [(service, service.browsing) for service in services if service.browsing]
    if not tables:
        return []
    rows = "".join(_entry(settings, service, browsing, frame) for service, browsing in tables)
    about = "Catalogues to search, to filter, and to take along as files."
    main = f'<h1>Tables</h1><p class="dim">{about}</p><div class="cards">{rows}</div>'
    listing = frame.page(TABLES, "Tables · Tollhouse", main)
    return [
        _operation(TABLES, "Tables", listing, None),
        *(_table_page(settings, service, browsing, frame) for service, browsing in tables),
    ]


def table_rows(settings: Settings, services: Sequence[Service], frame: Frame) -> str:
    """The tables' part of the list of services on the front page, as HTML."""
    return "".join(_row(settings, service, service.browsing, frame) for service in services if service.browsing)


def _table_page(settings: Settings, service: Service, browsing: Browsing, frame: Frame) -> Endpoint:
    path = f"{TABLES}/{service.name}"
    facts = {"service": service.name, **msgspec.to_builtins(browsing)}
    told = {"title": browsing.title, "about": browsing.description, "source": browsing.source,
            "licence": browsing.licence, "prefix": frame.prefixes[service.name],
            "offer": _offer(settings, service)}  # fmt: skip
    main = Template(fragment("table")).substitute({name: html.escape(text) for name, text in told.items()})
    page = frame.page(path, f"{browsing.title} · Tollhouse", main, scripts=("table.css", "table.js"), facts=facts)
    return _operation(path, browsing.title, page, _address(browsing))


def _address(browsing: Browsing) -> type[Struct]:
    """The page's script reads its address; the gate only has to know which parameters are its own."""
    ends = [f"{end}_{field.name}" for field in browsing.fields if field.is_ranged for end in ("min", "max")]
    texts: list[tuple[str, Any, Any]] = [(name, str | None, None) for name in (*_TEXTS, *ends)]
    lists: list[tuple[str, Any, Any]] = [
        (field.name, list[str], msgspec.field(default_factory=list)) for field in browsing.fields if field.is_filtered
    ]
    return msgspec.defstruct("table_address", [*texts, *lists], frozen=True)


def _operation(path: str, title: str, page: Response, query: type[Struct] | None) -> Endpoint:
    async def serve(_asked: Request[Any, Any]) -> Response:
        return page

    return Endpoint(
        f"page {path}", "GET", path, title, serve, FREE,
        query=query, responses={HTML.partition(";")[0]: {}}, is_described=False,
    )  # fmt: skip


def _entry(settings: Settings, service: Service, browsing: Browsing, frame: Frame) -> str:
    title, about = html.escape(browsing.title), html.escape(browsing.description)
    rights = html.escape(f"Source: {browsing.source}. Licence: {browsing.licence}.")
    return (
        f'<article class="card"><h2><a href="{TABLES}/{service.name}">{title}</a></h2><p>{about}</p>'
        f'<p class="small dim">{html.escape(_offer(settings, service))}. {rights}</p>'
        f'<p class="actions"><a class="button" href="{TABLES}/{service.name}">Search the table</a> '
        f'<a href="{frame.prefixes[service.name]}/docs">Reference</a></p></article>'
    )


def _offer(settings: Settings, service: Service) -> str:
    """What a request costs; the paid operations of a table have the same terms."""
    return offer(next(one.terms for one in service.endpoints if one.terms.is_metered), settings)


def _row(settings: Settings, service: Service, browsing: Browsing, frame: Frame) -> str:
    prefix = frame.prefixes[service.name]
    title = html.escape(browsing.title)
    about = browsing.description or f"A table of {len(browsing.fields)} columns to search and filter"
    sentence = html.escape(f"{about.rstrip('.')}.")
    # Without a public address the page's script puts the visitor's own in.
    call = html.escape(f"curl '{settings.public_url.rstrip('/') or '{origin}'}{prefix}/api/items?limit=5'")
    return (
        f'<article><div><h3>{title}</h3><p class="dim">{sentence}</p></div>'
        f'<div class="snippet"><pre tabindex="0" aria-label="First call to {title}"><code>{call}</code></pre></div>'
        f'<p class="ways-in"><a class="button" href="{TABLES}/{service.name}">Search the table</a><span>'
        f'<a href="{prefix}/docs">Reference</a> <a href="{prefix}/api/openapi.yaml">OpenAPI</a></span></p></article>'
    )
