"""How payments become one transaction: which contract is called with what, and how much gas that may use."""

from collections.abc import Sequence

from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.facilitator.traffic import Ride
from tollhouse.payments.facilitator.transaction import Errand
from tollhouse.payments.x402.calls import MULTICALL3, Call, aggregated

NOTHING_GAS = 21_000
ONE_GAS = 150_000
FIRST_GAS, EACH_GAS = 60_000, 90_000
"""USDC's transfer by a key uses 65,000 at the most, 42,500 among many. What is not used costs nothing."""
MOST_ALONE_GAS = 500_000
"""What a wallet's own code may make us pay for."""
MAKING_GAS = 1_500_000


class TooDearError(Exception):
    """A payer's contract would use more gas than the operator should pay for."""


def together(rides: Sequence[Ride]) -> Errand:
    """Payments of keys: one as it is, several through Multicall3, where one that fails leaves the others be."""
    if len(rides) == 1:
        return Errand(rides[0].plan.transfer.to, rides[0].plan.transfer.data, ONE_GAS)
    return _batch([ride.plan.transfer for ride in rides], FIRST_GAS + EACH_GAS * len(rides))


async def alone(chain: ChainClient, account: str, ride: Ride) -> Errand:
    """The payment of a contract, its wallet made first where needed.

    Raises ChainUnavailable, ChainRefused where it would revert, TooDearError.
    """
    transfer, making = ride.plan.transfer, ride.plan.making
    if making is not None:
        return _batch([making, transfer], MAKING_GAS)
    used = await chain.estimate_gas({"from": account, "to": transfer.to, "data": "0x" + transfer.data.hex()})
    if used > MOST_ALONE_GAS:
        raise TooDearError(f"{used} gas")
    return Errand(transfer.to, transfer.data, used * 5 // 4)


def nothing(account: str) -> Errand:
    """Use a nonce up."""
    return Errand(account, b"", NOTHING_GAS)


def _batch(calls: list[Call], gas: int) -> Errand:
    return Errand(MULTICALL3, aggregated(calls), gas)
