"""The facilitator service alone behind the real gate, settling on a real chain."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tests.payments.x402.signed_payments import PAYER
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.http.server import Server
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.local_chain import ACCOUNTS
from tollhouse.payments.pay_per_request import PayPerRequest, open_settler
from tollhouse.services import EVERY_SERVICE
from tollhouse.services.facilitator.service import open_facilitator
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

SETTLING = ACCOUNTS[4]
OPERATORS_TOKEN = "the-operators-own-token"


@pytest.fixture
async def chain(local_chain):
    await local_chain.fund_usdc(PAYER.address, 10_000_000)
    await local_chain.approve_permit2(PAYER)
    return local_chain


@pytest.fixture
def serve(data_dir, monkeypatch, chain):
    """A function that serves with these settings, and gives the gate."""

    @asynccontextmanager
    async def served(node: ChainClient | None = None, **told: object) -> AsyncIterator[Server]:
        whole = {"x402_facilitator_key": SETTLING.private_key, "operator_token": OPERATORS_TOKEN} | told
        settings = Settings(
            data_dir=str(data_dir), service="facilitator", background_work=False, evm_rpc_url=chain.url, **whole
        )
        database = open_database(settings)
        await migrate(database)
        async with open_settler(settings, database, node or chain.client) as settler:
            parts = PayPerRequest(node or chain.client, settler)
            monkeypatch.setitem(
                EVERY_SERVICE, "facilitator", lambda context: open_facilitator(replace(context, per_request=parts))
            )
            async with app.serving(settings) as gate:
                yield gate
        await database.close()

    return served


@pytest.fixture
async def client(serve):
    async with serve() as gate, operators(gate) as client:
        yield client


def operators(gate: Server) -> httpx2.AsyncClient:
    """A client that sends the operator's token."""
    return stranger(gate, headers={"Authorization": f"Bearer {OPERATORS_TOKEN}"})


def stranger(gate: Server, address: str = "127.0.0.1", **options: Any) -> httpx2.AsyncClient:
    """A client at this address that sends no token."""
    transport = httpx2.ASGITransport(app=gate.handle, client=(address, 4711))
    return httpx2.AsyncClient(transport=transport, base_url="http://test", **options)
