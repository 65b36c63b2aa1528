"""Transactions that carry payments: fees, the wallet that signs, and the in-memory queue."""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from statistics import median_low
from typing import Literal

from msgspec import Struct, field

from tollhouse.evm import RlpItem, TransferWithAuthorization, address_of, checksummed, keccak256, parse_private_key, rlp
from tollhouse.payments.chain.client import LATEST, ChainClient, accepted
from tollhouse.payments.chain.contracts import (
    MULTICALL3,
    ContractCall,
    aggregate_calls,
    multicall_results,
    transfer_with_contract_signature,
)
from tollhouse.payments.chain.replies import ChainRefused, FeeHistory
from tollhouse.payments.x402.store import THIS_SERVER
from tollhouse.payments.x402.types import Failed, Payment, Requirement, Settled, SettlementPlan, Unknown

_KIND = b"\x02"


class Fees(Struct, frozen=True):
    """Fees per gas in wei: at most `max_fee` in all, of which at most `tip` for the block producer."""

    max_fee: int
    tip: int


class TransactionRequest(Struct, frozen=True):
    """What a transaction does: call `to` with `data`, with at most `gas`. It transfers no ether."""

    to: str
    data: bytes
    gas: int


class Signed(Struct, frozen=True):
    """A signed transaction. `hash` is lower-case text."""

    hash: str
    raw: bytes


class Wallet:
    """The facilitator's account. Its key is never shown, neither in text nor in an error."""

    __slots__ = ("_key", "address")

    def __init__(self, private_key: str) -> None:
        """Take the key as hex, with or without 0x. Raises ValueError, which never shows the key."""
        self._key = parse_private_key(private_key)
        self.address = checksummed(address_of(self._key.public_key))

    def __repr__(self) -> str:
        return f"Wallet({self.address})"

    def sign(self, chain_id: int, nonce: int, fees: Fees, request: TransactionRequest) -> Signed:
        """Sign the request as a transaction of this account with that nonce."""
        to, value, access_list = bytes.fromhex(request.to[2:]), 0, ()
        fields: list[RlpItem] = [
            *(chain_id, nonce, fees.tip, fees.max_fee, request.gas),
            *(to, value, request.data, access_list),
        ]
        made = self._key.sign_recoverable(keccak256(_KIND + rlp(fields)), hasher=None)
        r, s, parity = int.from_bytes(made[:32]), int.from_bytes(made[32:64]), made[64]
        raw = _KIND + rlp([*fields, parity, r, s])
        return Signed("0x" + keccak256(raw).hex(), raw)


FEE_HISTORY_BLOCKS = 5
PERCENTILE = 50.0
MIN_TIP = 1_000_000
"""A thousandth of a gwei: the minimum of Base's sequencer."""
MAX_TIP = 100_000_000
"""A tenth of a gwei, a hundred times as much. A tip decides who goes first, and a payment need not: neither a crowd
that outbids itself nor a node that errs may drain the account. What blocks pass by is offered again for more anyway."""

MAX_QUOTE_FACTOR = 20


def fee_quote(history: FeeHistory) -> Fees:
    """Twice the next block's base fee, enough for six full blocks, and the usual tip within its bounds.

    Where gas itself costs more than the maximum tip, the tip may be as high as the base fee.
    """
    base_fee = history.base_fees[-1]
    tips = [row[0] for row in history.rewards if row]
    usual = median_low(tips) if tips else 0
    tip = min(max(MIN_TIP, usual), max(MAX_TIP, base_fee))
    return Fees(2 * base_fee + tip, tip)


