"""Agents' credit: a signed call reserves its price with its nonce, then is charged once or released."""

from dataclasses import dataclass

from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.money import usd
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import (
    REVENUE,
    Insufficient,
    ReservationGoneError,
    Reserved,
    StoredResponse,
    agent_account,
)

CALL = "call"
SECONDS_PER_DAY = 86_400


class AgentBalance(Struct, frozen=True):
    """An agent's balance in micro-USD. Reversed deposits count neither as deposited nor as spent.

    `reserved_micros` is held for calls in progress; `last_call_at` is in seconds since 1970.
    """

    balance_micros: int
    reserved_micros: int
    deposited_micros: int
    spent_micros: int
    calls: int
    last_call_at: float | None


@dataclass(frozen=True, slots=True)
class Claim:
    """One nonce of one agent. `stored` is the response it was already charged for and may not have received."""

    ledger: Ledger
    id: str
    stored: StoredResponse | None = None

    async def charge(self, response: StoredResponse, cost_micros: int | None = None) -> None:
        """Charge the price and store the response in one transaction: a response that was sent is always paid.

        `cost_micros` is what the call cost where that is less than the price that was reserved; if it is 0, nothing is
        charged and the nonce stays used.

        Raises Problem `storage-unavailable` if the reservation is gone: then send nothing.
        """
        try:
            if cost_micros == 0:
                await self.void()
            else:
                await self.ledger.post(self.id, response, cost_micros)
        except ReservationGoneError:
            raise Problem(
                "storage-unavailable",
                "The reservation for this call was lost. Send the same signed request again.",
                retry_after_seconds=1,
            ) from None

    async def release(self) -> None:
        """Give the price and the nonce back, unless the price was charged: the same request may be sent again."""
        await self.ledger.release(self.id)

    async def void(self) -> None:
        """Give the price back; the nonce stays used."""
        await self.ledger.void(self.id)

    def delivered(self) -> None:
        """The response was completely sent: the same call does not get it again."""
        self.ledger.delivered(self.id)


class CallSpending(Struct, frozen=True):
    """What an agent paid for one operation on a UTC day (days since 1970).

    Service and operation are empty for calls that were made before the ledger kept them.
    """

    day: int
    service: str
    operation: str
    calls: int
    spent_micros: int


async def claim(  # noqa: PLR0913, PLR0917 - what identifies a call, and what it costs
    ledger: Ledger,
    agent_id: str,
    nonce: str,
    price_micros: int,
    fingerprint: bytes,
    service: str,
    operation: str,
) -> Claim:
    """Claim the nonce and reserve the price in one transaction. Raises Problem `nonce-reused`, `insufficient-balance`.

    `fingerprint` identifies the request: a repeated nonce with the same request gets the stored response, if any.
    """
    call_id = f"call:{agent_id}:{nonce}"
    memo = {"service": service, "operation": operation}
    outcome = await ledger.reserve(call_id, agent_account(agent_id), REVENUE, price_micros, CALL, fingerprint, memo)
    if isinstance(outcome, Reserved):
        return Claim(ledger, call_id)
    if isinstance(outcome, Insufficient):
        balance_usd, price_usd = usd(outcome.balance_micros), usd(price_micros)
        raise Problem(
            "insufficient-balance",
            f"The balance is {balance_usd} USD and the call costs {price_usd} USD. "
            "Send USDC to the treasury, then call POST /api/agent/deposit.",
            balance_usd=balance_usd,
            price_usd=price_usd,
        )
    if outcome.response is None:
        raise Problem(
            "nonce-reused",
            "This nonce was used before. Sign every call with a new random nonce.",
            headers={"WWW-Authenticate": "Agent"},
        )
    return Claim(ledger, call_id, outcome.response)


async def agent_balance(ledger: Ledger, agent_id: str) -> AgentBalance:
    """An agent's deposits, spending and balance."""
    account = await ledger.account(agent_account(agent_id))
    reversed_micros = await ledger.reversed_micros(account.name)
    return AgentBalance(
        balance_micros=account.balance_micros,
        reserved_micros=account.reserved_micros,
        deposited_micros=account.total_in_micros - reversed_micros,
        spent_micros=account.total_out_micros - reversed_micros,
        calls=account.posted_count,
        last_call_at=account.last_at,
    )


async def agent_spending(ledger: Ledger, agent_id: str, since_day: int) -> list[CallSpending]:
    """What an agent's calls cost, by UTC day and operation, from a day (days since 1970) on; most first."""
    spent = await ledger.spending(agent_account(agent_id), CALL, since_day * SECONDS_PER_DAY)
    memos = ((one, one.memo or {}) for one in sorted(spent, key=lambda one: (one.day, -one.amount_micros)))
    return [
        CallSpending(one.day, memo.get("service", ""), memo.get("operation", ""), one.count, one.amount_micros)
        for one, memo in memos
    ]
