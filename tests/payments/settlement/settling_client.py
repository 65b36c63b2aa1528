"""Another process with the same key: settles the payments it is told to, and tells what became of each."""

import asyncio
import json
import sys

import msgspec

from tollhouse import failpoints, logs
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.pay_per_request import open_settler
from tollhouse.payments.x402.headers import decode_payment
from tollhouse.payments.x402.types import Requirement
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate


async def main() -> None:
    told = json.loads(sys.stdin.readline())
    logs.configure("error")
    failpoints.arm(told["failpoint"])
    settings = Settings(data_dir=told["data_dir"], database_url=told["database_url"], x402_facilitator_key=told["key"])
    requirement = msgspec.convert(told["requirement"], Requirement)
    payments = [decode_payment(json.dumps(sent).encode(), sent["x402Version"]) for sent in told["sent"]]
    database, chain = open_database(settings), ChainClient(told["chain_url"])
    await migrate(database)
    async with open_settler(settings, database, chain) as settler:
        print("ready", flush=True)  # noqa: T201 - it tells its parent
        # Both begin at once, whichever took longer to start.
        await asyncio.to_thread(sys.stdin.readline)
        found = await asyncio.gather(*(settler.settle(payment, requirement) for payment in payments))
    print(json.dumps([[type(one).__name__, getattr(one, "tx_hash", None)] for one in found]))  # noqa: T201 - as above
    await chain.close()
    await database.close()


if __name__ == "__main__":
    asyncio.run(main())
