"""The endpoints at the root of a host: the front page, the console, and what only the operator opens."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.admission.visits import VISIT_SECONDS
from tollhouse.config.settings import Settings
from tollhouse.console.call_samples import samples_endpoint
from tollhouse.console.directory import GUIDANCE
from tollhouse.console.discovery import crawler_pages
from tollhouse.console.error_pages import ErrorPages
from tollhouse.console.guide import Guide
from tollhouse.console.home_page import home_page
from tollhouse.console.operator import operator_endpoints
from tollhouse.console.page_shell import Link, PageFiles, PageShell
from tollhouse.console.pages import build_page_shell, console_pages, page_query
from tollhouse.console.status import StatusBoard
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.response import json_response
from tollhouse.http.router import Router
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE


def mount_front(
    router: Router,
    board: StatusBoard,
    services: Sequence[Service],
    prefixes: Sequence[str],
    accounts: Service | None,
) -> Service:
    """Mount the endpoints at the root, beside those of the services under `prefixes` and of `accounts` at the root.

    Errors of this router are pages for browsers.
    """
    context = board.context
    settings = context.settings
    shell = build_page_shell(settings, services, prefixes)

    endpoints = [
        _index(settings, services, shell),
        *console_pages(settings, services, shell),
        *Guide(settings, [*services, *([accounts] if accounts else [])], shell).endpoints(),
        *board.endpoints(shell, services),
        visit_endpoint(context),
        samples_endpoint(
            context, settings, [*services, *([accounts] if accounts else [])], [*prefixes, *([""] if accounts else [])]
        ),
        *([] if settings.operator_listen else operator_endpoints(context, services, shell)),
    ]
    front = Service("front", "Tollhouse", __version__, GUIDANCE, endpoints)
    router.mount(front, "")
    for service, prefix in zip(services, prefixes, strict=True):
        if prefix:
            router.add(front, _entry(settings, service, prefix), "")
    pages = sorted(one.path for one in endpoints if "text/html" in one.responses and "{" not in one.path)
    for page in crawler_pages(settings, [path for path in pages if not path.startswith("/operator")]):
        router.add(front, page, "")
    router.error_page = ErrorPages(shell, router.literal_paths()).render
    return front


class VisitToken(Struct, frozen=True):
    """What a page sends as `X-Visit-Token` instead of a key, and for how long."""

    token: str
    valid_seconds: int


def visit_endpoint(context: AppContext) -> Endpoint:
    """`POST /console/visit`, where the pages get the token with which they read without a key."""

    async def visit(request: Request[None, None]) -> VisitToken:
        return VisitToken(context.visits.new_token(request.over_http, request.address), VISIT_SECONDS)

    return Endpoint(
        "visit", "POST", "/console/visit", "Visit", visit, FREE, responses={JSON: VisitToken}, is_described=False
    )


def operator_service(context: AppContext, services: Sequence[Service]) -> Service:
    """The endpoints of the operator's own listener; its page stands at the root as well."""
    shell = PageShell({}, "", (Link("/operator", "Operator"),), (), (), (), PageFiles([]), root_path="")
    endpoints = operator_endpoints(context, services, shell)
    root = [replace(each, id="page /", path="/") for each in endpoints if each.path == "/operator"]
    endpoints += [*root, *shell.files.endpoints()]
    return Service("operator", "Tollhouse: operator", __version__, "", endpoints)


def _index(settings: Settings, services: Sequence[Service], shell: PageShell) -> Endpoint:
    """`/`: the list of services for programs, the front page for a client that accepts HTML."""
    page = home_page(settings, services, shell)
    listed = [_listed(service, f"{settings.link_root}{shell.prefixes[service.name]}") for service in services]
    listing = json_response({"name": "tollhouse", "version": __version__, "services": listed})

    async def index(request: Request[Any, None]) -> Response:
        return listing if request.media_type == JSON else page

    responses: dict[str, Any] = {JSON: {}, "text/html": {}}
    query = page_query([one.front_page for one in services if one.front_page])
    return Endpoint(
        "getServices", "GET", "/", "Services", index, FREE,
        query=query, responses=responses, is_described=False,
    )  # fmt: skip


def _listed(service: Service, base: str) -> dict[str, str]:
    """A service in the list of services; `base` is its address."""
    return {
        "name": service.name,
        "title": service.title,
        "base_url": base,
        "docs": f"{base}/docs",
        "openapi": f"{base}/api/openapi.yaml",
        "health": f"{base}/health",
    }


def _entry(settings: Settings, service: Service, prefix: str) -> Endpoint:
    """The prefix itself: where the service's documents are, for programs; its page, for a client that accepts HTML."""
    entry = json_response(_listed(service, f"{settings.link_root}{prefix}"))
    page = service.front_page.page if service.front_page else f"{prefix}/docs"
    opened = Response(b"", "text/html", None, ((b"location", page.encode()),), 303)

    async def show(request: Request[Any, None]) -> Response:
        return entry if request.media_type == JSON else opened

    responses: dict[str, Any] = {JSON: {}, "text/html": {}}
    return Endpoint(f"page {prefix}", "GET", prefix, service.title, show, FREE, responses=responses, is_described=False)
