"""Submission of queued payments: simulate a batch, then send it under a nonce of the account."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from tollhouse import failpoints
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainRefused, ChainUnavailable
from tollhouse.payments.x402.settlement.simulation import Preflight, SimulationResult, Verdict
from tollhouse.payments.x402.settlement.transaction import Fees, TransactionRequest, Wallet, bump_fees
from tollhouse.payments.x402.settlement.transaction_queue import (
    Attempt,
    GasLimitExceededError,
    NonceSlot,
    PendingPayment,
    TransactionQueue,
    batch_call,
    cancel_transaction,
    single_call,
)
from tollhouse.payments.x402.types import Failed, InvalidReason

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
    start_resolving: Callable[[PendingPayment], None]

    async def submit(self, payments: Sequence[PendingPayment]) -> None:
        """Send the payments that would succeed, and defer the others.

        Raises ChainUnavailable, ChainRefused, NotAcceptedError and storage problems: then nothing was sent.
        """
        async with self.account_lock():
            simulation = await self.preflight.simulate(payments, self.queue.pending_outflows())
            ready = []
            for pending, verdict in zip(payments, simulation.verdicts, strict=True):
                if verdict == "ready" or (verdict == "in_mempool" and self._was_in_mempool_long(pending)):
                    ready.append(pending)
                else:
                    self._defer(pending, verdict)
            if ready:
                await self._send(ready, simulation)

    async def fill(self, nonce: int) -> None:
        """Use up a nonce that a process left behind with an unmined transaction. Raises as `submit`."""
        async with self.account_lock():
            cancelling = SimulationResult(nonce, await self.preflight.quote(), [])
            request = cancel_transaction(self.wallet.address)
            await self._send_under_nonce(cancelling, [], request, may_change_nonce=False)

    def build_attempt(self, nonce: int, fees: Fees, request: TransactionRequest) -> Attempt:
        """Sign a transaction."""
        return Attempt(self.wallet.sign(self.chain_id, nonce, fees, request), fees, request)

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

    async def _send(self, payments: list[PendingPayment], simulation: SimulationResult) -> None:
        if not payments[0].is_isolated:
            await self._send_under_nonce(simulation, payments, batch_call(payments))
            return
        try:
            request = await single_call(self.chain, self.wallet.address, payments[0])
        except (ChainRefused, GasLimitExceededError):
            # The simulation passed a moment ago: a contract whose result changes.
            self.queue.resolve(payments[0], Failed(InvalidReason.INVALID_STATE))
        else:
            await self._send_under_nonce(simulation, payments, request)

    async def _send_under_nonce(
        self,
        simulation: SimulationResult,
        payments: list[PendingPayment],
        request: TransactionRequest,
        *,
        may_change_nonce: bool = True,
    ) -> None:
        nonce, fees = simulation.nonce, simulation.fees
        for _ in range(MAX_SENDS):
            nonce = self.queue.next_free_nonce(nonce) if may_change_nonce else nonce
            if not may_change_nonce and nonce in self.queue.slots:
                return
            slot = NonceSlot(nonce, tuple(payments), [self.build_attempt(nonce, fees, request)], monotonic())
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
                raise
        slot.is_broadcast = True
        failpoints.reach("facilitator.after-send")
        self.queue.sent.set()

    @staticmethod
    def _was_in_mempool_long(pending: PendingPayment) -> bool:
        return pending.in_mempool_since is not None and monotonic() - pending.in_mempool_since > MAX_MEMPOOL_SECONDS
