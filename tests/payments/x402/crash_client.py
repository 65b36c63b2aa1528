"""One process that buys an answer and may die on the way: `python -m tests.payments.x402.crash_client` with JSON.

Its standard input is `{"database_url", "data_dir", "chain_url", "sent", "failpoint"}`.
"""

import asyncio
import json
import sys

from tests.payments.x402.paying import ANSWER, PRICE, PRINT, RESOURCE, SELLER, NodeSettler, read
from tollhouse import failpoints
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.local_chain import LocalChain
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.x402.payments import X402, Terms
from tollhouse.payments.x402.store import Attempts
from tollhouse.storage.database import open_database


async def main() -> None:
    told = json.load(sys.stdin)
    settings = Settings(database_url=told["database_url"], data_dir=told["data_dir"])
    chain, database = LocalChain(told["chain_url"]), open_database(settings)
    ledger = await open_ledger(settings, database)
    terms = Terms(8453, chain.usdc_address, SELLER.address)
    x402 = X402(terms, database, ledger, chain.client, NodeSettler(chain, Attempts(database)))
    failpoints.arm(told["failpoint"])
    claimed = await x402.claim(read(told["sent"]), x402.accepts(PRICE), PRINT, RESOURCE.url)
    await x402.settle(claimed, ANSWER)


if __name__ == "__main__":
    asyncio.run(main())
