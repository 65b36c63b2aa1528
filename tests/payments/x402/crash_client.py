"""One process that buys an answer and may die on the way."""

import asyncio
from typing import Any

from tests.payments.x402.signed_payments import (
    ANSWER,
    PRINT,
    RESOURCE,
    SELLER,
    NodeSettler,
    read,
    terms_of,
)
from tollhouse import failpoints
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.local_chain import LocalChain
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.x402.payments import X402, Terms
from tollhouse.payments.x402.store import Attempts
from tollhouse.storage.database import open_database


def buy(
    database_url: str, data_dir: str, chain_url: str, sent: dict[str, Any], failpoint: str, cost: int | None
) -> None:
    """Claim and settle the payment `sent` for a call that cost so much; `failpoint` says where to die."""
    settings = Settings(database_url=database_url, data_dir=data_dir)
    asyncio.run(_buy(settings, LocalChain(chain_url), sent, failpoint, cost))


async def _buy(settings: Settings, chain: LocalChain, sent: dict[str, Any], failpoint: str, cost: int | None) -> None:
    database = open_database(settings)
    ledger = await open_ledger(settings, database)
    terms = Terms(8453, chain.usdc_address, SELLER.address)
    x402 = X402(terms, database, ledger, chain.client, NodeSettler(chain, Attempts(database)))
    failpoints.arm(failpoint)
    claimed = await x402.claim(read(sent), x402.accepts(*terms_of(sent)), PRINT, RESOURCE.url)
    await x402.settle(claimed, ANSWER, cost)
