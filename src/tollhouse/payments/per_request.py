"""Payment per request, put together from the settings: a chain, somebody who settles on it, and the claims."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.facilitator.settler import settler_of
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.x402.x402 import X402, Terms
from tollhouse.settings import Settings
from tollhouse.storage.database import Database

log = logger("payments.x402")


@asynccontextmanager
async def x402_of(settings: Settings, database: Database, ledger: Ledger) -> AsyncIterator[X402 | None]:
    """The payments the settings describe; None without `x402_pay_to`, a chain, and a facilitator or its key."""
    if not settings.x402_pay_to or not settings.evm_rpc_url:
        yield None
        return
    chain = ChainClient(settings.evm_rpc_url)
    try:
        async with settler_of(settings, database, chain) as settler:
            if settler is None:
                log.warning("no payment is taken: set x402_facilitator_key or x402_facilitator_url")
                yield None
                return
            x402 = X402(_terms(settings), database, ledger, chain, settler)
            try:
                yield x402
            finally:
                await x402.close()
    finally:
        await chain.close()


def _terms(settings: Settings) -> Terms:
    """Receipts are signed with the facilitator's key, where this server has one."""
    return Terms(
        chain_id=settings.evm_chain_id,
        asset=settings.usdc_address,
        pay_to=settings.x402_pay_to,
        receipt_key=bytes.fromhex(settings.x402_facilitator_key.removeprefix("0x")),
    )
