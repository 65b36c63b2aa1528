"""What the tests read on the chain."""

from typing import Any

from tests.payments.settlement.conftest import SETTLING
from tests.payments.x402.signed_payments import SELLER, Json
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import LocalChain


async def seller_holds(chain: LocalChain) -> int:
    return await token_balance(chain.client, chain.usdc_address, SELLER.address)


async def sent(chain: LocalChain, account: str = SETTLING.address) -> list[Json]:
    """Every transaction of an account that was mined, with its receipt."""
    found: list[Json] = []
    for height in range(await chain.client.block_number() + 1):
        block: Any = await chain.request("eth_getBlockByNumber", hex(height), True)
        for transaction in block["transactions"]:
            if transaction["from"].lower() == account.lower():
                receipt = await chain.request("eth_getTransactionReceipt", transaction["hash"])
                found.append(transaction | {"receipt": receipt})
    return found


async def reverted(chain: LocalChain, account: str = SETTLING.address) -> list[str]:
    return [one["hash"] for one in await sent(chain, account) if one["receipt"]["status"] != "0x1"]
