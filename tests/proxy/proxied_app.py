"""A server process with one proxied service: free, keyed and sold paths of the same upstream."""

import contextlib
import os
from collections.abc import AsyncIterator

from granian import Granian
from granian.constants import Interfaces, Loops

from tollhouse import failpoints, logs
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import open_context
from tollhouse.http.endpoint import Endpoint
from tollhouse.http.listener import http_options
from tollhouse.http.router import Router
from tollhouse.http.server import Application, Server
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, KEY_OR_AGENT, free_then_paid
from tollhouse.proxy.circuit_breaker import CircuitBreaker
from tollhouse.proxy.handler import Proxy, ProxyRules
from tollhouse.proxy.upstream import HttpUpstream
from tollhouse.services import load_settings

PREFIX = "/weather"
PRICE = 1_000
CALLER_KEY = "a shared secret of thirty-two bytes or more"
BODY_LIMIT = 4_194_304
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


async def _no_facts() -> dict[str, str]:
    return {}


def serve(port: int) -> None:
    """Run the server, as `tollhouse serve` does."""
    Granian(
        f"{__name__}:create",
        factory=True,
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        **http_options(75),
    ).serve()


def create():
    settings = load_settings()
    logs.configure(settings.log_level)
    failpoints.arm(settings.failpoint)
    return Application(lambda: _serving(settings))


@contextlib.asynccontextmanager
async def _serving(settings) -> AsyncIterator[Server]:
    rules = ProxyRules(
        name="weather",
        set_headers=((b"x-upstream-key", b"secret of the upstream"),),
        answer_seconds=3.0,
        pause_seconds=1.0,
        caller_key=CALLER_KEY.encode(),
    )
    upstream = HttpUpstream(os.environ["UPSTREAM_URL"])
    proxy = Proxy(upstream, rules, settings, CircuitBreaker("weather", opens_after=8, open_seconds=1.0))
    paths = {"/free/{rest:path}": FREE, "/keyed/{rest:path}": KEY_OR_AGENT, "/sold/{rest:path}": free_then_paid(PRICE),
             "/free/priced": KEY_OR_AGENT}  # fmt: skip
    endpoints = [
        Endpoint(f"{method} {path}", method, path, "", proxy.handle, terms, passes_through=True,
                 body_limit_bytes=BODY_LIMIT)
        for path, terms in paths.items() for method in METHODS
    ]  # fmt: skip
    async with open_context(settings) as context:
        await context.ledger.recover()
        router = Router()
        router.mount(Service("weather", "Weather", "1", "", endpoints, _no_facts, {}), PREFIX)
        yield Server(settings, Admission(context), router, {})
        await proxy.close()
