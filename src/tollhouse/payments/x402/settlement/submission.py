"""Submission of queued payments: simulate a batch, then send it under a nonce of the account."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal

from tollhouse import failpoints
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainRefused, ChainUnavailable
from tollhouse.payments.x402.settlement.simulation import Preflight, SimulationResult, Verdict
from tollhouse.payments.x402.settlement.transaction import Errand, Fees, Wallet, risen
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

Meaning = Literal["known", "taken", "used", "cheap", "other"]

_SAID: dict[str, Meaning] = {
    "already known": "known",
    "already imported": "known",
    "known transaction": "known",
    "replacement": "taken",
    "nonce too low": "used",
    "underpriced": "cheap",
    "less than block base fee": "cheap",
    "fee too low": "cheap",
}


def meaning(refusal: ChainRefused) -> Meaning:
    """`known`: it has this one; `taken`: another waits under the nonce; `used`: the nonce is; `cheap`: offer more."""
    said = refusal.message.lower()
    return next((meant for words, meant in _SAID.items() if words in said), "other")


log = logger("payments.facilitator")

Turn = Callable[[], AbstractAsyncContextManager[None]]
"""The account's lock among all processes that have its key."""

FAILED = "unexpected_settle_error"
MOST_OFFERS = 8
"""How often one transaction is offered under another nonce or for more, before its payments wait for a while."""
HELD_PAUSE_SECONDS = 0.5
LONGEST_HELD_SECONDS = 20.0
WAIT_PAUSE_SECONDS = 0.25


class NotTakenError(Exception):
    """The node took the transaction under no nonce and for no price that was tried."""


class Submission:
    """Takes payments that wait and gives them to the node; what it sends is in a slot from before it is sent."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that a transaction is made of
        self,
        chain: ChainClient,
        chain_id: int,
        wallet: Wallet,
        foresight: Preflight,
        traffic: TransactionQueue,
        turn: Turn,
        look_up: Callable[[PendingPayment], None],
    ) -> None:
        self._chain = chain
        self._chain_id = chain_id
        self._wallet = wallet
        self._foresight = foresight
        self._traffic = traffic
        self._turn = turn
        self._look_up = look_up

    async def submit(self, rides: Sequence[PendingPayment]) -> None:
        """Send those that would be carried out; put the others where they belong.

        Raises ChainUnavailable, ChainRefused, NotTakenError and storage's problems: then nothing was sent.
        """
        async with self._turn():
            outlook = await self._foresight.outlook(rides, self._traffic.burden())
            going = []
            for ride, verdict in zip(rides, outlook.verdicts, strict=True):
                if verdict == "go" or (verdict == "held" and self._was_held_long(ride)):
                    going.append(ride)
                else:
                    self._put_aside(ride, verdict)
            if going:
                await self._send(going, outlook)

    async def fill(self, nonce: int) -> None:
        """Use up a nonce under which a process that is gone left something that nobody mines. Raises as `submit`."""
        async with self._turn():
            fees = await self._foresight.quote()
            await self._offer(
                SimulationResult(nonce, fees, []), [], cancel_transaction(self._wallet.address), moves_on=False
            )

    def version(self, nonce: int, fees: Fees, errand: Errand) -> Attempt:
        """A transaction of ours."""
        return Attempt(self._wallet.sign(self._chain_id, nonce, fees, errand), fees, errand)

    def _put_aside(self, ride: PendingPayment, verdict: Verdict) -> None:
        now = _now()
        if isinstance(verdict, Failed):
            self._traffic.arrive(ride, verdict)
        elif verdict == "used":
            self._look_up(ride)
        elif verdict == "alone":
            ride.is_alone = True
            self._traffic.wait(ride)
        elif verdict == "held":
            ride.held_since = ride.held_since or now
            self._traffic.wait(ride, now + HELD_PAUSE_SECONDS)
        else:
            self._traffic.wait(ride, now + WAIT_PAUSE_SECONDS)

    async def _send(self, rides: list[PendingPayment], outlook: SimulationResult) -> None:
        if not rides[0].is_alone:
            await self._offer(outlook, rides, batch_call(rides))
            return
        try:
            errand = await single_call(self._chain, self._wallet.address, rides[0])
        except (ChainRefused, GasLimitExceededError):
            # It passed a moment ago: a contract that says now this, now that.
            self._traffic.arrive(rides[0], Failed(InvalidReason.INVALID_STATE))
        else:
            await self._offer(outlook, rides, errand)

    async def _offer(
        self, outlook: SimulationResult, rides: list[PendingPayment], errand: Errand, *, moves_on: bool = True
    ) -> None:
        nonce, fees = outlook.nonce, outlook.fees
        for _ in range(MOST_OFFERS):
            nonce = self._traffic.free_nonce(nonce) if moves_on else nonce
            if not moves_on and nonce in self._traffic.slots:
                return
            slot = NonceSlot(nonce, tuple(rides), [self.version(nonce, fees, errand)], _now())
            try:
                await self._sent(slot)
            except ChainRefused as refusal:
                said = meaning(refusal)
                if said == "other":
                    raise
                if said == "used" and not moves_on:
                    return
                if said == "used":
                    nonce = await self._chain.transaction_count(self._wallet.address)
                elif said == "taken" and moves_on:
                    nonce += 1
                else:
                    fees = risen(risen(fees))
            else:
                return
        raise NotTakenError

    async def _sent(self, slot: NonceSlot) -> None:
        """Hand it over. From here on it may be mined, unless the node says that it will not have it: ChainRefused."""
        self._traffic.slots[slot.nonce] = slot
        failpoints.reach("facilitator.before-send")
        try:
            await self._chain.send_raw_transaction(slot.newest.signed.raw)
        except ChainUnavailable:
            slot.is_doubtful = True
        except ChainRefused as refusal:
            if meaning(refusal) != "known":
                del self._traffic.slots[slot.nonce]
                raise
        slot.is_offered = True
        failpoints.reach("facilitator.after-send")
        self._traffic.sent.set()

    @staticmethod
    def _was_held_long(ride: PendingPayment) -> bool:
        return ride.held_since is not None and _now() - ride.held_since > LONGEST_HELD_SECONDS


def _now() -> float:
    return asyncio.get_running_loop().time()
