"""What directories of paid APIs read: one OpenAPI document of the host, and its x402 resources."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from string import ascii_letters, digits
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from tollhouse import __version__, clock
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.console.discovery import CACHED, base_url
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.host_openapi import ServiceDocument, merge
from tollhouse.http.paid_paths import SIWX_PATH
from tollhouse.http.response import json_response
from tollhouse.http.router import Route
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import YAML, as_yaml_text, lazy, page_endpoint
from tollhouse.http.terms import FREE
from tollhouse.payments.x402.bazaar import PATH_PARAMETER
from tollhouse.payments.x402.types import EXACT, UPTO

X402_VERSION = 2
LONGEST_LIST = 500

Json = dict[str, Any]
_NAME_CHARACTERS = frozenset(f"{ascii_letters}{digits}.-")
Mounted = Sequence[tuple[Service, str]]

GUIDANCE = """Operations that are metered and paid per call. An operation with `x-payment-info` answers 402 with an
x402 challenge: pay it with any x402 client (USDC, scheme `exact`, or `upto` where the price is dynamic and the
challenge says so); no account is needed. Paths under `/x402` are paid on every call. Other priced operations have a
free allowance, or take an API key (`POST /api/keys/create`, free). `limit`, `q` and filters make answers smaller. The
same operations are MCP tools at `/mcp`. Errors are problem+json with a stable `code`."""


class ResourceQuery(Struct, frozen=True, forbid_unknown_fields=True, rename={"pay_to": "payTo"}):
    """Filters of the list of x402 resources."""

    type: Annotated[str, Meta(max_length=20, description="`http` or `mcp`")] = ""
    pay_to: Annotated[str, Meta(max_length=64, description="The address that is paid, in any case")] = ""
    scheme: Annotated[str, Meta(max_length=40, description="The payment scheme, such as `exact`")] = ""
    network: Annotated[str, Meta(max_length=64, description="The network, such as `eip155:8453`")] = ""
    extensions: Annotated[str, Meta(max_length=64, description="The name of an extension it must have")] = ""
    limit: Annotated[int, Meta(ge=1, le=LONGEST_LIST)] = 100
    offset: Annotated[int, Meta(ge=0)] = 0


def directory_pages(context: AppContext, mounted: Mounted, tools: Mapping[str, Route]) -> list[Endpoint]:
    """`/openapi.json`, `/openapi.yaml`, `/server.json`, `/discovery/resources` and `/.well-known/x402` of a host.

    `tools` are those of the host's `/mcp`. The services were described to `context.offers`.
    """
    as_json = lazy(lambda: msgspec.json.encode(host_document(context, mounted)), JSON, CACHED)
    as_yaml = lazy(lambda: as_yaml_text(host_document(context, mounted)), YAML, CACHED)
    started = clock.iso(clock.now())
    settings = context.settings

    @lru_cache(maxsize=4)
    def resources(root: str) -> list[Json]:
        sold = _sold(context, mounted, tools, root)
        return [{**one, "lastUpdated": started} for one in sold]

    async def listed(request: Request[ResourceQuery, None]) -> Response:
        query = request.query
        fitting = [one for one in resources(base_url(settings, request)) if _fits(one, query)]
        page = fitting[query.offset : query.offset + query.limit]
        pagination = {"limit": query.limit, "offset": query.offset, "total": len(fitting)}
        return json_response({"x402Version": X402_VERSION, "items": page, "pagination": pagination}, CACHED)

    async def well_known(request: Request[None, None]) -> Response:
        root = base_url(settings, request)
        urls = list(dict.fromkeys(one["resource"] for one in resources(root) if one["type"] == "http"))
        facts = {"version": 1, "resources": urls, "openapi": f"{root}/openapi.json", "instructions": f"{root}/llms.txt"}
        return json_response({**facts, "discovery": f"{root}/discovery/resources"}, CACHED)

    async def registry_entry(request: Request[None, None]) -> Response:
        return json_response(_registry_entry(base_url(settings, request), mounted), CACHED)

    return [
        page_endpoint("/server.json", registry_entry, JSON),
        page_endpoint("/openapi.json", as_json, JSON),
        page_endpoint("/openapi.yaml", as_yaml, YAML),
        page_endpoint("/.well-known/x402", well_known, JSON),
        Endpoint("listX402Resources", "GET", "/discovery/resources", "x402 resources of this host", listed, FREE,
                 query=ResourceQuery, responses={JSON: {"type": "object"}}, is_described=False),
    ]  # fmt: skip


def host_document(context: AppContext, mounted: Mounted) -> Json:
    """The OpenAPI document with every operation of the host."""
    settings = context.settings
    info = {
        "title": _title(mounted),
        "version": mounted[0][0].version if len(mounted) == 1 else __version__,
        "description": "; ".join(service.title for service, _ in mounted),
        "contact": _contact(settings),
        "x-guidance": " ".join(GUIDANCE.split()),
    }
    parts = [ServiceDocument(one.name, prefix, context.offers.document(one.name)) for one, prefix in mounted]
    return merge(parts, info, [{"url": settings.link_root or "/"}])


def _title(mounted: Mounted) -> str:
    """The title of a service that the host serves alone, else that of this program."""
    return mounted[0][0].title if len(mounted) == 1 else "Tollhouse"


def _registry_entry(root: str, mounted: Mounted) -> Json:
    """The entry of the host's `/mcp` for the MCP registry, named after the host as the registry wants it."""
    host = urlsplit(root).hostname or ""
    is_named = host.rpartition(".")[2].isalpha() and not set(host) - _NAME_CHARACTERS
    namespace = ".".join(reversed(host.split("."))) if is_named else "localhost"
    key = {"name": "Authorization", "description": "Bearer and an API key; not needed for free and paid calls",
           "isRequired": False, "isSecret": True}  # fmt: skip
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": f"{namespace[:150]}/{mounted[0][0].name if len(mounted) == 1 else 'tollhouse'}",
        "title": _title(mounted),
        "description": "Operations of this server as tools, metered and paid per call (API key, x402)",
        "version": __version__,
        "websiteUrl": f"{root}/",
        "remotes": [{"type": "streamable-http", "url": f"{root}/mcp", "headers": [key]}],
    }


