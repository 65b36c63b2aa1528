"""A declared API as a service: its routes with their prices, and what its upstream's health is."""

import asyncio
import contextlib
import ssl
import time
from functools import partial
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from tollhouse import __version__
from tollhouse.admission.context import AppContext
from tollhouse.http.endpoint import Endpoint
from tollhouse.http.pages import FrontPageEntry
from tollhouse.http.service import Component, Service
from tollhouse.logs import logger
from tollhouse.proxy.circuit_breaker import CircuitBreaker
from tollhouse.proxy.declared import ProxyDeclaration
from tollhouse.proxy.handler import Proxy, ProxyRules
from tollhouse.proxy.routes import endpoints_of_routes, example_call, free_methods, hidden_operations
from tollhouse.proxy.upstream import HttpUpstream

REMEMBERED_SECONDS = 5.0


class Reachability:
    """Connects to the host of a URL to see whether it answers; what was seen is remembered for a few seconds."""

    def __init__(self, url: str, connect_seconds: float) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._connect_seconds = connect_seconds
        self._lock = asyncio.Lock()
        self._is_reachable = False
        self._seen_at = -REMEMBERED_SECONDS

    async def check(self) -> bool:
        """Whether the upstream accepts a connection within its time."""
        async with self._lock:
            if time.monotonic() - self._seen_at >= REMEMBERED_SECONDS:
                self._is_reachable = await self._connects()
                self._seen_at = time.monotonic()
        return self._is_reachable

    async def _connects(self) -> bool:
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, writer = await asyncio.open_connection(self._host, self._port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True


log = logger("proxy")


class UpstreamHealth(Struct, frozen=True):
    """`reachable`: it accepts connections. `circuit` is open while requests are refused because too many failed."""

    reachable: bool
    circuit: Literal["closed", "open"]


class Health(Struct, frozen=True):
    """The response of `GET /health`. `degraded`: the upstream cannot be reached, or its circuit is open."""

    status: Literal["ok", "degraded"]
    upstream: UpstreamHealth
    licence: str
    uptime_seconds: int
    version: str


async def open_proxy(declaration: ProxyDeclaration, context: AppContext) -> Service:
    """The service of a declared API, which need not be reachable yet. Raises OSError for an unreadable `ca_file`."""
    head, upstream = declaration.head, declaration.head.upstream
    tls = ssl.create_default_context(cafile=declaration.path.parent / upstream.ca_file) if upstream.ca_file else None
    breaker = CircuitBreaker(declaration.name)
    proxy = Proxy(
        HttpUpstream(upstream.url, connect_seconds=upstream.connect_seconds, tls=tls),
        ProxyRules(
            name=declaration.name,
            set_headers=tuple((name.lower().encode(), value.encode()) for name, value in declaration.headers.items()),
            buffer_bytes=upstream.buffer_bytes,
            answer_seconds=upstream.answer_seconds,
            pause_seconds=upstream.pause_seconds,
            total_seconds=upstream.total_seconds or None,
            passes_authentication=upstream.passes_authentication,
            passes_cookies=upstream.passes_cookies,
            caller_key=declaration.caller_key.encode(),
        ),
        context.settings,
        breaker,
    )
    reachability = Reachability(upstream.url, upstream.connect_seconds)
    is_at_root = context.settings.service == declaration.name
    for hidden in hidden_operations(declaration, is_at_root=is_at_root):
        log.warning("operation not served: its path is this server's own", method=hidden.method, path=hidden.path)
    for path, methods in free_methods(declaration, is_at_root=is_at_root).items():
        log.warning("methods of a declared path are free", path=path, methods=methods, setting="other_routes")
    endpoints = endpoints_of_routes(declaration, proxy.handle, is_at_root=is_at_root)
    document = declaration.document
    return Service(
        name=declaration.name,
        title=head.title,
        version=document.version if document else "1",
        description=_description(declaration),
        endpoints=endpoints,
        health=partial(_health, declaration, context, breaker, reachability),
        health_schema=Health,
        components=partial(_components, breaker, reachability),
        per_process_tasks=(partial(_until_the_end, proxy),),
        tags=_tags(declaration, endpoints),
        schemas=document.schemas if document else {},
        front_page=_front_page(declaration, endpoints),
        licence="" if head.licence == "unknown" else head.licence,
    )


async def _until_the_end(proxy: Proxy) -> None:
    """Close the connections to the upstream when this process ends."""
    try:
        await asyncio.Event().wait()
    finally:
        await proxy.close()


def _about(declaration: ProxyDeclaration) -> str:
    document = declaration.document
    return declaration.head.description.strip() or (document.description if document else "") or declaration.head.title


def _description(declaration: ProxyDeclaration) -> str:
    licence = "" if declaration.head.licence == "unknown" else f" Licence: {declaration.head.licence}."
    return (
        f"{_about(declaration)}\n\nEach operation states its price.{licence} Refusals of this server are "
        "`application/problem+json` (RFC 9457); other answers are the API's own."
    )


def _tags(declaration: ProxyDeclaration, endpoints: list[Endpoint]) -> dict[str, str]:
    described = declaration.document.tags if declaration.document else {}
    used = dict.fromkeys(one.tag for one in endpoints if one.is_described)
    return {**{name: described.get(name, "") or name for name in used}, "about": "This service"}


def _front_page(declaration: ProxyDeclaration, endpoints: list[Endpoint]) -> FrontPageEntry | None:
    address = example_call(endpoints)
    if not address:
        return None
    return FrontPageEntry(
        title=declaration.head.title,
        summary=_about(declaration).partition("\n")[0].rstrip(".") + ".",
        example_calls=(address,),
        page=f"/guide/reference/{declaration.name}",
        button="See its operations",
    )


async def _health(
    declaration: ProxyDeclaration, context: AppContext, breaker: CircuitBreaker, reachability: Reachability
) -> Health:
    is_reachable, is_open = await reachability.check(), breaker.is_open
    return Health(
        status="ok" if is_reachable and not is_open else "degraded",
        upstream=UpstreamHealth(is_reachable, "open" if is_open else "closed"),
        licence=declaration.head.licence,
        uptime_seconds=context.uptime_seconds(),
        version=__version__,
    )


async def _components(breaker: CircuitBreaker, reachability: Reachability) -> list[Component]:
    detail = ""
    if not await reachability.check():
        detail = "The API behind this server does not accept connections."
    elif breaker.is_open:
        detail = "The API behind this server failed repeatedly. Requests are refused for a short time."
    return [Component("upstream", "API", "failing" if detail else "ok", detail=detail)]
