"""The chain as this server sees it, for the operator: head, gas, and payments that are being settled."""

import asyncio
from typing import Any

from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.money import MICROS_PER_USD, usd
from tollhouse.payments.pay_per_request import PayPerRequest
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator
from tollhouse.payments.x402.settlement.gas import NANOS_PER_USD
from tollhouse.payments.x402.store import pending_settlements
from tollhouse.storage.database import Database

log = logger("payments")

NODE_SECONDS = 5.0
"""How long the operator waits for the chain's node."""
_NANOS_PER_MICRO = NANOS_PER_USD // MICROS_PER_USD


class ChainStatus(Struct, frozen=True):
    """The chain as this server sees it. `pending` are payments that are being settled. `error` says what failed.

    Without a chain in the settings `is_configured` is false; `account` is that of the built-in facilitator.
    """

    is_configured: bool
    chain_id: int | None = None
    head: int | None = None
    head_age_seconds: int | None = None
    account: str | None = None
    balance_usd: str | None = None
    gas_per_payment_usd: str | None = None
    gas_today_usd: str | None = None
    pending: int | None = None
    oldest_pending_seconds: int | None = None
    error: str | None = None


async def read_chain_status(per_request: PayPerRequest, database: Database, chain_id: int) -> ChainStatus:
    """Head, gas and pending settlements; that a node does not answer within NODE_SECONDS is said in `error`."""
    chain, settler = per_request.chain, per_request.settler
    if chain is None:
        return ChainStatus(is_configured=False)
    async with database.reading() as connection:
        pending, oldest = await pending_settlements(connection)
    known: dict[str, Any] = {
        "chain_id": chain_id,
        "pending": pending,
        "oldest_pending_seconds": None if oldest is None else int(clock.seconds() - oldest),
    }
    try:
        async with asyncio.timeout(NODE_SECONDS):
            block = await chain.block()
            if block is not None:
                known |= {"head": block.number, "head_age_seconds": max(0, int(clock.seconds() - block.timestamp))}
            if isinstance(settler, BuiltInFacilitator):
                gas = await settler.gas_status()
                known |= {
                    "account": settler.address,
                    "balance_usd": usd(gas.balance_nanos // _NANOS_PER_MICRO),
                    "gas_per_payment_usd": usd(gas.payment_nanos // _NANOS_PER_MICRO),
                    "gas_today_usd": usd(gas.spent_nanos // _NANOS_PER_MICRO),
                }
    except (Problem, TimeoutError) as error:
        log.warning("chain status unknown", error=str(error))
        known["error"] = "The node did not answer. The log has the reason."
    return ChainStatus(is_configured=True, **known)
