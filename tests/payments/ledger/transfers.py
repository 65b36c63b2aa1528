"""Transfers and reservations that the ledger's tests make."""

from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import StoredResponse, Transfer

PRICE = 10_000
ANSWER = StoredResponse(
    200, "application/json", b'{"events":[]}', ((b"x-total", b"0"),), '"abc"', "private, max-age=60"
)


def deposit(name: str, micros: int, agent: str = "agent:a", memo=None) -> Transfer:
    return Transfer(f"deposit:{name}", "treasury", agent, micros, "deposit", memo)


def reversal(name: str, micros: int, agent: str = "agent:a") -> Transfer:
    return Transfer(f"reversal:{name}", agent, "treasury", micros, "reversal")


async def reserve(ledger: Ledger, nonce: str, agent: str = "agent:a", fingerprint: bytes = b"f", price: int = PRICE):
    return await ledger.reserve(f"call:{agent}:{nonce}", agent, "revenue", price, "call", fingerprint)


async def charge(ledger: Ledger, nonce: str, agent: str = "agent:a", answer: StoredResponse | None = ANSWER) -> None:
    await reserve(ledger, nonce, agent)
    await ledger.post(f"call:{agent}:{nonce}", answer)
