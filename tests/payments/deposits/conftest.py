"""A chain whose wallets hold tokens, and a ledger of each kind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tollhouse.config.settings import Settings
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain
from tollhouse.payments.ledger.ledger import Ledger, open_ledger
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate


@pytest.fixture
async def ledger(database_url: str, tmp_path: Path) -> AsyncIterator[Ledger]:
    async with _opened(Settings(database_url=database_url, data_dir=str(tmp_path))) as ledger:
        yield ledger


@pytest.fixture
async def sqlite_ledger(data_dir: Path) -> AsyncIterator[Ledger]:
    """For what the chain decides and the ledger only keeps."""
    async with _opened(Settings(data_dir=str(data_dir))) as ledger:
        yield ledger


@pytest.fixture
async def chain(local_chain: LocalChain) -> LocalChain:
    for account in ACCOUNTS[1:3]:
        await local_chain.fund_usdc(account.address, 100_000_000)
    await local_chain.request("anvil_mine", hex(5))
    return local_chain


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Ledger]:
    database = open_database(settings)
    await migrate(database)
    ledger = await open_ledger(settings, database)
    yield ledger
    await ledger.close()
    await database.close()
