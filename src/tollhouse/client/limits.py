"""A payer with a limit of what it pays by itself."""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tollhouse import clock
from tollhouse.client.errors import SpendingLimitError
from tollhouse.client.offer import Offer, PaymentTerms
from tollhouse.client.payer import Payer, Payment
from tollhouse.evm import parse_address

# Circle's USDC on Base.
BASE_USDC = {"eip155:8453": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimit:
    """What one client may pay, in micro-USD: at most `per_call_micros` for a call, `total_micros` for all of its calls.

    `tokens` maps each network that may be paid on to the address of its dollar token with 6 decimals. With
    `recipients`, only these addresses may be paid.
    """

    per_call_micros: int
    total_micros: int
    tokens: Mapping[str, str] = field(default_factory=lambda: BASE_USDC)
    recipients: Collection[str] | None = None

    def refusal(self, offer: Offer) -> str:
        """Why this payment is outside the limit, whatever was paid before; empty if it is within."""
        token = self.tokens.get(offer.network)
        if token is None:
            return f"payments on {offer.network} are not allowed"
        if not _same(token, offer.asset):
            return f"payments in the token {offer.asset} are not allowed"
        if self.recipients is not None and not any(_same(each, offer.pay_to) for each in self.recipients):
            return f"payments to {offer.pay_to} are not allowed"
        if offer.micros > self.per_call_micros:
            return f"the price is {offer.micros} micro-USD, more than {self.per_call_micros} for a call"
        return ""


class LimitedPayer:
    """A payer that signs only within a limit. Several clients and threads may share it, and with it the limit.

    A signed payment counts as spent. One for which the server answered without taking it counts until it expires,
    because a signature cannot be withdrawn.
    """

    def __init__(self, payer: Payer, limit: SpendingLimit) -> None:
        self._payer = payer
        self._limit = limit
        self._lock = threading.Lock()
        self._spent_micros = 0
        self._unused: list[tuple[float, int]] = []

    @property
    def spent_micros(self) -> int:
        """The micro-USD of the payments signed, without those that were not taken."""
        return self._spent_micros

    def pay(self, terms: PaymentTerms) -> Payment:
        """Sign the first offer that is within the limit. Raises SpendingLimitError if none is."""
        refusals = [(offer, raw, self._limit.refusal(offer)) for offer, raw in terms.offers]
        for offer, raw, refusal in refusals:
            if not refusal:
                self._reserve(offer)
                return self._payer.pay(terms.resource, offer, raw)
        raise SpendingLimitError("; ".join(dict.fromkeys(refusal for _, _, refusal in refusals)))

    def _reserve(self, offer: Offer) -> None:
        with self._lock:
            now = clock.seconds()
            self._unused = [(expires_at, micros) for expires_at, micros in self._unused if expires_at > now]
            used = self._spent_micros + sum(micros for _, micros in self._unused)
            if used + offer.micros > self._limit.total_micros:
                raise SpendingLimitError(
                    f"the price is {offer.micros} micro-USD, and {self._limit.total_micros - used} of "
                    f"{self._limit.total_micros} remain"
                )
            self._spent_micros += offer.micros

    def not_taken(self, payment: Payment, taken_micros: int = 0) -> None:
        """Free what the server did not take of a payment, once its signature has expired."""
        remaining = payment.micros - taken_micros
        with self._lock:
            self._spent_micros -= remaining
            self._unused.append((payment.expires_at, remaining))


def _same(one: str, other: str) -> bool:
    return parse_address(one).raw == parse_address(other).raw