def _contact(settings: Settings) -> Json:
    if settings.contact.startswith("mailto:"):
        return {"email": settings.contact.removeprefix("mailto:")}
    return {"url": settings.contact if settings.contact.startswith("https:") else f"{settings.root_url}/"}


def _sold(context: AppContext, mounted: Mounted, tools: Mapping[str, Route], root: str) -> Iterator[Json]:
    """Each operation that is paid at every call, over HTTP, and each tool that can be paid.

    An operation with an allowance stands here with its path under `/x402`: a directory that probes it gets a challenge.
    """
    if context.per_request.x402 is None:
        return
    for service, prefix in mounted:
        for endpoint in service.endpoints:
            if endpoint.terms.opens_to == "payer" and endpoint.paid_prefix != SIWX_PATH:
                path = PATH_PARAMETER.sub(r":\1", f"{prefix}{endpoint.path}")
                yield _resource(context, Route(service, endpoint, prefix), root, "") | {"resource": f"{root}{path}"}
    for name, route in tools.items():
        if _price(route.endpoint) is not None:
            yield _resource(context, route, root, name) | {"resource": f"{root}/mcp"}


def _resource(context: AppContext, route: Route, root: str, tool: str) -> Json:
    x402, price, endpoint = context.per_request.x402, _price(route.endpoint), route.endpoint
    assert x402 is not None, "payments are configured"
    assert price is not None, "the operation is sold"
    is_measured = endpoint.terms.price is not None and endpoint.terms.price.max_micros is not None
    extensions = context.offers.extensions(route, root, tool)
    return {
        "type": "mcp" if tool else "http",
        "x402Version": X402_VERSION,
        "accepts": [one.v2() for one in x402.accepts(price, UPTO if is_measured else EXACT)],
        "description": endpoint.summary,
        "mimeType": next(iter(endpoint.responses), JSON),
        "serviceName": route.service.title[:32],
        "tags": [route.service.name, *([endpoint.tag] if endpoint.tag else [])],
        # Whole here: only a header is limited in size.
        "extensions": {name: msgspec.Raw(sizes[0]) for name, sizes in extensions.items()},
    }


def _price(endpoint: Endpoint) -> int | None:
    """What a call that is paid by itself costs at least, in micro-USD; None where it cannot be."""
    price = endpoint.terms.price if endpoint.terms.takes_payments else None
    return None if price is None else price.micros()


def _fits(resource: Json, query: ResourceQuery) -> bool:
    accepts = resource["accepts"]
    return (
        (not query.type or resource["type"] == query.type)
        and (not query.extensions or query.extensions in resource["extensions"])
        and any(
            (not query.pay_to or one["payTo"].lower() == query.pay_to.lower())
            and (not query.scheme or one["scheme"] == query.scheme)
            and (not query.network or one["network"] == query.network)
            for one in accepts
        )
    )
