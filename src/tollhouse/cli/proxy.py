"""`tollhouse proxy`: declare a toll in front of an HTTP API, and serve it."""

import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import httpx2
from cyclopts import Parameter

from tollhouse.catalogue.importers.feed import is_address
from tollhouse.cli.local_payments import start_local_chain
from tollhouse.cli.options import DEFAULTS, CommonOptions, print_progress
from tollhouse.cli.serve import address_of, run_server
from tollhouse.config.declaration import service_fault
from tollhouse.money import MICROS_PER_USD, usd
from tollhouse.proxy.declaration import declaration_toml, parse_proxy
from tollhouse.proxy.declaration_faults import url_fault
from tollhouse.proxy.declared import Head, ProxyDeclaration, UpstreamPart
from tollhouse.proxy.openapi_document import MAX_BYTES, OpenApiDocument, read_document
from tollhouse.proxy.openapi_schemas import OpenApiError
from tollhouse.proxy.routes import (
    ProxyRoute,
    endpoints_of_routes,
    example_call,
    hidden_operations,
    not_offered,
    routes_of,
)
from tollhouse.services import EVERY_SERVICE

MAX_ROUTES_SHOWN = 20
FETCH_SECONDS = 10


def proxy(
    service: Annotated[str, Parameter(help="Name of the service")],
    *,
    upstream: Annotated[str, Parameter(help="URL of the API; a path in it goes before the path of each request")],
    openapi: Annotated[
        str, Parameter(help="Its OpenAPI document, a file or a URL (default: UPSTREAM/openapi.json, if there is one)")
    ] = "",
    price: Annotated[
        Decimal | None, Parameter(help="Price in USD of a call; without one, every call needs a key")
    ] = None,
    free_per_day: Annotated[int, Parameter(help="Free calls per client address and day")] = 100,
    title: Annotated[str, Parameter(help="Title of the service (default: the document's, or the name)")] = "",
    force: Annotated[bool, Parameter(negative=(), help="Replace a declaration that differs")] = False,
    host: Annotated[str, Parameter(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port to listen on")] = 8000,
    workers: Annotated[int | None, Parameter(help="Number of processes that handle requests (default: 1)")] = None,
    local_chain: Annotated[
        bool, Parameter(negative=(), help="Start a chain on this machine, and take payments in test money on it")
    ] = False,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Declare a toll in front of an HTTP API, and serve it. `tollhouse serve SERVICE` serves it the next time."""
    settings = common.settings()
    if fault := service_fault(service, EVERY_SERVICE):
        raise ValueError(fault)
    if fault := url_fault(upstream):
        raise ValueError(f"--upstream {fault}")
    if price is not None and (not price.is_finite() or not 0 < price <= 1_000 or price * MICROS_PER_USD % 1):
        raise ValueError("--price must be above 0, at most 1000, with at most 6 decimals")
    path = Path(settings.services_dir) / f"{service}.toml"
    document, raw = _document(upstream, openapi)
    files: dict[Path, bytes] = {}
    stored = ""
    if document is not None:
        stored = f"{service}.openapi.{'json' if raw.lstrip().startswith(b'{') else 'yaml'}"
        files[path.with_name(stored)] = raw
    head = Head(
        title=title.strip() or (document.title if document else "") or service.replace("-", " ").capitalize(),
        upstream=UpstreamPart(url=_base(upstream, document), openapi=stored),
        price_usd=price,
        free_per_day=free_per_day,
        other_routes="none" if document else "anyone" if price else "key",
    )
    files[path] = declaration_toml(head).encode()
    _write(files, is_forced=force)
    declaration = parse_proxy(path.read_text("utf-8"), path)
    _show(declaration)
    chain = _local_chain(declaration, address_of(host, port)) if local_chain else {}
    chosen = common.settings(service=service, workers=workers, served_at=address_of(host, port), **chain)
    run_server(chosen, host, port)


def _local_chain(declaration: ProxyDeclaration, root: str) -> dict[str, object]:
    settings = start_local_chain()
    call = example_call(endpoints_of_routes(declaration, not_offered, is_at_root=True)) or "/…"
    print_progress(f"  tollhouse pay '{root}{call}'")
    print_progress("")
    return settings


def _base(upstream: str, document: OpenApiDocument | None) -> str:
    """The URL below which the paths of the document are."""
    base = "" if urlsplit(upstream).path.strip("/") or document is None else document.server_path
    if base:
        print_progress(f"The paths of the document are below {base}, as its `servers` say.")
    return f"{upstream.rstrip('/')}{base}"


def _document(upstream: str, openapi: str) -> tuple[OpenApiDocument | None, bytes]:
    """The document and its text; None without one. Raises ValueError."""
    tried = openapi or f"{upstream.rstrip('/')}/openapi.json"
    try:
        raw = _fetched(tried) if is_address(tried) else Path(tried).read_bytes()
        document = read_document(raw)
    except (OpenApiError, httpx2.HTTPError, OSError) as error:
        reason = error if isinstance(error, OpenApiError) else _plain_reason(error)
        if openapi:
            raise ValueError(f"--openapi {openapi}: {reason}") from None
        print_progress(f"No OpenAPI document at {tried} ({reason}): every path is served. --openapi names one.")
        return None, b""
    print_progress(f"Read {len(document.operations)} operations of {tried}.")
    return document, raw


def _fetched(url: str) -> bytes:
    answer = httpx2.get(url, timeout=FETCH_SECONDS, follow_redirects=True)
    if answer.status_code != httpx2.codes.OK:
        raise OpenApiError(f"HTTP {answer.status_code}")
    if len(answer.content) > MAX_BYTES:
        raise OpenApiError(f"it is larger than {MAX_BYTES} bytes")
    return answer.content


def _plain_reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else "") or "no connection"


def _write(files: dict[Path, bytes], *, is_forced: bool) -> None:
    """Write the files. Raises ValueError if one differs and is not to be replaced; then none is written."""
    differing = [path for path, text in files.items() if path.exists() and path.read_bytes() != text]
    if differing and not is_forced:
        named = ", ".join(map(str, differing))
        raise ValueError(f"{named} exists and differs; --force replaces it, tollhouse serve serves it as it is")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path in differing:
            path.write_bytes(text)
            print_progress(f"Wrote {os.path.relpath(path)}")


def _show(declaration: ProxyDeclaration) -> None:
    """The declaration, and the routes it makes."""
    print_progress("")
    for line in declaration.path.read_text("utf-8").splitlines():
        print_progress(f"  {line}")
    print_progress("")
    routes = [route for route in routes_of(declaration, is_at_root=True) if route.rule.offered]
    for route in routes[:MAX_ROUTES_SHOWN]:
        print_progress(
            f"  {route.method:6} {route.template.replace('{rest:path}', '…')}: {_access(declaration, route)}"
        )
    if len(routes) > MAX_ROUTES_SHOWN:
        print_progress(f"  and {len(routes) - MAX_ROUTES_SHOWN} more")
    for hidden in hidden_operations(declaration, is_at_root=True):
        print_progress(f"  {hidden.method:6} {hidden.path}: not served, the path is this server's own")
    print_progress("")


def _access(declaration: ProxyDeclaration, route: ProxyRoute) -> str:
    price = declaration.head.price_usd if route.rule.price_usd is None else route.rule.price_usd
    cost = f"{usd(int(price * MICROS_PER_USD))} USD" if price else ""
    match route.access:
        case "free":
            return "free"
        case "key":
            return f"with a key{f', or {cost}' if cost else ''}"
        case "payer":
            return cost
        case "anyone":
            free = declaration.head.free_per_day
            return f"{free:,} free calls a day, then {cost}" if free else f"{cost} a call"
