"""The routes of a proxied API: of its OpenAPI document, of the rules, and of whatever else is opened."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from tollhouse.accounts.agent_endpoints import AgentEndpoints
from tollhouse.accounts.checkout_endpoints import CheckoutEndpoints
from tollhouse.accounts.key_endpoints import KeyEndpoints
from tollhouse.errors import Problem
from tollhouse.http.code_samples import example_address, lacking
from tollhouse.http.described import DescribedOperation, Json, example_of, schema_of
from tollhouse.http.endpoint import JSON, Endpoint, Example, Handler, Method, Request, Response, declared_members
from tollhouse.http.terms import FREE, Terms
from tollhouse.proxy.cost import answer_price, measuring, stated_price
from tollhouse.proxy.declared import FREE_ACCESS, Access, Pattern, ProxyDeclaration, RouteRule, shape
from tollhouse.proxy.openapi_document import METHODS, DocumentedOperation, free_id, made_id

REST = "{rest:path}"
# Paths of every service, those of a service at the root of a host besides, and ids of a service's operations.
OWN_PATHS = frozenset({"/health", "/docs", "/mcp", "/llms.txt", "/api/openapi.json", "/api/openapi.yaml"})
_ROOT_PATHS = frozenset({
    "/", "/api/keys/create", "/discovery/resources", "/guide", "/keys", "/metrics", "/openapi.json", "/openapi.yaml",
    "/operator", "/robots.txt", "/sitemap.xml", "/status", "/status.json", "/wallet",
})  # fmt: skip
_OWN_IDS = frozenset({"getHealth", "getOpenApiJson", "getOpenApiYaml", "mcp"})
_FAILURES = ("upstream-unavailable", "upstream-suspended", "upstream-timeout", "invalid-request")


@dataclass(frozen=True, slots=True)
class ProxyRoute:
    """One method and path template. `pattern` is that of its rule; `operation` is None where no document has it."""

    method: str
    template: str
    pattern: Pattern | None
    rule: RouteRule
    operation: DocumentedOperation | None
    access: Access


def routes_of(declaration: ProxyDeclaration, *, is_at_root: bool = False) -> list[ProxyRoute]:
    """Every route, those of the document first. A route that is not offered is among them if a wider one has its path.

    Paths of this server itself are left out, which has more of them `is_at_root`.
    """
    documented = {
        (one.method, shape(one.path)): one for one in (declaration.document.operations if declaration.document else ())
    }
    opened, own = _opened(declaration), _own_paths(is_at_root=is_at_root)
    routes = []
    for template in _templates(declaration, documented, opened):
        if template in own:
            continue
        for method in METHODS:
            operation = documented.get((method, shape(template)))
            pattern, rule = declaration.rule(method, template)
            is_listed = operation is not None or (
                pattern is not None and not pattern.is_open and bool(pattern.method) and rule.offered
            )
            # An undocumented method of a documented path belongs to what takes everything below a shorter one.
            is_own = REST in template or (
                pattern is not None and shape(pattern.template.rstrip("/")) == shape(template.rstrip("/"))
            )
            is_own = is_own or any(one.template == f"{template}/" for one in opened)
            is_open = is_own and any(one.covers(method, template) for one in opened)
            if (is_listed and rule.offered) or is_open:
                access = rule.access_in(declaration.head)
                if operation is None and pattern is None:
                    access = cast("Access", declaration.head.other_routes)
                routes.append(ProxyRoute(method, template, pattern, rule, operation, access))
    return sorted(routes, key=lambda one: one.operation is None)


def hidden_operations(declaration: ProxyDeclaration, *, is_at_root: bool = False) -> list[DocumentedOperation]:
    """The operations of the document that cannot be served, because their path is this server's own."""
    own = _own_paths(is_at_root=is_at_root)
    return [one for one in (declaration.document.operations if declaration.document else ()) if one.path in own]


def free_methods(declaration: ProxyDeclaration, *, is_at_root: bool = False) -> dict[str, list[str]]:
    """The methods that `other_routes` opens to everyone at paths where another method costs or needs something."""
    if declaration.head.other_routes != FREE_ACCESS:
        return {}
    declared = [
        one
        for one in routes_of(declaration, is_at_root=is_at_root)
        if REST not in one.template and (one.operation is not None or one.pattern is not None)
    ]
    free: dict[str, list[str]] = {}
    for template in dict.fromkeys(one.template for one in declared if one.access != FREE_ACCESS):
        methods = {one.method for one in declared if one.template == template}
        free[template] = [
            each for each in METHODS if each not in methods and declaration.rule(each, template)[0] is None
        ]
    return {template: methods for template, methods in free.items() if methods}


def _own_paths(*, is_at_root: bool) -> frozenset[str]:
    return OWN_PATHS | _ROOT_PATHS if is_at_root else OWN_PATHS


def endpoints_of_routes(declaration: ProxyDeclaration, handle: Handler, *, is_at_root: bool = False) -> list[Endpoint]:
    """The endpoints of every route, which `handle` passes on."""
    # The account operations stand beside those of a service that is served alone.
    ids = {*_OWN_IDS, *(one["id"] for one in declared_members(KeyEndpoints, AgentEndpoints, CheckoutEndpoints))}
    return [_endpoint(declaration, route, handle, ids) for route in routes_of(declaration, is_at_root=is_at_root)]


def example_call(endpoints: Sequence[Endpoint]) -> str:
    """The path and query of a GET that the document says how to make, with the fewest parameters; "" without one."""
    calls = [one for one in endpoints if one.method == "GET" and one.is_described and not lacking(one)]
    return example_address(min(calls, key=lambda one: len(one.path_parameters))) if calls else ""


