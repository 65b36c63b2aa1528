"""The built-in facilitator: settles authorizations on the chain with its own account."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Self

from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.evm import parse_address
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.replies import ChainRefused
from tollhouse.payments.x402.schemes import scheme_of
from tollhouse.payments.x402.settlement.gas import Gas, GasLimits, GasStatus
from tollhouse.payments.x402.settlement.submission import FAILED, AccountLock, NotAcceptedError, Preflight, Submission
from tollhouse.payments.x402.settlement.transaction_monitor import (
    NO_NODE_PAUSE_SECONDS,
    BlockTicker,
    TransactionMonitor,
)
from tollhouse.payments.x402.settlement.transactions import (
    MAX_PENDING,
    Fees,
    Outcome,
    PendingPayment,
    TransactionQueue,
    Wallet,
    payment_keys,
    typical_payment,
)
from tollhouse.payments.x402.store import THIS_SERVER, Attempts
from tollhouse.payments.x402.types import (
    Failed,
    InvalidReason,
    Payment,
    Requirement,
    Settled,
    Unknown,
    VerificationFailure,
    Verified,
)
from tollhouse.payments.x402.verification import (
    KEYS_ONLY,
    Pending,
    SettlementOutcome,
    Unrecoverable,
    WalletRules,
    code_hash,
    plan_settlement,
    recent_outcome,
)
from tollhouse.storage.database import Database

log = logger("payments.facilitator")

UNSENT_SECONDS = 20.0
"""How long to retry a payment that cannot be sent, before its outcome is Unknown."""
RETRY_SECONDS = 0.5
GATHER_SECONDS = 0.02
"""How long payments gather for one transaction, while other transactions are pending."""
MAX_USE_LOOKUPS = 5


class FacilitatorTerms(Struct, frozen=True):
    """The chain and the token it settles, which payers may be contracts, and the limits of what gas may cost."""

    chain_id: int
    asset: str
    gas: GasLimits
    rules: WalletRules = KEYS_ONLY


class BuiltInFacilitator:
    """A Settler that sends its own transactions. Use it as an asynchronous context manager.

    Concurrent payments share transactions.
    """

    def __init__(
        self,
        chain: ChainClient,
        wallet: Wallet,
        terms: FacilitatorTerms,
        account_lock: AccountLock,
        database: Database,
    ) -> None:
        self._chain = chain
        self._attempts = Attempts(database)
        self._terms = terms
        self._queue = TransactionQueue()
        self.address = wallet.address
        """The account that sends the transactions and pays for their gas."""
        sample = wallet.sign(terms.chain_id, 0, Fees(1, 1), typical_payment(terms.asset)).raw
        self._gas = Gas(chain, wallet.address, terms.gas, database, sample)
        self._preflight = Preflight(chain, wallet.address, terms.asset, terms.rules, self._gas)
        self._submission = Submission(
            chain,
            terms.chain_id,
            wallet,
            self._preflight,
            self._queue,
            account_lock,
            self._gas,
            database,
            lambda pending: self._start_resolving(pending, self._resolve_used(pending)),
        )
        self._monitor = TransactionMonitor(
            chain,
            wallet.address,
            self._preflight,
            self._gas,
            self._queue,
            BlockTicker(),
            self._submission,
            lambda pending: self._start_resolving(pending, self._resolve_failed(pending)),
        )
        self._resolving: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def upto_account(self) -> str:
        """See Settler."""
        return self.address

    async def gas_status(self) -> GasStatus:
        """The account's balance and what gas costs. Raises ChainUnavailable, Problem `storage-unavailable`."""
        return await self._gas.status()

    async def __aenter__(self) -> Self:
        self._spawn(self._run_submission())
        self._spawn(self._run_monitor())
        self._spawn(self._gas.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop. Pending transactions may still be mined: their payments' outcome is Unknown."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pending in list(self._queue.payments.values()):
            slots = [slot for slot in self._queue.slots.values() if pending in slot.payments]
            self._queue.resolve(pending, Unknown(slots[0].latest.signed.hash if slots else None))
        with suppress(Problem):
            await self._gas.flush()

    async def verify(self, payment: Payment, requirement: Requirement) -> Verified | VerificationFailure:
        """See Settler. Prices are at most two seconds old: a request that is refused costs no round trip for them."""
        return await self._preflight.verify(payment, requirement, await self._gas.admit(scheme_of(payment).gas))

    async def settle(
        self, payment: Payment, requirement: Requirement, requested_by: str = THIS_SERVER
    ) -> Settled | Failed | Unknown:
        """See Settler. The same authorization, concurrently or again later, is settled once, for one of who request it.

        Callers of the facilitator service differ in `requested_by`.
        """
        if requirement.chain_id != self._terms.chain_id:
            return Failed(InvalidReason.INVALID_NETWORK)
        if parse_address(requirement.asset) != parse_address(self._terms.asset):
            return Failed(InvalidReason.INVALID_REQUIREMENTS)
        key = requirement.asset.lower(), payment.payer, payment.nonce
        while (other := self._queue.payments.get(key)) is not None:
            outcome = await asyncio.shield(other.outcome)
            if other.is_same_payment(payment, requirement, requested_by):
                return outcome
        if len(self._queue.payments) >= MAX_PENDING:
            return Failed(FAILED)
        return await asyncio.shield(self._enqueue(payment, requirement, requested_by).outcome)

    async def has_sent(
        self, payment: Payment, _requirement: Requirement, tx_hash: str, requested_by: str = THIS_SERVER
    ) -> bool:
        """See Settler. Every transaction was recorded before it was broadcast."""
        return tx_hash in await self._attempts.hashes((payment.payer, payment.nonce), requested_by)

    async def find_outcome(self, payment: Payment, requirement: Requirement, requested_by: str) -> SettlementOutcome:
        """What the chain says of a payment that was requested by that caller. Raises as `settlement_outcome`."""
        has_sent = partial(self.has_sent, requested_by=requested_by)
        return await recent_outcome(self._chain, payment, requirement, has_sent)

    def _enqueue(self, payment: Payment, requirement: Requirement, requested_by: str) -> PendingPayment:
        plan = plan_settlement(payment, requirement, self._terms.rules.factories)
        outcome = asyncio.get_running_loop().create_future()
        is_isolated = plan.eoa_signature is None or plan.is_direct
        pending = PendingPayment(payment, requirement, plan, outcome, monotonic(), is_isolated, requested_by)
        self._queue.enqueue(pending)
        return pending

    async def _run_submission(self) -> None:
        while True:
            await self._wait_until_due()
            if self._queue.slots:
                await asyncio.sleep(GATHER_SECONDS)
            payments = self._queue.next_batch(monotonic())
            if not payments:
                continue
            try:
                await self._submission.submit(payments)
            except ChainRefused as refusal:
                # For example, the account has too little ether to pay for gas.
                log.error("transaction refused by the node", code=refusal.code, error=refusal.message)  # noqa: TRY400
                for pending in self._unsent(payments):
                    self._queue.resolve(pending, Failed(FAILED))
            except (Problem, NotAcceptedError) as failure:  # the node or the storage, which logged it
                if isinstance(failure, Problem) and failure.code == "payments-unavailable":
                    for pending in self._unsent(payments):
                        self._queue.resolve(pending, Failed(FAILED))
                else:
                    self._retry(self._unsent(payments))
            except Exception:
                log.exception("payment submission failed", payments=payment_keys(payments))
                self._retry(self._unsent(payments))

    async def _wait_until_due(self) -> None:
        """Wait until a payment may be sent."""
        while True:
            self._queue.changed.clear()
            due, now = self._queue.next_due(), monotonic()
            if due is not None and due <= now:
                return
            try:
                await asyncio.wait_for(self._queue.changed.wait(), None if due is None else due - now)
            except TimeoutError:
                return

    def _unsent(self, payments: Sequence[PendingPayment]) -> list[PendingPayment]:
        """The payments that were neither sent nor deferred."""
        sent = {id(pending) for slot in self._queue.slots.values() for pending in slot.payments}
        deferred = sent | {id(pending) for pending in self._queue.waiting} | self._resolving
        return [pending for pending in payments if not pending.outcome.done() and id(pending) not in deferred]

    def _retry(self, payments: Sequence[PendingPayment]) -> None:
        now = monotonic()
        for pending in payments:
            if now - pending.since < UNSENT_SECONDS:
                self._queue.wait(pending, now + RETRY_SECONDS)
            else:
                self._queue.resolve(pending, Unknown())

    async def _run_monitor(self) -> None:
        while True:
            await self._monitor.pause()
            try:
                await self._monitor.poll()
            except Problem:
                await asyncio.sleep(NO_NODE_PAUSE_SECONDS)
            except Exception:  # pending transactions are not given up
                log.exception("transaction monitor failed")
                await asyncio.sleep(NO_NODE_PAUSE_SECONDS)

    def _start_resolving(self, pending: PendingPayment, resolving: Coroutine[Any, Any, None]) -> None:
        self._resolving.add(id(pending))
        self._spawn(resolving)

    async def _resolve_failed(self, pending: PendingPayment) -> None:
        """Resolve a payment whose transaction did not settle it, and refuse its payer from now on.

        Not if somebody else carried the payment out: that is not the payer's doing. A wallet's code is refused too,
        unless the payer merely spent the money or the authorization elsewhere.
        """
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
        finally:
            self._resolving.discard(id(pending))
        if subjects:
            log.warning("payer refused: its transaction failed", subjects=subjects, nonce=pending.payment.nonce)
            await self._gas.refused.add(subjects)
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
            token_balance(self._chain, self._terms.asset, payer), self._chain.code(payer)
        )
        return balance < pending.requirement.amount_micros, code

    async def _resolve_used(self, pending: PendingPayment) -> None:
        """Resolve a used authorization: settled by us before, or used otherwise."""
        outcome: Outcome | Pending = Unknown()
        try:
            outcome = await self._find_use(pending)
        except Problem:
            log.warning("authorization use unknown", payer=pending.payment.payer, nonce=pending.payment.nonce)
        finally:
            self._resolving.discard(id(pending))
        if isinstance(outcome, Pending):
            self._queue.wait(pending, monotonic() + RETRY_SECONDS)
        else:
            self._queue.resolve(pending, outcome)

    async def _find_use(self, pending: PendingPayment) -> Outcome | Pending:
        for _ in range(MAX_USE_LOOKUPS):
            outcome = await self.find_outcome(pending.payment, pending.requirement, pending.requested_by)
            if isinstance(outcome, Unrecoverable):
                return Failed(outcome.reason)
            if isinstance(outcome, Settled | Pending):
                return outcome
            await asyncio.sleep(RETRY_SECONDS)
        return Unknown()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