def bump_fees(fees: Fees) -> Fees:
    """An eighth more of both, rounded up: nodes require a tenth more before they replace a transaction."""
    return Fees(fees.max_fee * 9 // 8 + 1, fees.tip * 9 // 8 + 1)


def replacement_fees(old: Fees, quote: Fees, highest: int) -> Fees | None:
    """The fees of a replacement; None if they would be above `highest`, or absurdly above the current quote."""
    more = bump_fees(old)
    offered = Fees(max(more.max_fee, quote.max_fee), max(more.tip, quote.tip))
    return offered if offered.max_fee <= min(highest, MAX_QUOTE_FACTOR * quote.max_fee) else None


MAX_BATCH = 100
"""Payments in one transaction: far below the gas limit of a transaction (EIP-7825)."""
MAX_SLOTS = 16
"""Pending transactions at once: as many as nodes reliably keep for one account."""
MAX_PENDING = 10_000

Key = tuple[str, str, str]
Outcome = Settled | Failed | Unknown


class PendingPayment(Struct, eq=False):
    """One payment until its outcome is known. Times are monotonic.

    `is_isolated`: it must not share a transaction, because a contract's behaviour there is unpredictable, or because
    only the account itself may send it.
    `requested_by` is who asked for it: another's settlement of the same authorization is not this one's.
    """

    payment: Payment
    requirement: Requirement
    plan: SettlementPlan
    outcome: asyncio.Future[Outcome]
    since: float
    is_isolated: bool
    requested_by: str = THIS_SERVER
    not_before: float = 0.0
    in_mempool_since: float | None = None

    @property
    def key(self) -> Key:
        """The authorization, which the chain executes only once."""
        return self.requirement.asset.lower(), self.payment.payer, self.payment.nonce

    def is_same_payment(self, payment: Payment, requirement: Requirement, requested_by: str) -> bool:
        """Whether it is the same transfer with the same signature, for the same server."""
        ours = (self.payment.authorization, self.payment.signature, self.requirement, self.requested_by)
        return ours == (payment.authorization, payment.signature, requirement, requested_by)


class Attempt(Struct, frozen=True):
    """One transaction under a nonce. At most one of a nonce's attempts is mined."""

    signed: Signed
    fees: Fees
    request: TransactionRequest


class NonceSlot(Struct, eq=False):
    """A nonce in use, the transactions sent under it, and the payments they carry.

    `first_polled_block` is the height of the first poll for its latest attempt. `is_broadcast`: the first broadcast is
    over and was not refused. `is_uncertain`: it is unknown whether the node has it. `reserved_nanos` is what was taken
    from the day's budget for gas.
    """

    nonce: int
    payments: tuple[PendingPayment, ...]
    attempts: list[Attempt]
    last_broadcast_at: float
    reserved_nanos: int = 0
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
                owed[pending.payment.payer] = owed.get(pending.payment.payer, 0) + pending.requirement.amount_micros
        return owed

    def clear(self, slot: NonceSlot) -> None:
        """Remove a slot whose nonce is used."""
        del self.slots[slot.nonce]
        self.changed.set()


def transaction_hashes(slots: Iterable[NonceSlot]) -> list[str]:
    """The hashes of all transactions of these slots."""
    return [tx_hash for slot in slots for tx_hash in slot.hashes]


CANCEL_GAS = 21_000
FIRST_GAS, EACH_GAS = 60_000, 90_000
"""USDC's transfer for an EOA uses at most 65,000 gas, 42,500 in a batch. Unused gas costs nothing."""
MAX_SINGLE_GAS = 500_000
"""The most that a contract wallet may use, whatever it costs."""
MAX_ESTIMATE_GAS = 2_000_000
AROUND_GAS = 30_000
"""What Multicall3 uses for one call, including the 64th of the gas that it must keep back (EIP-150)."""
DEPLOYMENT_GAS = 1_500_000


UNIQUE_BYTES = 8


class GasLimitExceededError(Exception):
    """A contract wallet would use more gas than the operator pays for."""


def batch_call(payments: Sequence[PendingPayment]) -> TransactionRequest:
    """Payments from EOAs in one Multicall3 call. A failing one does not affect the others.

    Even a single payment goes through Multicall3: an authorization that somebody else uses first then fails inside, and
    the transaction does not revert. That costs about a tenth more gas.
    """
    return _batch([pending.plan.transfer for pending in payments], FIRST_GAS + EACH_GAS * len(payments))


def call_frame(account: str, fees: Fees, gas: int) -> dict[str, str]:
    """The members of a transaction that a contract can see, for a call that simulates it."""
    return {
        "from": account,
        "gas": hex(gas),
        "maxFeePerGas": hex(fees.max_fee),
        "maxPriorityFeePerGas": hex(fees.tip),
    }


async def single_call(
    chain: ChainClient, account: str, pending: PendingPayment, fees_for: Callable[[int], Fees | None], max_gas: int
) -> tuple[TransactionRequest, Fees]:
    """The payment that must have a transaction of its own, after a deployment where needed, with at most `max_gas`.

    It is simulated with exactly the sender, data, fees and gas limit that it is sent with; `fees_for` tells the fees
    for a gas limit. Raises ChainUnavailable, ChainRefused if it would fail, GasLimitExceededError.
    """
    plan = pending.plan
    calls = [plan.transfer] if plan.deployment is None else [plan.deployment, plan.transfer]
    most = min(max_gas, MAX_SINGLE_GAS if plan.deployment is None else DEPLOYMENT_GAS)
    fees = fees_for(most)
    if fees is None:
        raise GasLimitExceededError
    to, data = (plan.transfer.to, plan.transfer.data) if plan.is_direct else _aggregate(calls, may_fail=False)
    used = await chain.estimate_gas(call_frame(account, fees, MAX_ESTIMATE_GAS) | {"to": to, "data": "0x" + data.hex()})
    gas = min(used * 5 // 4 + AROUND_GAS, most)
    request = _request(to, data, gas) if plan.is_direct else _batch(calls, gas)
    fees = fees_for(request.gas)
    if used > most or fees is None:
        raise GasLimitExceededError
    transaction = {"to": request.to, "data": "0x" + request.data.hex(), **call_frame(account, fees, request.gas)}
    [reply] = await chain.rpc.try_batch([("eth_call", [transaction, LATEST])])
    is_success = (
        not isinstance(reply, ChainRefused)
        if plan.is_direct
        else multicall_results(accepted(reply), len(calls))[-1].is_success
    )
    if not is_success:
        raise GasLimitExceededError
    return request, fees


def typical_payment(asset: str) -> TransactionRequest:
    """A transaction with one payment, as many bytes long and as hard to compress as a real one."""
    noise = b"".join(keccak256(bytes([number])) for number in range(6))
    authorization = TransferWithAuthorization(noise[:20], noise[20:40], 1_000, 0, 2**31, noise[64:96])
    transfer = transfer_with_contract_signature(authorization, noise[96:161])
    return _batch([ContractCall(asset, transfer)], FIRST_GAS + EACH_GAS)


def cancel_transaction(account: str) -> TransactionRequest:
    """An empty transaction that uses up a nonce."""
    return TransactionRequest(account, b"", CANCEL_GAS)


def _batch(calls: list[ContractCall], gas: int) -> TransactionRequest:
    return _request(*_aggregate(calls), gas)


def _aggregate(calls: list[ContractCall], *, may_fail: bool = True) -> tuple[str, bytes]:
    return MULTICALL3, aggregate_calls(calls, may_fail=may_fail)


def _request(to: str, data: bytes, gas: int) -> TransactionRequest:
    """The call, followed by random bytes, which a contract ignores.

    Two servers with one key and separate databases would otherwise sign the same transaction for the same payment, and
    each would take it for its own.
    """
    return TransactionRequest(to, data + secrets.token_bytes(UNIQUE_BYTES), gas)


RpcErrorKind = Literal["known", "nonce_taken", "nonce_used", "underpriced", "other"]

_MESSAGES: dict[str, RpcErrorKind] = {
    "already known": "known",
    "already imported": "known",
    "known transaction": "known",
    "replacement": "nonce_taken",
    "nonce too low": "nonce_used",
    "underpriced": "underpriced",
    "less than block base fee": "underpriced",
    "fee too low": "underpriced",
}


def classify_rpc_error(refusal: ChainRefused) -> RpcErrorKind:
    """Classify why a node refuses a transaction. Nodes agree on the messages, not on the codes.

    `known`: the node has it already. `nonce_taken`: another transaction is pending under the nonce. `nonce_used`: the
    nonce is used. `underpriced`: offer higher fees.
    """
    message = refusal.message.lower()
    return next((kind for words, kind in _MESSAGES.items() if words in message), "other")
