"""What does not go as planned: authorizations used or failed, and transactions that are lost, skipped or orphaned."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from time import monotonic
from typing import Any

from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.replies import Block, ChainRefused, ChainUnavailable
from tollhouse.payments.x402.outcome import Pending, SettlementOutcome, Unrecoverable, recent_outcome
from tollhouse.payments.x402.settlement.gas import PAYMENT_GAS, RefusedPayers, limited_fees
from tollhouse.payments.x402.settlement.submission import Submission
from tollhouse.payments.x402.settlement.transactions import (
    Attempt,
    NonceSlot,
    Outcome,
    PendingPayment,
    TransactionQueue,
    batch_call,
    cancel_transaction,
    classify_rpc_error,
    replacement_fees,
)
from tollhouse.payments.x402.types import Failed, InvalidReason, Payment, Requirement, Settled, Unknown
from tollhouse.payments.x402.verification import code_hash

log = logger("payments.facilitator")

RETRY_SECONDS = 0.5
MAX_USE_LOOKUPS = 5

FindOutcome = Callable[[Payment, Requirement, str], Awaitable[SettlementOutcome]]
"""What the chain says of a payment that was requested by that caller."""


class Resolver:
    """Resolves the payments that a transaction did not settle, each in a task of its own."""

    def __init__(
        self, chain: ChainClient, queue: TransactionQueue, refused: RefusedPayers, find_outcome: FindOutcome
    ) -> None:
        self._chain = chain
        self._queue = queue
        self._refused = refused
        self._find_outcome = find_outcome
        self.tasks: dict[int, asyncio.Task[None]] = {}
        """The tasks, by the identity of their payment."""

    def resolve_failed(self, pending: PendingPayment) -> None:
        """Resolve a payment whose transaction did not settle it, and refuse its payer from now on.

        Not if somebody else carried the payment out: that is not the payer's doing. A wallet's code is refused too,
        unless the payer merely spent the money or the authorization elsewhere.
        """
        self._start(pending, self._resolve_failed(pending))

    def resolve_used(self, pending: PendingPayment) -> None:
        """Resolve a used authorization: settled by us before, or used otherwise."""
        self._start(pending, self._resolve_used(pending))

    def _start(self, pending: PendingPayment, resolving: Coroutine[Any, Any, None]) -> None:
        task = self.tasks[id(pending)] = asyncio.create_task(resolving)
        task.add_done_callback(lambda _: self.tasks.pop(id(pending), None))

    async def _resolve_failed(self, pending: PendingPayment) -> None:
        outcome: Outcome = Unknown()
        subjects: list[str] = []
        try:
            result = await self._find_use(pending)
            outcome = Failed(InvalidReason.TRANSACTION_FAILED) if isinstance(result, Pending) else result
            if isinstance(result, Pending) or await self._was_used_otherwise(pending):
                subjects.append(pending.payment.payer)
            if isinstance(result, Pending):
                is_poor, code = await self._explain_failure(pending)
                outcome = Failed(InvalidReason.INSUFFICIENT_FUNDS) if is_poor else outcome
                subjects += [code_hash(code)] if code and not is_poor else []
        except Problem:
            log.warning("failed payment not explained", payer=pending.payment.payer, nonce=pending.payment.nonce)
            subjects = [pending.payment.payer]
        if subjects:
            log.warning("payer refused: its transaction failed", subjects=subjects, nonce=pending.payment.nonce)
            await self._refused.add(subjects)
        self._queue.resolve(pending, outcome)

    async def _was_used_otherwise(self, pending: PendingPayment) -> bool:
        """Whether the authorization was cancelled, or used for anything but this payment. Raises as `_find_use`."""

        async def was_by_anybody(_payment: Payment, _requirement: Requirement, _tx_hash: str) -> bool:
            return True

        outcome = await recent_outcome(self._chain, pending.payment, pending.requirement, was_by_anybody)
        return isinstance(outcome, Unrecoverable) and outcome.reason == InvalidReason.NONCE_USED

    async def _explain_failure(self, pending: PendingPayment) -> tuple[bool, bytes]:
        """Whether the payer holds too little for an unused authorization, and its code. Raises ChainUnavailable."""
        payer = pending.payment.payer
        balance, code = await asyncio.gather(
            token_balance(self._chain, pending.requirement.asset, payer), self._chain.code(payer)
        )
        return balance < pending.requirement.amount_micros, code

    async def _resolve_used(self, pending: PendingPayment) -> None:
        outcome: Outcome | Pending = Unknown()
        try:
            outcome = await self._find_use(pending)
        except Problem:
            log.warning("authorization use unknown", payer=pending.payment.payer, nonce=pending.payment.nonce)
        if isinstance(outcome, Pending):
            self._queue.wait(pending, monotonic() + RETRY_SECONDS)
        else:
            self._queue.resolve(pending, outcome)

    async def _find_use(self, pending: PendingPayment) -> Outcome | Pending:
        for _ in range(MAX_USE_LOOKUPS):
            outcome = await self._find_outcome(pending.payment, pending.requirement, pending.requested_by)
            if isinstance(outcome, Unrecoverable):
                return Failed(outcome.reason)
            if isinstance(outcome, Settled | Pending):
                return outcome
            await asyncio.sleep(RETRY_SECONDS)
        return Unknown()


UNCERTAIN_SECONDS = 0.5
REBROADCAST_SECONDS = 3.0
"""When a transaction that is not mined is broadcast again, in case it was dropped."""
MAX_SKIPPED_BLOCKS = 3
"""How many blocks may skip a transaction before higher fees are offered."""
LOST_SECONDS = 4.0
"""How long a nonce must be used without a receipt of ours: the nodes of one provider differ for a while."""


class Rebroadcaster:
    """Sends transactions again that are not mined, and gives up those whose nonce another one used."""

    def __init__(self, submission: Submission) -> None:
        self._submission = submission

    def handle_used_nonce(self, slot: NonceSlot) -> None:
        """The nonce was used by a transaction that is not one of the slot's."""
        slot.nonce_used_since = slot.nonce_used_since or monotonic()
        if monotonic() - slot.nonce_used_since < LOST_SECONDS:
            return
        log.warning("nonce used by another transaction", nonce=slot.nonce, payments=len(slot.payments))
        self._submission.queue.clear(slot)
        for pending in slot.payments:
            self._submission.queue.wait(pending)

    async def rebroadcast(self, slot: NonceSlot, block: Block, *, is_next: bool) -> None:
        """Send again: unchanged, in case it was dropped; with higher fees, if blocks skip it."""
        slot.nonce_used_since = None
        silence = monotonic() - slot.last_broadcast_at
        if slot.first_polled_block is None:
            slot.first_polled_block = block.number
        is_skipped = block.number - slot.first_polled_block >= MAX_SKIPPED_BLOCKS
        if is_skipped and (is_next or slot.latest.fees.max_fee < block.base_fee):
            await self._replace(slot, block)
        elif silence >= (UNCERTAIN_SECONDS if slot.is_uncertain else REBROADCAST_SECONDS):
            await self._broadcast(slot, slot.latest)

    async def _replace(self, slot: NonceSlot, block: Block) -> None:
        """Send with higher fees, and without the payments that would fail now."""
        slot.first_polled_block = block.number
        quote = await self._submission.gas.quote()
        valid = await self._submission.preflight.still_valid(slot.payments, slot.latest.fees) if slot.payments else []
        if len(valid) == len(slot.payments):
            request = slot.attempts[0].request
        else:
            request = batch_call(valid) if valid else cancel_transaction(self._submission.wallet.address)
        gas = PAYMENT_GAS if valid and not valid[0].is_isolated else request.gas
        current = limited_fees(quote, self._submission.gas.ceiling_wei(quote), gas)
        fees = current and replacement_fees(slot.latest.fees, current, self._submission.gas.highest_fee(quote, gas))
        if fees is None:
            await self._broadcast(slot, slot.latest)
            return
        attempt, reserved = await self._submission.record_attempt(slot.nonce, fees, request, valid)
        # Only one of the slot's transactions is mined.
        self._submission.gas.release(slot.reserved_nanos)
        slot.reserved_nanos = reserved
        # Before it is sent: it may be mined even if the node does not reply.
        slot.attempts.append(attempt)
        log.info("transaction replaced with higher fees", nonce=slot.nonce, max_fee=fees.max_fee, payments=len(valid))
        await self._broadcast(slot, attempt)

    async def _broadcast(self, slot: NonceSlot, attempt: Attempt) -> None:
        slot.last_broadcast_at = monotonic()
        try:
            await self._submission.chain.send_raw_transaction(attempt.signed.raw)
        except ChainUnavailable:
            slot.is_uncertain = True
            return
        except ChainRefused as refusal:
            if classify_rpc_error(refusal) not in {"known", "nonce_used"}:
                log.warning(
                    "transaction refused by the node", nonce=slot.nonce, code=refusal.code, error=refusal.message
                )
        slot.is_uncertain = False
