"""In-memory queue of payments and the transactions that carry them."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.contracts import MULTICALL3, ContractCall, aggregate_calls
from tollhouse.payments.x402.settlement.transaction import Fees, Signed, TransactionRequest
from tollhouse.payments.x402.types import Failed, Payment, Requirement, Settled, Unknown
from tollhouse.payments.x402.verification import SettlementPlan

MAX_BATCH = 100
"""Payments in one transaction: far below the gas limit of a transaction (EIP-7825)."""
MAX_SLOTS = 16
"""Pending transactions at once: as many as nodes reliably keep for one account."""
MAX_PENDING = 10_000

Key = tuple[str, str, str]
Outcome = Settled | Failed | Unknown


class PendingPayment(Struct, eq=False):
    """One payment until its outcome is known. Times are monotonic.

    `is_isolated`: it must not share a transaction, because a contract's behaviour there is unpredictable.
    """

    payment: Payment
    requirement: Requirement
    plan: SettlementPlan
    outcome: asyncio.Future[Outcome]
    since: float
    is_isolated: bool
    not_before: float = 0.0
    failed_attempts: int = 0
    in_mempool_since: float | None = None

    @property
    def key(self) -> Key:
        """The authorization, which the chain executes only once."""
        return self.requirement.asset.lower(), self.payment.payer, self.payment.nonce

    def is_same_payment(self, payment: Payment, requirement: Requirement) -> bool:
        """Whether it is the same transfer with the same signature."""
        ours = (self.payment.authorization, self.payment.signature, self.requirement)
        return ours == (payment.authorization, payment.signature, requirement)


class Attempt(Struct, frozen=True):
    """One transaction under a nonce. At most one of a nonce's attempts is mined."""

    signed: Signed
    fees: Fees
    request: TransactionRequest


class NonceSlot(Struct, eq=False):
    """A nonce in use, the transactions sent under it, and the payments they carry.

    `first_polled_block` is the height of the first poll for its latest attempt. `is_broadcast`: the first broadcast is
    over and was not refused. `is_uncertain`: it is unknown whether the node has it.
    """

    nonce: int
    payments: tuple[PendingPayment, ...]
    attempts: list[Attempt]
    last_broadcast_at: float
    first_polled_block: int | None = None
    is_broadcast: bool = False
    is_uncertain: bool = False
    nonce_used_since: float | None = None

    @property
    def latest(self) -> Attempt:
        return self.attempts[-1]

    @property
    def hashes(self) -> list[str]:
        return [attempt.signed.hash for attempt in self.attempts]


class TransactionQueue(Struct, eq=False):
    """The payments and transactions of one process.

    `changed`: there may be something to submit; `sent`: there is something to poll for.
    """

    payments: dict[Key, PendingPayment] = field(default_factory=dict)
    waiting: deque[PendingPayment] = field(default_factory=deque)
    slots: dict[int, NonceSlot] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    sent: asyncio.Event = field(default_factory=asyncio.Event)

    def enqueue(self, pending: PendingPayment) -> None:
        """Add a new payment."""
        self.payments[pending.key] = pending
        self.wait(pending)

    def wait(self, pending: PendingPayment, until: float = 0.0) -> None:
        """Submit it as soon as there is room, not before that time."""
        pending.not_before = until
        self.waiting.append(pending)
        self.changed.set()

    def resolve(self, pending: PendingPayment, outcome: Outcome) -> None:
        """Set the outcome of a payment."""
        self.payments.pop(pending.key, None)
        if not pending.outcome.done():
            pending.outcome.set_result(outcome)

    def next_batch(self, now: float) -> list[PendingPayment]:
        """Take the next due payments: many that may share a transaction, or one isolated."""
        if len(self.slots) >= MAX_SLOTS:
            return []
        due = [pending for pending in self.waiting if pending.not_before <= now]
        taken = (
            due[:1]
            if due and due[0].is_isolated
            else [pending for pending in due if not pending.is_isolated][:MAX_BATCH]
        )
        taken_ids = set(map(id, taken))
        self.waiting = deque(pending for pending in self.waiting if id(pending) not in taken_ids)
        return taken

    def next_due(self) -> float | None:
        """When the next payment may be sent; None if none waits, or if every slot is in use."""
        if len(self.slots) >= MAX_SLOTS:
            return None
        return min((pending.not_before for pending in self.waiting), default=None)

    def next_free_nonce(self, first: int) -> int:
        """The lowest nonce from `first` on that no slot uses."""
        while first in self.slots:
            first += 1
        return first

    def pending_outflows(self) -> dict[str, int]:
        """By payer, the sum of payments that are sent and may not be mined yet."""
        owed: dict[str, int] = {}
        for slot in self.slots.values():
            for pending in slot.payments:
                owed[pending.payment.payer] = owed.get(pending.payment.payer, 0) + pending.payment.authorization.value
        return owed

    def clear(self, slot: NonceSlot) -> None:
        """Remove a slot whose nonce is used."""
        del self.slots[slot.nonce]
        self.changed.set()


def transaction_hashes(slots: Iterable[NonceSlot]) -> list[str]:
    """The hashes of all transactions of these slots."""
    return [tx_hash for slot in slots for tx_hash in slot.hashes]


def payment_keys(payments: Sequence[PendingPayment]) -> list[tuple[str, str]]:
    """Payer and nonce of each payment, for the log."""
    return [(pending.payment.payer, pending.payment.nonce) for pending in payments]


CANCEL_GAS = 21_000
FIRST_GAS, EACH_GAS = 60_000, 90_000
"""USDC's transfer for an EOA uses at most 65,000 gas, 42,500 in a batch. Unused gas costs nothing."""
MAX_SINGLE_GAS = 500_000
"""The most that a contract wallet may use."""
AROUND_GAS = 30_000
"""What Multicall3 uses for one call, including the 64th of the gas that it must keep back (EIP-150)."""
DEPLOYMENT_GAS = 1_500_000


class GasLimitExceededError(Exception):
    """A contract wallet would use more gas than the operator pays for."""


def batch_call(payments: Sequence[PendingPayment]) -> TransactionRequest:
    """Payments from EOAs in one Multicall3 call. A failing one does not affect the others.

    Even a single payment goes through Multicall3: an authorization that somebody else uses first then fails inside, and
    the transaction does not revert. That costs about a tenth more gas.
    """
    return _batch([pending.plan.transfer for pending in payments], FIRST_GAS + EACH_GAS * len(payments))


async def single_call(chain: ChainClient, account: str, pending: PendingPayment) -> TransactionRequest:
    """The payment from a contract wallet, after its deployment where needed.

    Raises ChainUnavailable, ChainRefused if it would revert, GasLimitExceededError.
    """
    transfer, deployment = pending.plan.transfer, pending.plan.deployment
    if deployment is not None:
        return _batch([deployment, transfer], DEPLOYMENT_GAS)
    used = await chain.estimate_gas({"from": account, "to": transfer.to, "data": "0x" + transfer.data.hex()})
    if used > MAX_SINGLE_GAS:
        raise GasLimitExceededError(f"{used} gas")
    return _batch([transfer], min(used * 5 // 4, MAX_SINGLE_GAS) + AROUND_GAS)


def cancel_transaction(account: str) -> TransactionRequest:
    """An empty transaction that uses up a nonce."""
    return TransactionRequest(account, b"", CANCEL_GAS)


def _batch(calls: list[ContractCall], gas: int) -> TransactionRequest:
    return TransactionRequest(MULTICALL3, aggregate_calls(calls), gas)
