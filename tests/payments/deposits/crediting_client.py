"""Another process that credits a deposit, at the moment when all of them are told to."""

import asyncio
import json
from pathlib import Path

from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain
from tollhouse.payments.deposit_evidence import DepositTerms
from tollhouse.payments.deposits import Deposits
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.storage.database import open_database

ALICE, TREASURY = ACCOUNTS[1], ACCOUNTS[5]
CONFIRMATIONS = 3
TERMS = DepositTerms(8453, LocalChain.usdc_address, TREASURY.address, CONFIRMATIONS)
GO = "go"


def credit_when_told(database_url: str, folder: str, url: str, tx_hash: str, name: str) -> None:
    asyncio.run(_credit(Settings(database_url=database_url, data_dir=folder), Path(folder), url, tx_hash, name))


async def _credit(settings: Settings, folder: Path, url: str, tx_hash: str, name: str) -> None:
    database = open_database(settings)
    ledger = await open_ledger(settings, database)
    client = ChainClient(url)
    (folder / f"{name}.ready").touch()
    await until((folder / GO).exists, 60)
    credited = await Deposits(client, ledger, TERMS).credit(f"of-{ALICE.address}", ALICE.address, tx_hash)
    (folder / f"{name}.json").write_text(json.dumps([credited.already_credited, credited.credited_micros]))
    await client.close()
    await ledger.close()
    await database.close()
