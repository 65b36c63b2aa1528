"""What a signed call takes from its agent's balance: claimed with its nonce, charged once, or given back."""

import contextlib
from dataclasses import dataclass

from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.money import usd
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import (
    REVENUE,
    REVERSAL,
    Insufficient,
    ReservationGoneError,
    Reserved,
    agent_account,
)
from tollhouse.payments.stored_response import StoredResponse

CALL = "call"


class Standing(Struct, frozen=True):
    """How an agent stands, in micro-USD. What reorganisations took back counts neither as deposited nor as spent.

    `reserved` is held for calls in flight; `last_call_at` is in seconds since 1970.
    """

    balance_micros: int
    reserved_micros: int
    deposited_micros: int
    spent_micros: int
    calls: int
    last_call_at: float | None


@dataclass(frozen=True, slots=True)
class Claim:
    """One nonce of one agent. `kept` is the answer it was charged for already and has not wholly received yet."""

    ledger: Ledger
    id: str
    kept: StoredResponse | None = None

    async def charge(self, answer: StoredResponse) -> None:
        """Take the price, and keep the answer in the same transaction: what leaves from here on is paid."""
        await self.ledger.post(self.id, answer)

    async def release(self) -> None:
        """Give the price back, unless the answer was charged already; the nonce stays used."""
        with contextlib.suppress(ReservationGoneError):
            await self.ledger.void(self.id)

    def delivered(self) -> None:
        """The answer was wholly sent: the same call gets it no more."""
        self.ledger.delivered(self.id)


async def claim(ledger: Ledger, agent_id: str, nonce: str, price_micros: int, fingerprint: bytes) -> Claim:
    """Claim the nonce and reserve the price in one transaction. Raises Problem `nonce-reused`, `insufficient-balance`.

    `fingerprint` tells the request: a nonce that comes again with the very same one gets the kept answer, if any.
    """
    call_id = f"call:{agent_id}:{nonce}"
    outcome = await ledger.reserve(call_id, agent_account(agent_id), REVENUE, price_micros, CALL, fingerprint)
    if isinstance(outcome, Reserved):
        return Claim(ledger, call_id)
    if isinstance(outcome, Insufficient):
        raise _insufficient(outcome.balance_micros, price_micros)
    if outcome.kept is None:
        raise Problem(
            "nonce-reused",
            "This nonce was used before. Sign every call with a fresh random one.",
            headers={"WWW-Authenticate": "Agent"},
        )
    return Claim(ledger, call_id, outcome.kept)


async def standing(ledger: Ledger, agent_id: str) -> Standing:
    """What an agent put in, what it spent and what is left."""
    account = await ledger.account(agent_account(agent_id))
    reversals = await ledger.listed(REVERSAL, 0.0)
    taken_back = sum(transfer.amount_micros for transfer in reversals if transfer.debit == account.name)
    return Standing(
        balance_micros=account.balance_micros,
        reserved_micros=account.reserved_micros,
        deposited_micros=account.total_in_micros - taken_back,
        spent_micros=account.total_out_micros - taken_back,
        calls=account.posted_count,
        last_call_at=account.last_at,
    )


def _insufficient(balance_micros: int, price_micros: int) -> Problem:
    return Problem(
        "insufficient-balance",
        f"The balance is {usd(balance_micros)} USD and the call costs {usd(price_micros)} USD. "
        "Send USDC to the treasury and report it with POST /api/agent/deposit.",
        balance_usd=usd(balance_micros),
        price_usd=usd(price_micros),
    )
