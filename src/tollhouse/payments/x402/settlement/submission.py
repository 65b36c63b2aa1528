"""Submission of queued payments: simulate a batch on the newest block, then send it under a nonce of the account."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Literal

from msgspec import Struct

from tollhouse import clock, failpoints
from tollhouse.logs import logger
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, PENDING, ChainClient, RpcCall
from tollhouse.payments.chain.contracts import (
    CallResult,
    ContractCall,
    balance_of,
    multicall,
    multicall_results,
    token_balance,
    uint256,
)
from tollhouse.payments.chain.replies import ChainRefused, ChainUnavailable
from tollhouse.payments.x402.settlement.gas import (
    Gas,
    limited_fees,
    max_gas,
    payments_unavailable,
)
from tollhouse.payments.x402.settlement.transactions import (
    Attempt,
    Fees,
    GasLimitExceededError,
    NonceSlot,
    PendingPayment,
    TransactionQueue,
    TransactionRequest,
    Wallet,
    batch_call,
    bump_fees,
    call_frame,
    cancel_transaction,
    classify_rpc_error,
    single_call,
)
from tollhouse.payments.x402.store import insert_attempts
from tollhouse.payments.x402.types import (
    Failed,
    InvalidReason,
    NonceUse,
    Payment,
    Requirement,
    VerificationFailure,
    Verified,
    verification_failure,
)
from tollhouse.payments.x402.verification import WalletRules, scheme_of, verify_on_chain
from tollhouse.storage.database import Database

Verdict = Failed | Literal["ready", "isolate", "already_used", "in_mempool", "insufficient_pending"]
"""`isolate`: send without other payments. `already_used`: the authorization was used. `in_mempool`: a pending
transaction uses it. `insufficient_pending`: the payer's pending payments may leave too little, so wait for them."""

MINING_SECONDS = 3
"""An authorization that expires sooner could be mined too late."""
NO_PENDING_SECONDS = 60.0
"""How long a node that did not reply about its pending block is not asked again."""


class SimulationResult(Struct, frozen=True):
    """The account's next nonce, and a verdict for each payment, in order."""

    nonce: int
    verdicts: list[Verdict]


class _ChainState(Struct, frozen=True):
    """The state of one moment. `results` are those of the calls, executed in order on the newest block.

    `has_code` are payers that are contracts, or keys with delegated code (EIP-7702). `in_mempool`: whether a pending
    transaction, perhaps of another process, uses the authorization.
    """

    nonce: int
    results: list[CallResult]
    has_code: set[str]
    in_mempool: list[bool]


