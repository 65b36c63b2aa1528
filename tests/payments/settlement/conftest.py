"""A chain whose payer holds tokens, and facilitators with a key of their own, as many as there would be processes."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from tests.payments.x402.signed_payments import PAYER
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.client import ChainClient, Limits
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain
from tollhouse.payments.pay_per_request import open_settler
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

SETTLING = ACCOUNTS[4]
# test_gas.py is about the limits of what gas may cost.
ANY_GAS = {
    "x402_contract_wallets": True,
    "x402_max_gas_usd": Decimal(10_000),
    "x402_gas_usd_per_day": Decimal(1_000_000),
}
# A test does not wait for what a node will not say.
IMPATIENT = Limits(attempt_seconds=2.0, deadline_seconds=3.0, retry_pause_seconds=0.05, max_failures=1_000)

OpenFacilitator = Callable[..., AbstractAsyncContextManager[BuiltInFacilitator]]


@pytest.fixture
async def chain(local_chain: LocalChain) -> LocalChain:
    await local_chain.fund_usdc(PAYER.address, 10_000_000)
    await local_chain.approve_permit2(PAYER)
    return local_chain


@pytest.fixture
def open_facilitator(data_dir: Path, chain: LocalChain) -> OpenFacilitator:
    """A function that opens one over the chain itself, or over another address that stands before it."""

    @asynccontextmanager
    async def opened(url: str | None = None, **settings: object) -> AsyncIterator[BuiltInFacilitator]:
        whole = Settings(
            **{"data_dir": str(data_dir), "x402_facilitator_key": SETTLING.private_key, **ANY_GAS, **settings}
        )
        client, database = ChainClient(url or chain.url, IMPATIENT), open_database(whole)
        try:
            await migrate(database)
            async with open_settler(whole, database, client) as settler:
                assert isinstance(settler, BuiltInFacilitator)
                yield settler
        finally:
            await database.close()
            await client.close()

    return opened


@pytest.fixture
async def facilitator(open_facilitator: OpenFacilitator) -> AsyncIterator[BuiltInFacilitator]:
    async with open_facilitator() as opened:
        yield opened
