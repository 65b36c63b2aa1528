"""The operator's word on who may make a payer's wallet (EIP-6492), from the setting to the chain."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from tests.payments.x402.purchases import seller_holds
from tests.payments.x402.signed_payments import (
    ANSWER,
    FACTORY,
    OTHER,
    PRICE,
    PRINT,
    RELAYER,
    RESOURCE,
    SELLER,
    from_unmade_wallet,
    read,
)
from tollhouse.config.settings import SettingError, Settings
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.pay_per_request import open_pay_per_request
from tollhouse.payments.x402.claims import Claimed
from tollhouse.payments.x402.payments import X402
from tollhouse.payments.x402.types import VerificationFailure
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate


@pytest.fixture
def opened(data_dir, chain):
    """What the settings mean, over the real chain and the built-in facilitator."""

    @asynccontextmanager
    async def x402(*factories: str) -> AsyncIterator[X402]:
        settings = Settings(data_dir=str(data_dir), evm_rpc_url=chain.url, x402_pay_to=SELLER.address,
                            x402_facilitator_key=RELAYER.private_key, x402_6492_factories=factories,
                            x402_contract_wallets=True, x402_max_gas_usd=Decimal("0.01"))  # fmt: skip
        database = open_database(settings)
        await migrate(database)
        ledger = await open_ledger(settings, database)
        try:
            async with open_pay_per_request(settings, database, ledger) as parts:
                yield parts.x402
        finally:
            await ledger.close()
            await database.close()

    return x402


async def test_wallet_that_is_not_there_yet_buys_where_its_factory_is_named(chain, opened):
    payment = read(from_unmade_wallet())
    await chain.fund_usdc(payment.payer, PRICE)
    async with opened(OTHER.address) as x402:
        refused = await x402.claim(payment, x402.accepts(PRICE), PRINT, RESOURCE.url)
        assert isinstance(refused, VerificationFailure)
        assert refused.reason == "eip6492_factory_not_allowed"
    async with opened(OTHER.address, FACTORY) as x402:
        claimed = await x402.claim(payment, x402.accepts(PRICE), PRINT, RESOURCE.url)
        assert isinstance(claimed, Claimed)
        assert not isinstance(await x402.settle(claimed, ANSWER), VerificationFailure)
    assert await chain.client.code(payment.payer)
    assert await seller_holds(chain) == PRICE


async def test_factory_whose_letters_are_mistyped_stops_the_start(opened):
    with pytest.raises(SettingError, match="x402_6492_factories"):
        async with opened(FACTORY.swapcase().replace("0X", "0x")):
            pass
