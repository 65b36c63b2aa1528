"""Real admission and the real ledger under endpoints of the tests' own: what the crash simulation serves.

`create` is what Tollhouse does. `create_mutant` forgets that a nonce was seen: the simulation must notice.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

from granian import Granian
from granian.constants import Interfaces, Loops

from tollhouse import failpoints, logs
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import open_context
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.router import Router
from tollhouse.http.server import Application, Server
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, KEY_OR_AGENT
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.services import load_settings


async def _page(_asked) -> Response:
    await asyncio.sleep(0.001)
    return Response(b'{"work":"%s"}' % secrets.token_hex(8).encode())


async def _missing(_asked) -> Response:
    raise Problem("not-found", "There is no such thing.")


async def _fails(_asked) -> Response:
    raise ZeroDivisionError


async def _health(_asked) -> Response:
    return Response(b"{}")


async def _no_facts() -> dict[str, str]:
    return {}


_KINDS = {"application/json": {}}
OPERATIONS = [
    Endpoint("page", "GET", "/page", "", _page, KEY_OR_AGENT, responses=_KINDS),
    Endpoint("missing", "GET", "/missing", "", _missing, KEY_OR_AGENT, responses=_KINDS),
    Endpoint("fails", "GET", "/fails", "", _fails, KEY_OR_AGENT, responses=_KINDS),
    Endpoint("health", "GET", "/health", "", _health, FREE, responses=_KINDS),
]


def serve(factory: str, port: int) -> None:
    """Run the server of one of these factories, as `granian` on the command line starts it."""
    Granian(
        f"{__name__}:{factory}",
        factory=True,
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        log_access=False,
    ).serve()


def create():
    settings = load_settings()
    logs.configure(settings.log_level)
    failpoints.arm(settings.failpoint)
    return Application(lambda: _serving(settings))


def create_mutant():
    """A reservation's id is no longer its nonce's: a replay is a new call."""
    reserve = Ledger.reserve

    async def forgetful(self, transfer_id, *rest: object) -> object:
        return await reserve(self, f"{transfer_id}:{secrets.token_hex(4)}", *rest)

    Ledger.reserve = forgetful
    post, void, release = Ledger.post, Ledger.void, Ledger.release
    # What was reserved under a longer id is settled under it too: the newest of that call.
    Ledger.post = lambda self, transfer_id, *rest: _of_newest(self, post, transfer_id, *rest)
    Ledger.void = lambda self, transfer_id: _of_newest(self, void, transfer_id)
    Ledger.release = lambda self, transfer_id: _of_newest(self, release, transfer_id)
    return create()


async def _of_newest(ledger, settle, transfer_id, *rest: object) -> None:
    open_ones = [t.id for t in await ledger.recent(500) if t.id.startswith(transfer_id) and t.state == "pending"]
    if open_ones:
        await settle(ledger, open_ones[0], *rest)


@contextlib.asynccontextmanager
async def _serving(settings) -> AsyncIterator[Server]:
    async with open_context(settings) as context:
        await context.ledger.recover()
        router = Router()
        router.mount(Service("shop", "Shop", "1", "", OPERATIONS, _no_facts, {}), "")
        yield Server(settings, Admission(context), router, {})
