"""The built-in facilitator: carries authorizations out on the chain with a key of its own."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Self

from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.evm.address import parse_address
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainRefused
from tollhouse.payments.x402.outcome import Pending, Unrecoverable, fate_so_far
from tollhouse.payments.x402.settlement.simulation import Preflight
from tollhouse.payments.x402.settlement.submission import FAILED, NotTakenError, Submission, Turn
from tollhouse.payments.x402.settlement.transaction import Wallet
from tollhouse.payments.x402.settlement.transaction_monitor import NO_NODE_PAUSE_SECONDS, Pulse, Watch
from tollhouse.payments.x402.settlement.transaction_queue import (
    MOST_RIDES,
    Outcome,
    PendingPayment,
    TransactionQueue,
    payments_of,
)
from tollhouse.payments.x402.types import Failed, InvalidReason, Payment, Requirement, Settled, Unknown
from tollhouse.payments.x402.verification import carrying

log = logger("payments.facilitator")

UNSENT_SECONDS = 20.0
"""How long a payment that cannot be sent is tried again, before its outcome is Unknown."""
RETRY_SECONDS = 0.5
GATHER_SECONDS = 0.02
"""How long payments gather for one transaction, while others are waiting to be mined anyway."""
LOOKS_FOR_USE = 5


class FacilitatorTerms(Struct, frozen=True):
    """The one token it settles, on which chain, and the factories that may make a payer's wallet (EIP-6492)."""

    chain_id: int
    asset: str
    factories: tuple[str, ...] = ()


class BuiltInFacilitator:
    """A Settler. Use it as an asynchronous context manager: it works while the block runs.

    Whoever calls waits without blocking anybody; what waits at the same time shares transactions.
    """

    def __init__(self, chain: ChainClient, wallet: Wallet, terms: FacilitatorTerms, turn: Turn) -> None:
        self._chain = chain
        self._terms = terms
        self._traffic = TransactionQueue()
        self.address = wallet.address
        """The account that sends the transactions and pays for their gas."""
        foresight = Preflight(chain, wallet.address, terms.asset, terms.factories)
        self._submission = Submission(chain, terms.chain_id, wallet, foresight, self._traffic, turn, self._look_up)
        self._watch = Watch(chain, wallet.address, foresight, self._traffic, Pulse(), self._submission)
        self._looked_up: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._spawn(self._submit_for_ever())
        self._spawn(self._watch_for_ever())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop. What is under way may still be mined: its outcome is Unknown."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for ride in list(self._traffic.rides.values()):
            self._traffic.arrive(ride, Unknown(_hash_of(self._traffic, ride)))

    async def settle(self, payment: Payment, requirement: Requirement) -> Settled | Failed | Unknown:
        """See Settler. The same authorization asked for again, at once or later, is carried out once."""
        if refused := self._refusal(requirement):
            return refused
        key = requirement.asset.lower(), payment.payer, payment.nonce
        while (other := self._traffic.rides.get(key)) is not None:
            outcome = await asyncio.shield(other.outcome)
            if other.is_for(payment, requirement):
                return outcome
        if len(self._traffic.rides) >= MOST_RIDES:
            return Failed(FAILED)
        return await asyncio.shield(self._boarded(payment, requirement).outcome)

    def _refusal(self, requirement: Requirement) -> Failed | None:
        if requirement.chain_id != self._terms.chain_id:
            return Failed(InvalidReason.INVALID_NETWORK)
        if parse_address(requirement.asset) != parse_address(self._terms.asset):
            return Failed(InvalidReason.INVALID_REQUIREMENTS)
        return None

    def _boarded(self, payment: Payment, requirement: Requirement) -> PendingPayment:
        plan = carrying(payment, requirement, self._terms.factories)
        loop = asyncio.get_running_loop()
        ride = PendingPayment(
            payment, requirement, plan, loop.create_future(), loop.time(), is_alone=plan.by_key is None
        )
        self._traffic.board(ride)
        return ride

    async def _submit_for_ever(self) -> None:
        while True:
            await self._something_due()
            if self._traffic.slots:
                await asyncio.sleep(GATHER_SECONDS)
            rides = self._traffic.load(_now())
            if not rides:
                continue
            try:
                await self._submission.submit(rides)
            except ChainRefused as refusal:
                # As when the account has too little of the chain's coin to pay for gas.
                log.error("the node takes no transaction", code=refusal.code, said=refusal.message)  # noqa: TRY400
                for ride in self._stranded(rides):
                    self._traffic.arrive(ride, Failed(FAILED))
            except (Problem, NotTakenError):  # the node or the storage, which said so
                self._try_again(self._stranded(rides))
            except Exception:
                log.exception("payments were not sent", payments=payments_of(rides))
                self._try_again(self._stranded(rides))

    async def _something_due(self) -> None:
        """Until a payment may be sent."""
        while True:
            self._traffic.changed.clear()
            due, now = self._traffic.next_due(), _now()
            if due is not None and due <= now:
                return
            try:
                await asyncio.wait_for(self._traffic.changed.wait(), None if due is None else due - now)
            except TimeoutError:
                return

    def _stranded(self, rides: Sequence[PendingPayment]) -> list[PendingPayment]:
        """Those that were neither sent nor put aside."""
        sent = {id(ride) for slot in self._traffic.slots.values() for ride in slot.rides}
        aside = sent | {id(ride) for ride in self._traffic.waiting} | self._looked_up
        return [ride for ride in rides if not ride.outcome.done() and id(ride) not in aside]

    def _try_again(self, rides: Sequence[PendingPayment]) -> None:
        now = _now()
        for ride in rides:
            if now - ride.since < UNSENT_SECONDS:
                self._traffic.wait(ride, now + RETRY_SECONDS)
            else:
                self._traffic.arrive(ride, Unknown())

    async def _watch_for_ever(self) -> None:
        while True:
            await self._watch.pause()
            try:
                await self._watch.look()
            except Problem:
                await asyncio.sleep(NO_NODE_PAUSE_SECONDS)
            except Exception:  # what is under way is not given up
                log.exception("payments under way were not looked after")
                await asyncio.sleep(NO_NODE_PAUSE_SECONDS)

    def _look_up(self, ride: PendingPayment) -> None:
        self._looked_up.add(id(ride))
        self._spawn(self._tell_use(ride))

    async def _tell_use(self, ride: PendingPayment) -> None:
        """The authorization was used: by somebody who carried it out in our place, by us before, or otherwise."""
        outcome: Outcome | Pending = Unknown()
        try:
            outcome = await self._use_of(ride)
        except Problem:
            log.warning("the use of an authorization was not told", payer=ride.payment.payer, nonce=ride.payment.nonce)
        finally:
            self._looked_up.discard(id(ride))
        if isinstance(outcome, Pending):
            self._traffic.wait(ride, _now() + RETRY_SECONDS)
        else:
            self._traffic.arrive(ride, outcome)

    async def _use_of(self, ride: PendingPayment) -> Outcome | Pending:
        for _ in range(LOOKS_FOR_USE):
            found = await fate_so_far(self._chain, ride.payment, ride.requirement)
            if isinstance(found, Unrecoverable):
                return Failed(found.reason)
            if isinstance(found, Settled | Pending):
                return found
            await asyncio.sleep(RETRY_SECONDS)
        return Unknown()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _hash_of(traffic: TransactionQueue, ride: PendingPayment) -> str | None:
    slots = [slot for slot in traffic.slots.values() if ride in slot.rides]
    return slots[0].newest.signed.hash if slots else None


def _now() -> float:
    return asyncio.get_running_loop().time()
