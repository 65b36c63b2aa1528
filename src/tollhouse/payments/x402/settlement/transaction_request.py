"""How payments become one transaction: which contract is called with what, and how much gas that may use.

Even a single payment goes through Multicall3: an authorization that somebody else uses first then fails inside, and the
transaction does not revert. That costs a single one about a tenth more gas.
"""

from collections.abc import Sequence

from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.x402.contract_calls import MULTICALL3, Call, aggregated
from tollhouse.payments.x402.settlement.transaction import Errand
from tollhouse.payments.x402.settlement.transaction_queue import PendingPayment

NOTHING_GAS = 21_000
FIRST_GAS, EACH_GAS = 60_000, 90_000
"""USDC's transfer by a key uses 65,000 at the most, 42,500 among many. What is not used costs nothing."""
MOST_ALONE_GAS = 500_000
"""What a wallet's own code may make us pay for."""
AROUND_GAS = 30_000
"""What Multicall3 uses around one call, a 64th of the gas that it must keep back among it (EIP-150)."""
MAKING_GAS = 1_500_000


class GasLimitExceededError(Exception):
    """A payer's contract would use more gas than the operator should pay for."""


def together(rides: Sequence[PendingPayment]) -> Errand:
    """Payments of keys, of which one that fails leaves the others be."""
    return _batch([ride.plan.transfer for ride in rides], FIRST_GAS + EACH_GAS * len(rides))


async def alone(chain: ChainClient, account: str, ride: PendingPayment) -> Errand:
    """The payment of a contract, its wallet made first where needed.

    Raises ChainUnavailable, ChainRefused where it would revert, GasLimitExceededError.
    """
    transfer, making = ride.plan.transfer, ride.plan.making
    if making is not None:
        return _batch([making, transfer], MAKING_GAS)
    used = await chain.estimate_gas({"from": account, "to": transfer.to, "data": "0x" + transfer.data.hex()})
    if used > MOST_ALONE_GAS:
        raise GasLimitExceededError(f"{used} gas")
    return _batch([transfer], min(used * 5 // 4, MOST_ALONE_GAS) + AROUND_GAS)


def nothing(account: str) -> Errand:
    """Use a nonce up."""
    return Errand(account, b"", NOTHING_GAS)


def _batch(calls: list[Call], gas: int) -> Errand:
    return Errand(MULTICALL3, aggregated(calls), gas)
