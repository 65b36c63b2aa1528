"""A chain whose payer holds tokens, and x402 servers on one database, as many as there would be processes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from tests.payments.x402.signed_payments import PAYER, SELLER, NodeSettler
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.local_chain import LocalChain
from tollhouse.payments.ledger.ledger import Ledger, open_ledger
from tollhouse.payments.x402.payments import X402, Terms
from tollhouse.payments.x402.store import Attempts
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate

KEY = (7).to_bytes(32)


class PaymentServer(msgspec.Struct):
    """One process's part: its x402, and what it is made of."""

    x402: X402
    settler: NodeSettler
    ledger: Ledger
    database: Database


OpenServer = Callable[..., Awaitable[PaymentServer]]


@pytest.fixture
async def chain(local_chain: LocalChain) -> LocalChain:
    await local_chain.fund_usdc(PAYER.address, 100_000)
    await local_chain.approve_permit2(PAYER)
    return local_chain


@pytest.fixture
async def open_server(database_url: str, tmp_path: Path, chain: LocalChain) -> AsyncIterator[OpenServer]:
    """A function that opens one more server on the test's database, as another server process would."""
    async for opened in _servers(Settings(database_url=database_url, data_dir=str(tmp_path)), chain):
        yield opened


@pytest.fixture
async def server(open_server: OpenServer) -> PaymentServer:
    return await open_server()


@pytest.fixture
async def open_sqlite_server(data_dir: Path, chain: LocalChain) -> AsyncIterator[OpenServer]:
    """For what the chain decides and the database only keeps."""
    async for opened in _servers(Settings(data_dir=str(data_dir)), chain):
        yield opened


@pytest.fixture
async def sqlite_server(open_sqlite_server: OpenServer) -> PaymentServer:
    return await open_sqlite_server()


async def _servers(settings: Settings, chain: LocalChain) -> AsyncIterator[OpenServer]:
    servers: list[PaymentServer] = []

    async def opened(**terms: object) -> PaymentServer:
        database = open_database(settings)
        await migrate(database)
        ledger = await open_ledger(settings, database)
        settler = NodeSettler(chain, Attempts(database))
        whole = {"pay_to": SELLER.address, "receipt_key": KEY} | terms
        x402 = X402(Terms(8453, chain.usdc_address, **whole), database, ledger, chain.client, settler)
        servers.append(PaymentServer(x402, settler, ledger, database))
        return servers[-1]

    yield opened
    for server in servers:
        await server.x402.close()
        await server.ledger.close()
        await server.database.close()
