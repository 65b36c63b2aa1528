"""Discovery: robots.txt, sitemap.xml, llms.txt, API catalogue (RFC 9727), security.txt (RFC 9116), agent card (A2A).

Those at the root of a host describe every service, those under a service's prefix only that one.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import msgspec

from tollhouse import __version__, clock
from tollhouse.config.settings import Settings
from tollhouse.console.reference import reference_path
from tollhouse.http.a2a import VERSION, A2aEndpoint, skills_of
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.hosts import OwnHosts
from tollhouse.http.inner_calls import InnerCalls
from tollhouse.http.openapi import price_sentence
from tollhouse.http.response import compute_etag, json_response
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import page_endpoint, serve

LINKSET = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'
TEXT = "text/plain; charset=utf-8"
XML = "application/xml"
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
CACHED = "public, max-age=300"
SECURITY_VALID = timedelta(days=180)

_HOST = re.compile(r"[A-Za-z0-9.\[\]:-]{1,255}")


def discovery_pages(settings: Settings, services: Sequence[Service], prefixes: Sequence[str]) -> list[Endpoint]:
    """The documents about `services`, each mounted under its prefix."""
    root = settings.link_root
    described = [(service, f"{root}{prefix}") for service, prefix in zip(services, prefixes, strict=True)]
    linked = ((b"link", b'</.well-known/api-catalog>; rel="api-catalog"'),)
    return [
        _page("/llms.txt", _llms(root, described), TEXT),
        _page("/.well-known/api-catalog", _catalog(root, described), LINKSET, linked),
        _security(settings),
    ]


def crawler_pages(settings: Settings, paths: Sequence[str]) -> list[Endpoint]:
    """`/robots.txt` and `/sitemap.xml`, with these pages of the host."""

    async def robots(request: Request[None, None]) -> Response:
        lines = ["User-agent: *", "Disallow: /operator", "", f"Sitemap: {base_url(settings, request)}/sitemap.xml", ""]
        return Response("\n".join(lines).encode(), TEXT, cache_control=CACHED)

    async def sitemap(request: Request[None, None]) -> Response:
        urls = "".join(f"<url><loc>{escape(base_url(settings, request) + path)}</loc></url>\n" for path in paths)
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{SITEMAP}">\n{urls}</urlset>\n'
        return Response(text.encode(), XML, cache_control=CACHED)

    return [page_endpoint("/robots.txt", robots, TEXT), page_endpoint("/sitemap.xml", sitemap, XML)]


def _llms(root: str, described: Sequence[tuple[Service, str]]) -> bytes:
    """The services in the format of llmstxt.org, with endpoints and prices."""
    answers = any(service.assistant for service, _ in described)
    talking = f"; agents that talk: `{root}/.well-known/agent-card.json`" if answers else ""
    lines = [
        "# Tollhouse",
        "",
        "> Services for people and software agents, metered and paid per call.",
        "",
        f"- [Quick start for an agent]({root}/guide/start-agent): how to call, sign and pay, with complete programs",
        f"- [OpenAPI of the whole host]({root}/openapi.json): every operation, with `x-payment-info` where it is sold",
        f"- [x402 resources]({root}/discovery/resources): what is sold by the call, with its schemas",
        f"- MCP at `{root}/mcp`: every tool{talking}",
        "",
    ]
    for service, base in described:
        lines += [f"## {service.title}", "", service.description, ""]
        lines += [f"- [OpenAPI]({base}/api/openapi.json): OpenAPI 3.1, with the price of every endpoint"]
        lines += [f"- [API reference]({root}{reference_path(service)}): every endpoint, with code samples"]
        lines += [
            f"- `{endpoint.method} {base}{endpoint.path}`: {endpoint.summary}. {price_sentence(endpoint.terms)}"
            for endpoint in service.endpoints
            if endpoint.is_described
        ]
        lines += [""]
    return "\n".join(lines).encode()


def _catalog(root: str, described: Sequence[tuple[Service, str]]) -> bytes:
    linkset = [
        {
            "anchor": f"{base}/",
            "service-desc": [
                {"href": f"{base}/api/openapi.json", "type": "application/vnd.oai.openapi+json;version=3.1"},
                {"href": f"{base}/api/openapi.yaml", "type": "application/yaml"},
            ],
            "service-doc": [
                {"href": f"{base}/docs", "type": "text/html"},
                {"href": f"{root}{reference_path(service)}", "type": "text/html"},
            ],
            "status": [{"href": f"{base}/health", "type": JSON}],
        }
        for service, base in described
    ]
    return msgspec.json.encode({"linkset": linkset})


def base_url(settings: Settings, request: Request[Any, None]) -> str:
    """The URL of the root: the public one, else that of the requested host."""
    return settings.public_url.rstrip("/") or f"http://{_requested_host(request)}{settings.root_path}"


def _requested_host(request: Request[Any, None]) -> str:
    host = request.http.header(b"host") if request.http else ""
    return host if _HOST.fullmatch(host) else "localhost"


def _security(settings: Settings) -> Endpoint:
    async def security(request: Request[None, None]) -> Response:
        expires = clock.iso(clock.now() + SECURITY_VALID)
        text = f"Contact: {_contact(settings, request)}\nExpires: {expires}\nPreferred-Languages: en\n"
        return Response(text.encode(), TEXT)

    return page_endpoint("/.well-known/security.txt", security, TEXT)


def _contact(settings: Settings, request: Request[None, None]) -> str:
    """The setting `contact`, else the site if it is https, else the mailbox of RFC 2142."""
    site = urlsplit(settings.public_url)
    if settings.contact or site.scheme == "https":
        return settings.contact or f"{settings.public_url.rstrip('/')}/"
    host = site.hostname or _requested_host(request).partition(":")[0]
    has_name = any(map(str.isalpha, host)) and ":" not in host and "[" not in host
    return f"mailto:security@{host if has_name else 'localhost'}"


def _page(path: str, body: bytes, media_type: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Endpoint:
    response = Response(body, media_type, compute_etag(body), headers, cache_control=CACHED)
    return page_endpoint(path, serve(response), media_type)


def agent_pages(
    settings: Settings, calls: InnerCalls, mounted: Sequence[tuple[Service, str]], prefix: str
) -> list[Endpoint]:
    """`/.well-known/agent-card.json` and `/a2a` of these services, mounted at `prefix`; none where none answers."""
    skills = skills_of(mounted)
    if not skills:
        return []

    async def card(request: Request[None, None]) -> Response:
        root = base_url(settings, request)
        members = {
            "name": "Tollhouse",
            "description": "; ".join(service.title for service, _ in mounted if service.assistant),
            "version": __version__,
            "supportedInterfaces": [
                {"url": f"{root}{prefix}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": VERSION}
            ],
            "provider": {"organization": "Tollhouse", "url": f"{root}/"},
            "documentationUrl": f"{root}/guide/discovery",
            "capabilities": {"streaming": False, "pushNotifications": False},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain", JSON],
            "skills": [skill.described() for skill in skills],
        }
        return json_response(members, CACHED)

    answering = A2aEndpoint(calls, OwnHosts(settings), skills)
    return [page_endpoint("/.well-known/agent-card.json", card, JSON), answering.endpoint()]
