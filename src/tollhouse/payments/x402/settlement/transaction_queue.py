"""In-memory queue of payments and the transactions that carry them."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.contracts import MULTICALL3, Call, aggregated
from tollhouse.payments.x402.settlement.transaction import Errand, Fees, Signed
from tollhouse.payments.x402.types import Failed, Payment, Requirement, Settled, Unknown
from tollhouse.payments.x402.verification import SettlementPlan

LARGEST_LOAD = 100
"""Payments in one transaction: far below what a transaction's gas may be (EIP-7825)."""
MOST_SLOTS = 16
"""Transactions under way at once: as many as nodes keep of one account for certain."""
MOST_RIDES = 10_000

Key = tuple[str, str, str]
Outcome = Settled | Failed | Unknown


class PendingPayment(Struct, eq=False):
    """One payment until its outcome is known. Moments are the event loop's.

    `is_alone`: it must not share a transaction, because what it does there cannot be foreseen.
    """

    payment: Payment
    requirement: Requirement
    plan: SettlementPlan
    outcome: asyncio.Future[Outcome]
    since: float
    is_alone: bool
    not_before: float = 0.0
    attempts: int = 0
    held_since: float | None = None

    @property
    def key(self) -> Key:
        """The authorization, of which the chain takes only one."""
        return self.requirement.asset.lower(), self.payment.payer, self.payment.nonce

    def is_for(self, payment: Payment, requirement: Requirement) -> bool:
        """Whether the same transfer, signed alike, is asked for."""
        ours = (self.payment.authorization, self.payment.signature, self.requirement)
        return ours == (payment.authorization, payment.signature, requirement)


class Attempt(Struct, frozen=True):
    """One transaction under a nonce: of several, one at most is ever mined."""

    signed: Signed
    fees: Fees
    errand: Errand


class NonceSlot(Struct, eq=False):
    """A nonce of ours in use, the transactions sent under it, and the payments that any of them carries.

    `said_at`: when it was last offered to the node. `said_block`: the height when its newest version was first looked
    for. `is_offered`: the first offer is over and was not refused. `is_doubtful`: whether the node has it is not known.
    """

    nonce: int
    rides: tuple[PendingPayment, ...]
    versions: list[Attempt]
    said_at: float
    said_block: int | None = None
    is_offered: bool = False
    is_doubtful: bool = False
    is_missing_since: float | None = None

    @property
    def newest(self) -> Attempt:
        return self.versions[-1]

    @property
    def hashes(self) -> list[str]:
        return [version.signed.hash for version in self.versions]


class TransactionQueue(Struct, eq=False):
    """All of one process. `changed`: there may be something to submit; `sent`: there is something to look for."""

    rides: dict[Key, PendingPayment] = field(default_factory=dict)
    waiting: deque[PendingPayment] = field(default_factory=deque)
    slots: dict[int, NonceSlot] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    sent: asyncio.Event = field(default_factory=asyncio.Event)

    def board(self, ride: PendingPayment) -> None:
        """A new payment."""
        self.rides[ride.key] = ride
        self.wait(ride)

    def wait(self, ride: PendingPayment, until: float = 0.0) -> None:
        """Carry it out as soon as there is room, not before that moment."""
        ride.not_before = until
        self.waiting.append(ride)
        self.changed.set()

    def arrive(self, ride: PendingPayment, outcome: Outcome) -> None:
        """Its outcome is known."""
        self.rides.pop(ride.key, None)
        if not ride.outcome.done():
            ride.outcome.set_result(outcome)

    def load(self, now: float) -> list[PendingPayment]:
        """Take the next payments that may go: many that may share a transaction, or one that must not."""
        if len(self.slots) >= MOST_SLOTS:
            return []
        due = [ride for ride in self.waiting if ride.not_before <= now]
        taken = due[:1] if due and due[0].is_alone else [ride for ride in due if not ride.is_alone][:LARGEST_LOAD]
        left = set(map(id, taken))
        self.waiting = deque(ride for ride in self.waiting if id(ride) not in left)
        return taken

    def next_due(self) -> float | None:
        """When the next payment may go; None where none waits, or no more transactions may be under way."""
        if len(self.slots) >= MOST_SLOTS:
            return None
        return min((ride.not_before for ride in self.waiting), default=None)

    def free_nonce(self, first: int) -> int:
        """The lowest nonce from `first` on under which nothing of ours is under way."""
        while first in self.slots:
            first += 1
        return first

    def burden(self) -> dict[str, int]:
        """By payer, what is under way and may not have left the account yet."""
        owed: dict[str, int] = {}
        for slot in self.slots.values():
            for ride in slot.rides:
                owed[ride.payment.payer] = owed.get(ride.payment.payer, 0) + ride.payment.authorization.value
        return owed

    def clear(self, slot: NonceSlot) -> None:
        """The nonce is used up."""
        del self.slots[slot.nonce]
        self.changed.set()


def hashes_of(slots: Iterable[NonceSlot]) -> list[str]:
    """Every transaction of these slots."""
    return [tx_hash for slot in slots for tx_hash in slot.hashes]


def payments_of(rides: Sequence[PendingPayment]) -> list[tuple[str, str]]:
    """Payer and nonce of each, for the log."""
    return [(ride.payment.payer, ride.payment.nonce) for ride in rides]


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


def batch_call(rides: Sequence[PendingPayment]) -> Errand:
    """Payments of keys, of which one that fails leaves the others be."""
    return _batch([ride.plan.transfer for ride in rides], FIRST_GAS + EACH_GAS * len(rides))


async def single_call(chain: ChainClient, account: str, ride: PendingPayment) -> Errand:
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


def cancel_transaction(account: str) -> Errand:
    """Use a nonce up."""
    return Errand(account, b"", NOTHING_GAS)


def _batch(calls: list[Call], gas: int) -> Errand:
    return Errand(MULTICALL3, aggregated(calls), gas)
