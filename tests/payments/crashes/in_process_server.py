"""The server of the schedules of crashes: real admission, ledger, payments and deposits, without a socket.

MUTANTS forget one rule each: the schedules must notice every one.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable

from msgspec import structs

from tollhouse import clock
from tollhouse.accounts.agent_endpoints import AgentEndpoints
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import open_context
from tollhouse.admission.streams import MeteredStream
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Response, endpoints_of
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.http.terms import KEY_OR_AGENT, Price, Terms, free_then_paid
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import Transfer
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.claims import Settlement
from tollhouse.proxy.circuit_breaker import CircuitBreaker
from tollhouse.proxy.cost import AnswerPrice, measuring
from tollhouse.proxy.handler import Proxy, ProxyRules
from tollhouse.proxy.upstream import HttpUpstream
from tollhouse.storage import leases

PAGE_MICROS, MOST_MICROS = 1_000, 3_000
COST_HEADER = "x-cost-usd"
BUFFER_BYTES = 128
"""Less than a long answer of the upstream has."""


async def _page(_request) -> Response:
    await asyncio.sleep(0.001)
    return Response(b'{"work":"%s"}' % secrets.token_hex(8).encode())


async def _measured(request) -> Response:
    """A page of which the payer is told only afterwards what it costs."""
    answer = await _page(request)
    answer.cost_micros = PAGE_MICROS
    return answer


async def _missing(_request) -> Response:
    raise Problem("not-found", "There is no such thing.")


async def _fails(_request) -> Response:
    raise ZeroDivisionError


async def _no_facts() -> dict[str, str]:
    return {}


_KINDS = {"application/json": {}}
_PAID = free_then_paid(PAGE_MICROS)
_AT_MOST = Terms("payer", Price(0, max_micros=MOST_MICROS))
ENDPOINTS = [
    Endpoint("page", "GET", "/page", "", _page, KEY_OR_AGENT, responses=_KINDS),
    Endpoint("missing", "GET", "/missing", "", _missing, KEY_OR_AGENT, responses=_KINDS),
    Endpoint("fails", "GET", "/fails", "", _fails, KEY_OR_AGENT, responses=_KINDS),
    Endpoint("bought", "GET", "/bought", "", _page, _PAID, responses=_KINDS),
    Endpoint("measured", "GET", "/measured", "", _measured, _AT_MOST, responses=_KINDS),
    Endpoint("boughtMissing", "GET", "/bought-missing", "", _missing, _PAID, responses=_KINDS),
]


def _proxied(proxy: Proxy) -> list[Endpoint]:
    """The operations of the upstream: with a key or credit, at a price, and at what the answer costs."""
    measured = measuring(proxy.handle, AnswerPrice(0, MOST_MICROS, cost_header=COST_HEADER.encode()))
    sold = (("keyed", proxy.handle, KEY_OR_AGENT), ("bought", proxy.handle, _PAID), ("measured", measured, _AT_MOST))
    return [
        Endpoint(f"{name}Proxied", "GET", f"/{name}/{{form}}", "", handler, terms, responses=_KINDS,
                 path_parameters={"form": {"schema": {"type": "string"}}}, passes_through=True)
        for name, handler, terms in sold
    ]  # fmt: skip


@contextlib.asynccontextmanager
async def open_server(settings: Settings, upstream_url: str) -> AsyncIterator[Server]:
    """The server, in front of an upstream, with the tasks that recover what dead processes left."""
    async with open_context(settings) as context:
        await context.ledger.recover()
        agents = AgentEndpoints(settings, context.wallets, context.ledger, context.deposits, context.meter)
        router = Router()
        router.mount(Service("shop", "Shop", "1", "", [*ENDPOINTS, *endpoints_of(agents)], _no_facts, {}), "")
        rules = ProxyRules(name="upstream", buffer_bytes=BUFFER_BYTES)
        breaker = CircuitBreaker("upstream", opens_after=8, open_seconds=0.2)
        proxy = Proxy(HttpUpstream(upstream_url), rules, settings, breaker)
        router.mount(Service("upstream", "Upstream", "1", "", _proxied(proxy), _no_facts, {}), "/proxied")
        assert context.per_request.x402 is not None
        recovering = asyncio.create_task(context.per_request.x402.run_recovery())
        yield Server(settings, Admission(context), router, {})
        recovering.cancel()
        await asyncio.gather(recovering, return_exceptions=True)
        await proxy.close()


def shift_clock(seconds: float) -> None:
    """From now on this process is so much later, and its leases are short: others need not wait long for the dead."""
    clock.seconds = lambda: time.time() + seconds
    store.LEASE_SECONDS, store.RENEW_SECONDS = 3.0, 0.7
    leases.LEASE_SECONDS, leases.SAFETY_SECONDS, leases.RENEW_SECONDS = 3.0, 1.0, 0.7


def _forget_nonces() -> None:
    """A reservation's id is no longer its nonce's: a replay is a new call."""
    reserve, post, void = Ledger.reserve, Ledger.post, Ledger.void
    newest: dict[str, str] = {}

    async def forgetful(self, transfer_id, *rest: object) -> object:
        newest[transfer_id] = f"{transfer_id}:{secrets.token_hex(4)}"
        return await reserve(self, newest[transfer_id], *rest)

    Ledger.reserve = forgetful
    Ledger.post = lambda self, transfer_id, *rest: post(self, newest[transfer_id], *rest)
    Ledger.void = lambda self, transfer_id, *rest: void(self, newest[transfer_id], *rest)


def _forget_deposits() -> None:
    """Every claim of a deposit is credited under an id of its own."""
    move = Ledger.move

    async def forgetful(self, transfer: Transfer) -> object:
        name, _, _turn = transfer.id.rpartition(":")
        is_deposit = transfer.kind == "deposit"
        return await move(
            self, structs.replace(transfer, id=f"{name}:{secrets.randbits(30)}") if is_deposit else transfer
        )

    Ledger.move = forgetful


def _forget_settlements() -> None:
    """What a dead process was settling is dropped, as if no money had moved."""

    async def drop(self, row, **_options: object) -> None:
        async with self.database.writing() as transaction:
            await store.delete_payment(transaction, (row.payer, row.nonce), row.lease)

    Settlement.resume = drop


def _forget_cuts() -> None:
    """An answer that the upstream did not finish is charged as if it were whole."""
    make = MeteredStream.__init__

    def forgetful(self, answer, **ends: object) -> None:
        make(self, answer, **{name: ends.get("whole", work) for name, work in ends.items()})

    MeteredStream.__init__ = forgetful


MUTANTS: dict[str, Callable[[], None]] = {
    "nonces": _forget_nonces,
    "deposits": _forget_deposits,
    "settlements": _forget_settlements,
    "cuts": _forget_cuts,
}
