"""What became of a payment whose settling nobody can answer for: read from the chain, as far back as it can be."""

import asyncio

from tollhouse import clock
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.errors import ChainUnavailable
from tollhouse.payments.x402.evidence import Fate, Unrecoverable, fate
from tollhouse.payments.x402.types import Failed, Payment, Requirement, Settled, Unknown

SEARCHED_BLOCKS = 5_000
"""Nearly three hours of Base. What was used before that is not told from what was cancelled."""
ASK_AGAIN_SECONDS = 0.25


async def fate_so_far(chain: ChainClient, payment: Payment, requirement: Requirement) -> Fate:
    """Settled whoever carried it out, impossible for ever, still open, or not to be told. Raises ChainUnavailable."""
    newest = await chain.block_number()
    return await fate(chain, payment, requirement, max(0, newest - SEARCHED_BLOCKS))


async def settled_within(
    chain: ChainClient, payment: Payment, requirement: Requirement, seconds: float
) -> Settled | Failed | Unknown:
    """Ask the chain until it tells, or time is up: then the outcome is unknown. Raises nothing."""
    deadline = clock.seconds() + seconds
    while True:
        try:
            found = await fate_so_far(chain, payment, requirement)
        except ChainUnavailable:
            found = Unknown()
        if isinstance(found, Settled):
            return found
        if isinstance(found, Unrecoverable):
            return Failed(found.reason)
        if clock.seconds() >= deadline:
            return found if isinstance(found, Unknown) else Unknown()
        await asyncio.sleep(ASK_AGAIN_SECONDS)
