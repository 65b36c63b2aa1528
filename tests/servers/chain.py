"""A real node for each test that asks: it starts in a twentieth of a second, so none has to be shared."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tollhouse.payments.chain.contracts import call_data
from tollhouse.payments.chain.local_chain import MINTER, LocalChain, load_contracts


@pytest_asyncio.fixture
async def local_chain() -> AsyncIterator[LocalChain]:
    """An empty chain that mines each transaction at once."""
    async with LocalChain.start() as chain:
        yield chain


async def deploy(chain: LocalChain, contract: str, *words: str | int) -> str:
    """The address of a new contract of ours, made with addresses or numbers as constructor arguments."""
    creation = bytes.fromhex(load_contracts()[contract].creation[2:]) + call_data("", *words)[4:]
    tx_hash = await chain.send(MINTER, None, creation)
    await chain.wait_mined(tx_hash)
    return str((await chain.request("eth_getTransactionReceipt", tx_hash))["contractAddress"])
