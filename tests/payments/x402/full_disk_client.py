"""One process whose files may not grow any more, and which is paid until it takes no more payments."""

import asyncio
import json
import resource
from pathlib import Path
from typing import Any

from tests.payments.x402.signed_payments import ANSWER, PRICE, PRINT, RESOURCE, SELLER, NodeSettler, read
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.payments.chain.local_chain import LocalChain
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.x402.claims import Claimed
from tollhouse.payments.x402.payments import X402, Terms
from tollhouse.payments.x402.store import Attempts
from tollhouse.storage.database import open_database

REFUSALS = 3


def fill(data_dir: str, chain_url: str, payments: list[dict[str, Any]], fills: str) -> None:
    """Settle payments until three in a row are refused; `fills` is the file that has no room left, or little.

    Prints how each ended: `settled`, or the code of the problem.
    """
    print(json.dumps(asyncio.run(_fill(Path(data_dir), LocalChain(chain_url), payments, fills))), flush=True)  # noqa: T201


async def _fill(folder: Path, chain: LocalChain, payments: list[dict[str, Any]], fills: str) -> list[str]:
    settings = Settings(data_dir=str(folder))
    database = open_database(settings)
    ledger = await open_ledger(settings, database)
    settler = NodeSettler(chain, Attempts(database))
    x402 = X402(Terms(8453, chain.usdc_address, SELLER.address), database, ledger, chain.client, settler)
    if fills == "ledger":
        # Until its log is longer than any file of the database.
        while _size(folder, "ledger.db") < 2 * _size(folder, "tollhouse.db"):
            await ledger.check_writable()
        limit = _size(folder, "ledger.db") + 1
    else:
        limit = max(_size(folder, "ledger.db"), _size(folder, "tollhouse.db")) + 400_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    outcomes: list[str] = []
    for sent in payments:
        outcomes.append(await _outcome(x402, sent))
        if len(outcomes) >= REFUSALS and "settled" not in outcomes[-REFUSALS:]:
            break
    return outcomes


async def _outcome(x402: X402, sent: dict[str, Any]) -> str:
    try:
        claimed = await x402.claim(read(sent), x402.accepts(PRICE), PRINT, RESOURCE.url)
        assert isinstance(claimed, Claimed)
        await x402.settle(claimed, ANSWER)
    except Problem as problem:
        return problem.code
    return "settled"


def _size(folder: Path, name: str) -> int:
    return max(path.stat().st_size for path in folder.glob(f"{name}*"))