def _opened(declaration: ProxyDeclaration) -> list[Pattern]:
    """The patterns under which every path is served."""
    is_open = declaration.head.other_routes != "none"
    opened = [
        pattern
        for pattern, rule in declaration.rules.items()
        if pattern.is_open and rule.offered and (is_open or declaration.document is None)
    ]
    return [*opened, *([Pattern("", "/", is_open=True)] if is_open else [])]


def _templates(
    declaration: ProxyDeclaration, documented: dict[tuple[str, str], DocumentedOperation], opened: list[Pattern]
) -> Iterator[str]:
    """Every path template once."""
    wildcards = [pattern for pattern in declaration.rules if pattern.is_open] if opened else []
    exact = [pattern.template for pattern in declaration.rules if not pattern.is_open]
    whole = {shape(template) for template in exact if template.endswith(":path}")}
    templates = [
        *(
            one.path.removesuffix("}") + ":path}" if shape(one.path) in whole else one.path
            for one in documented.values()
        ),
        *exact,
        *(path for one in [*wildcards, *opened] for path in (one.template.rstrip("/"), f"{one.template}{REST}")),
    ]
    seen: set[str] = set()
    for template in templates:
        if template and (same := shape(template)) not in seen:
            seen.add(same)
            yield template


def _endpoint(declaration: ProxyDeclaration, route: ProxyRoute, handle: Handler, ids: set[str]) -> Endpoint:
    operation, method = route.operation, cast("Method", route.method)
    name = free_id(operation.id if operation else made_id(route.method, route.template.replace(":path", "")), ids)
    if not route.rule.offered:
        return Endpoint(name, method, route.template, name, not_offered, FREE, is_described=False, passes_through=True)
    measured = answer_price(route.rule)
    terms, limit = _terms(declaration, route), declaration.head.upstream.body_limit_bytes
    handler = measuring(handle, measured) if measured else handle
    if operation is None:
        return Endpoint(
            name, method, route.template, f"{route.method} {route.template.replace(REST, '…')}", handler, terms,
            description="Passed on as it is.", path_parameters=_plain_parameters(route.template),
            responses={JSON: {}}, problems=_FAILURES, tag="api", passes_through=True, body_limit_bytes=limit,
            is_described=declaration.document is None or REST not in route.template,
        )  # fmt: skip
    described, schemas = operation.described, declaration.document.schemas if declaration.document else {}
    takes_json = described.request_body is None or described.json_body is not None
    return Endpoint(
        name, method, route.template, operation.summary, handler, terms,
        description=operation.description,
        path_parameters={
            one["name"]: {"description": one.get("description", ""), "example": _example(one, schemas),
                          "schema": schema_of(one)}
            for one in described.parameters_in("path")
        },
        responses=_media_types(described),
        problems=_FAILURES,
        tag=operation.tags[0] if operation.tags else "api",
        sample=_sample(described, schemas),
        is_tool=takes_json and ":path}" not in route.template,
        described=described,
        passes_through=True,
        body_limit_bytes=limit,
    )  # fmt: skip


async def not_offered(_request: Request[None, None]) -> Response:
    raise Problem("not-found", "No endpoint at this path.")


def _terms(declaration: ProxyDeclaration, route: ProxyRoute) -> Terms:
    head, rule = declaration.head, route.rule
    price = stated_price(rule, head.price_usd)
    if route.access == FREE_ACCESS:
        return FREE
    if route.access == "key":
        return Terms("key", price, entitlement=rule.entitlement, is_metered=rule.counted)
    if route.access == "payer":
        return Terms("payer", price)
    # A rule with an allowance of its own counts apart from the others.
    own = "" if rule.free_per_day is None or route.pattern is None else f" {route.pattern.key}"
    free_per_day = head.free_per_day if rule.free_per_day is None else rule.free_per_day
    return Terms("anyone", price, is_metered=True, allowance=f"{declaration.name}{own}", free_per_day=free_per_day)


def _plain_parameters(template: str) -> dict[str, Json]:
    return {
        name: {"description": "The rest of the path" if is_rest else "", "schema": {"type": "string"}}
        for name, is_rest in re.findall(r"\{(\w+)(:path)?\}", template)
    }


def _media_types(described: DescribedOperation) -> Json:
    """The media types of a successful answer with their schemas."""
    for status, response in sorted(described.responses.items()):
        if status.startswith("2") and (content := response.get("content")):
            return {media_type: media.get("schema", {}) for media_type, media in content.items()}
    return {JSON: {}}


def _sample(described: DescribedOperation, schemas: dict[str, Json]) -> Example:
    """A call with what the document requires, by its examples."""
    query = {
        one["name"]: value if isinstance(value, str | list) else msgspec.json.encode(value).decode()
        for one in described.parameters_in("query")
        if (one.get("required") or "example" in one) and (value := _example(one, schemas)) is not None
    }
    headers = {
        one["name"]: str(_example(one, schemas)) for one in described.parameters_in("header") if one.get("required")
    }
    body = None if described.json_body is None else _example(described.json_body, schemas)
    return Example(query=query, body=body, headers=headers)


def _example(part: Json, schemas: dict[str, Json]) -> object:
    if part.get("example") is not None:
        return part["example"]
    named: Json = next(iter(part.get("examples", {}).values()), {})
    return named["value"] if "value" in named else example_of(schema_of(part), schemas)
