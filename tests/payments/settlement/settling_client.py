"""Another process with the same key: settles the payments it is given, and says what became of each."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec

from tests.waiting import until
from tollhouse import failpoints, logs
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.pay_per_request import open_settler
from tollhouse.payments.x402.headers import decode_payment
from tollhouse.payments.x402.types import Requirement
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

# Files of its folder: it is ready, it may begin, and what became of the payments.
READY, GO, OUTCOMES = "ready", "go", "outcomes.json"


def settle(
    settings: dict[str, Any], chain_url: str, requirement: dict[str, Any], sent: list[Any], failpoint: str, folder: str
) -> None:
    asyncio.run(_settle(Settings(**settings), chain_url, requirement, sent, failpoint, Path(folder)))


async def _settle(
    settings: Settings, chain_url: str, requirement: dict[str, Any], sent: list[Any], failpoint: str, folder: Path
) -> None:
    logs.configure("error")
    failpoints.arm(failpoint)
    wanted = msgspec.convert(requirement, Requirement)
    payments = [decode_payment(json.dumps(one).encode(), one["x402Version"]) for one in sent]
    database, chain = open_database(settings), ChainClient(chain_url)
    await migrate(database)
    async with open_settler(settings, database, chain) as settler:
        (folder / READY).touch()
        # All begin at once, whichever took longer to start.
        await until((folder / GO).exists, 60)
        outcomes = await asyncio.gather(*(settler.settle(payment, wanted) for payment in payments))
    (folder / OUTCOMES).write_text(
        json.dumps([[type(one).__name__, getattr(one, "tx_hash", None)] for one in outcomes])
    )
    await chain.close()
    await database.close()