class Preflight:
    """Simulates payments in one token, sent from one account. Every method raises ChainUnavailable."""

    def __init__(self, chain: ChainClient, account: str, asset: str, rules: WalletRules, gas: Gas) -> None:
        self._chain = chain
        self._account = account
        self._asset = asset
        self._rules = rules
        self._gas = gas
        self._skip_pending_until = 0.0

    async def verify(self, payment: Payment, requirement: Requirement, fees: Fees) -> Verified | VerificationFailure:
        """Whether the payment would be settled by a transaction of this account with these fees."""
        if self._gas.refused.has(payment.payer):
            return verification_failure(InvalidReason.PAYER_REFUSED, payment)
        gas = self._gas.verification_gas(fees, with_deployment=bool(self._rules.factories))
        frame = call_frame(self._account, fees, gas)
        verified = await verify_on_chain(self._chain, payment, requirement, self._rules, frame)
        if isinstance(verified, Verified) and verified.code_hash and self._gas.refused.has(verified.code_hash):
            return verification_failure(InvalidReason.WALLET_CODE_REFUSED, payment)
        return verified

    async def simulate(
        self, payments: Sequence[PendingPayment], pending_outflows: Mapping[str, int], fees: Fees
    ) -> SimulationResult:
        """Simulate one isolated payment, or several. `pending_outflows` are the payers' unmined payments.

        The fees matter for isolated ones only: in the others no code of a payer runs.
        """
        if not payments[0].is_isolated:
            return await self._simulate_batch(payments, pending_outflows)
        payment = payments[0].payment
        verified, balance, seen = await asyncio.gather(
            self.verify(payment, payments[0].requirement, fees),
            token_balance(self._chain, self._asset, payment.payer),
            self._fetch_state(payments, []),
        )
        owed = pending_outflows.get(payment.payer, 0)
        verdict = _verdict(
            is_used=isinstance(verified, VerificationFailure) and verified.is_used,
            in_mempool=seen.in_mempool[0],
            is_covered=not owed or balance >= owed + payments[0].requirement.amount_micros,
            valid_before=payment.authorization.valid_before,
        )
        if verdict == "ready" and isinstance(verified, VerificationFailure):
            verdict = Failed(verified.reason)
        return SimulationResult(seen.nonce, [verdict])

    async def still_valid(self, payments: Sequence[PendingPayment], fees: Fees) -> list[PendingPayment]:
        """The payments of a transaction that would succeed if it were replaced now."""
        if len(payments) == 1 and payments[0].is_isolated:
            pending = payments[0]
            verified = await self.verify(pending.payment, pending.requirement, fees)
            return [] if isinstance(verified, VerificationFailure) else [pending]
        seen = await self._fetch_state(payments, [pending.plan.transfer for pending in payments])
        return [pending for pending, outcome in zip(payments, seen.results, strict=True) if outcome.is_success]

    async def _simulate_batch(
        self, payments: Sequence[PendingPayment], pending_outflows: Mapping[str, int]
    ) -> SimulationResult:
        payers = list(dict.fromkeys(pending.payment.payer for pending in payments))
        balances = [ContractCall(self._asset, balance_of(bytes.fromhex(payer[2:]))) for payer in payers]
        count, calls = len(payments), [*_states(payments), *balances]
        seen = await self._fetch_state(payments, [*calls, *(pending.plan.transfer for pending in payments)], payers)
        remaining = {payer: uint256(outcome) for payer, outcome in zip(payers, seen.results[count:], strict=False)}
        verdicts: list[Verdict] = []
        for pending, state, in_mempool, transfer in zip(
            payments, seen.results[:count], seen.in_mempool, seen.results[-count:], strict=True
        ):
            payer, value = pending.payment.payer, pending.requirement.amount_micros
            owed = pending_outflows.get(payer, 0)
            verdict = _verdict(
                is_used=_nonce_use(pending).is_in(state),
                in_mempool=in_mempool,
                is_covered=not owed or remaining[payer] >= owed + value,
                valid_before=pending.payment.authorization.valid_before,
            )
            if verdict == "ready" and self._gas.refused.has(payer):
                verdict = Failed(InvalidReason.PAYER_REFUSED)
            if verdict == "ready" and (not transfer.is_success or payer in seen.has_code):
                # A payer with code may do anything in a shared transaction, and make other payments fail.
                verdict = "isolate"
            if verdict == "ready":
                remaining[payer] -= value
            verdicts.append(verdict)
        return SimulationResult(seen.nonce, verdicts)

    async def _fetch_state(
        self, payments: Sequence[PendingPayment], calls: Sequence[ContractCall], payers: Sequence[str] = ()
    ) -> _ChainState:
        """Fetch everything in one round trip. Skip the mempool for a while if the node does not support it."""
        now = monotonic()
        if now < self._skip_pending_until:
            return await self._query_state([], payments, calls, payers)
        try:
            return await self._query_state([multicall(_states(payments), PENDING)], payments, calls, payers)
        except ChainUnavailable:
            seen = await self._query_state([], payments, calls, payers)
            self._skip_pending_until = now + NO_PENDING_SECONDS
            return seen

    async def _query_state(
        self,
        mempool_calls: list[RpcCall],
        payments: Sequence[PendingPayment],
        calls: Sequence[ContractCall],
        payers: Sequence[str],
    ) -> _ChainState:
        count = len(payments)
        raw = await self._chain.rpc.batch(
            [
                ("eth_getTransactionCount", [self._account, PENDING]),
                multicall(calls, LATEST, {"from": self._account}),
                *(("eth_getCode", [payer, LATEST]) for payer in payers),
                *mempool_calls,
            ]
        )
        has_code = {payer for payer, code in zip(payers, raw[2:], strict=False) if replies.hex_bytes(code)}
        uses = multicall_results(raw[-1], count) if mempool_calls else []
        return _ChainState(
            replies.quantity(raw[0]),
            multicall_results(raw[1], len(calls)),
            has_code,
            [_nonce_use(pending).is_in(use) for pending, use in zip(payments, uses, strict=False)] or [False] * count,
        )


def _verdict(*, is_used: bool, in_mempool: bool, is_covered: bool, valid_before: int) -> Verdict:
    if is_used:
        return "already_used"
    if in_mempool:
        return "in_mempool"
    if valid_before <= clock.seconds() + MINING_SECONDS:
        return Failed(InvalidReason.VALID_BEFORE)
    return "ready" if is_covered else "insufficient_pending"


def _states(payments: Sequence[PendingPayment]) -> list[ContractCall]:
    return [_nonce_use(pending).call for pending in payments]


def _nonce_use(pending: PendingPayment) -> NonceUse:
    return scheme_of(pending.payment).nonce_use(pending.payment, pending.requirement)


log = logger("payments.facilitator")

AccountLock = Callable[[], AbstractAsyncContextManager[None]]
"""The account's lock among all processes with its key."""

FAILED = "unexpected_settle_error"
MAX_SENDS = 8
"""How often a transaction is sent with another nonce or higher fees before its payments are retried later."""
MEMPOOL_PAUSE_SECONDS = 0.5
MAX_MEMPOOL_SECONDS = 20.0
WAIT_PAUSE_SECONDS = 0.25


class NotAcceptedError(Exception):
    """The node accepted the transaction with no nonce and no fees that were tried."""


@dataclass(frozen=True, slots=True)
class Submission:
    """Sends queued payments. A transaction is in a nonce slot before it is sent."""

    chain: ChainClient
    chain_id: int
    wallet: Wallet
    preflight: Preflight
    queue: TransactionQueue
    account_lock: AccountLock
    gas: Gas
    database: Database
    start_resolving: Callable[[PendingPayment], None]

    async def submit(self, payments: Sequence[PendingPayment]) -> None:
        """Send the payments that would succeed, and defer the others.

        Raises ChainUnavailable, ChainRefused, NotAcceptedError and storage problems: then nothing was sent.
        """
        fees = await self.gas.admit()
        async with self.account_lock():
            simulation = await self.preflight.simulate(payments, self.queue.pending_outflows(), fees)
            ready = []
            for pending, verdict in zip(payments, simulation.verdicts, strict=True):
                if verdict == "ready" or (verdict == "in_mempool" and self._was_in_mempool_long(pending)):
                    ready.append(pending)
                else:
                    self._defer(pending, verdict)
            if ready:
                await self._send(ready, simulation.nonce, fees)

    async def fill(self, nonce: int) -> None:
        """Use up a nonce that a process left behind with an unmined transaction. Raises as `submit`."""
        quote = await self.gas.quote()
        request = cancel_transaction(self.wallet.address)
        fees = limited_fees(quote, self.gas.ceiling_wei(quote), request.gas)
        if fees is None:
            raise payments_unavailable("gas_price")
        async with self.account_lock():
            await self._send_under_nonce(nonce, fees, [], request, may_change_nonce=False)

    async def record_attempt(
        self, nonce: int, fees: Fees, request: TransactionRequest, payments: Sequence[PendingPayment]
    ) -> tuple[Attempt, int]:
        """Sign a transaction; store it for its payments, and take its cost from the day's budget.

        The transaction, and its cost in nano-USD. Raises Problem `storage-unavailable`, `payments-unavailable`: nothing
        may be sent that was not stored.
        """
        attempt = Attempt(self.wallet.sign(self.chain_id, nonce, fees, request), fees, request)
        carried = [(pending.payment.key, pending.requested_by) for pending in payments]
        async with self.database.writing() as transaction:
            await insert_attempts(transaction, attempt.signed.hash, carried)
            expected_gas = sum(pending.plan.gas for pending in payments)
            return attempt, await self.gas.reserve(transaction, attempt, len(payments), expected_gas)

    def _defer(self, pending: PendingPayment, verdict: Verdict) -> None:
        now = monotonic()
        if isinstance(verdict, Failed):
            self.queue.resolve(pending, verdict)
        elif verdict == "already_used":
            self.start_resolving(pending)
        elif verdict == "isolate":
            pending.is_isolated = True
            self.queue.wait(pending)
        elif verdict == "in_mempool":
            pending.in_mempool_since = pending.in_mempool_since or now
            self.queue.wait(pending, now + MEMPOOL_PAUSE_SECONDS)
        else:
            self.queue.wait(pending, now + WAIT_PAUSE_SECONDS)

    async def _send(self, payments: list[PendingPayment], nonce: int, fees: Fees) -> None:
        if not payments[0].is_isolated:
            await self._send_under_nonce(nonce, fees, payments, batch_call(payments))
            return
        quote = await self.gas.quote()
        fees_for = partial(limited_fees, quote, self.gas.ceiling_wei(quote))
        most = max_gas(quote, self.gas.ceiling_wei(quote))
        try:
            request, fees = await single_call(self.chain, self.wallet.address, payments[0], fees_for, most)
        except GasLimitExceededError:
            self.queue.resolve(payments[0], Failed(InvalidReason.GAS_LIMIT))
        except ChainRefused:
            # The simulation passed a moment ago: a contract whose result changes.
            self.queue.resolve(payments[0], Failed(InvalidReason.INVALID_STATE))
        else:
            await self._send_under_nonce(nonce, fees, payments, request)

    async def _send_under_nonce(
        self,
        nonce: int,
        fees: Fees,
        payments: list[PendingPayment],
        request: TransactionRequest,
        *,
        may_change_nonce: bool = True,
    ) -> None:
        for _ in range(MAX_SENDS):
            nonce = self.queue.next_free_nonce(nonce) if may_change_nonce else nonce
            if not may_change_nonce and nonce in self.queue.slots:
                return
            attempt, reserved = await self.record_attempt(nonce, fees, request, payments)
            slot = NonceSlot(nonce, tuple(payments), [attempt], monotonic(), reserved)
            try:
                await self._broadcast_first(slot)
            except ChainRefused as refusal:
                kind = classify_rpc_error(refusal)
                if kind == "other":
                    raise
                if kind == "nonce_used" and not may_change_nonce:
                    return
                if kind == "nonce_used":
                    nonce = await self.chain.transaction_count(self.wallet.address)
                elif kind == "nonce_taken" and may_change_nonce:
                    nonce += 1
                else:
                    fees = bump_fees(bump_fees(fees))
            else:
                return
        raise NotAcceptedError

    async def _broadcast_first(self, slot: NonceSlot) -> None:
        """Send a new slot's transaction. It may be mined from here on, except after ChainRefused."""
        self.queue.slots[slot.nonce] = slot
        failpoints.reach("facilitator.before-send")
        try:
            await self.chain.send_raw_transaction(slot.latest.signed.raw)
        except ChainUnavailable:
            slot.is_uncertain = True
        except ChainRefused as refusal:
            if classify_rpc_error(refusal) != "known":
                del self.queue.slots[slot.nonce]
                self.gas.release(slot.reserved_nanos)
                raise
        slot.is_broadcast = True
        failpoints.reach("facilitator.after-send")
        self.queue.sent.set()

    @staticmethod
    def _was_in_mempool_long(pending: PendingPayment) -> bool:
        return pending.in_mempool_since is not None and monotonic() - pending.in_mempool_since > MAX_MEMPOOL_SECONDS
