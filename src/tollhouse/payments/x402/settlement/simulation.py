"""What would become of payments if they were sent now: tried on the newest block, all the answers as of one moment."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Raw, Struct

from tollhouse import clock
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, PENDING, ChainClient, Question
from tollhouse.payments.chain.contracts import (
    MULTICALL3,
    WORD,
    Call,
    Outcome,
    aggregated,
    authorization_state,
    balance_of,
    outcomes,
    token_balance,
)
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.x402.settlement.transaction import BLOCKS_LOOKED_AT, PERCENTILE, Fees, quoted
from tollhouse.payments.x402.settlement.transaction_queue import PendingPayment
from tollhouse.payments.x402.types import Failed, InvalidReason, VerificationFailure
from tollhouse.payments.x402.verification import ask_chain

Verdict = Failed | Literal["go", "alone", "used", "held", "wait"]
"""`alone`: not with others; `used`: the authorization was; `held`: a transaction that waits to be mined uses it;
`wait`: the payer's other payments may leave too little, so let them land first."""

MINING_SECONDS = 3
"""An authorization that ends sooner would be tried well and mined too late."""
NO_PENDING_SECONDS = 60.0
"""How long a node that did not answer about its pending block is not asked about it."""


class SimulationResult(Struct, frozen=True):
    """The account's next nonce, what gas costs, and a verdict on each payment in its order."""

    nonce: int
    fees: Fees
    verdicts: list[Verdict]


class _Seen(Struct, frozen=True):
    """What a node told at once. `tried` is what each call came to on the newest block, after those before it.

    `coded` are accounts that are contracts, or keys that let one act for them (EIP-7702). `is_held`: whether a
    transaction that waits to be mined uses the authorization; a process beside us may have sent it.
    """

    nonce: int
    fees: Fees
    tried: list[Outcome]
    coded: set[str]
    is_held: list[bool]


class Preflight:
    """Asks a node on behalf of one account about payments in one token. Every method raises ChainUnavailable."""

    def __init__(self, chain: ChainClient, account: str, asset: str, factories: Sequence[str] = ()) -> None:
        self._chain = chain
        self._account = account
        self._asset = asset
        self._factories = factories
        self._asks_pending_from = 0.0

    async def outlook(self, rides: Sequence[PendingPayment], burden: Mapping[str, int]) -> SimulationResult:
        """Of one payment that must be alone, or of several; `burden` is what payers owe to what is under way."""
        if not rides[0].is_alone:
            return await self._of_many(rides, burden)
        payment = rides[0].payment
        sound, balance, seen = await asyncio.gather(
            ask_chain(self._chain, payment, rides[0].requirement, self._factories),
            token_balance(self._chain, self._asset, payment.payer),
            self._seen(rides, []),
        )
        owed = burden.get(payment.payer, 0)
        verdict = _verdict(
            used=isinstance(sound, VerificationFailure) and sound.reason == InvalidReason.NONCE_USED,
            held=seen.is_held[0],
            fits=not owed or balance >= owed + payment.authorization.value,
            valid_before=payment.authorization.valid_before,
        )
        if verdict == "go" and isinstance(sound, VerificationFailure):
            verdict = Failed(sound.reason)
        return SimulationResult(seen.nonce, seen.fees, [verdict])

    async def quote(self) -> Fees:
        """What to offer for gas now."""
        return quoted(await self._chain.fee_history(BLOCKS_LOOKED_AT, [PERCENTILE]))

    async def still_good(self, rides: Sequence[PendingPayment]) -> list[PendingPayment]:
        """Those of a transaction's payments that would be carried out if it were replaced now."""
        if len(rides) == 1 and rides[0].is_alone:
            ride = rides[0]
            sound = await ask_chain(self._chain, ride.payment, ride.requirement, self._factories)
            return [] if isinstance(sound, VerificationFailure) else [ride]
        seen = await self._seen(rides, [ride.plan.transfer for ride in rides])
        return [ride for ride, outcome in zip(rides, seen.tried, strict=True) if outcome.is_success]

    async def _of_many(self, rides: Sequence[PendingPayment], burden: Mapping[str, int]) -> SimulationResult:
        payers = list(dict.fromkeys(ride.payment.payer for ride in rides))
        count, calls = len(rides), [*_states(rides), *map(self._balance, payers)]
        seen = await self._seen(rides, [*calls, *(ride.plan.transfer for ride in rides)], payers)
        left = {payer: _number(outcome) for payer, outcome in zip(payers, seen.tried[count:], strict=False)}
        verdicts: list[Verdict] = []
        for ride, state, held, transfer in zip(
            rides, seen.tried[:count], seen.is_held, seen.tried[-count:], strict=True
        ):
            payer, value = ride.payment.payer, ride.payment.authorization.value
            owed = burden.get(payer, 0)
            verdict = _verdict(
                used=_number(state) != 0,
                held=held,
                fits=not owed or left[payer] >= owed + value,
                valid_before=ride.payment.authorization.valid_before,
            )
            if verdict == "go" and (not transfer.is_success or payer in seen.coded):
                # A payer with code may do anything there, and what fails beside it may be its doing.
                verdict = "alone"
            if verdict == "go":
                left[payer] -= value
            verdicts.append(verdict)
        return SimulationResult(seen.nonce, seen.fees, verdicts)

    async def _seen(self, rides: Sequence[PendingPayment], calls: Sequence[Call], payers: Sequence[str] = ()) -> _Seen:
        """All in one round trip. A node that tells nothing of what waits to be mined is soon not asked for it."""
        now = asyncio.get_running_loop().time()
        if now < self._asks_pending_from:
            return await self._asked([], len(rides), calls, payers)
        try:
            return await self._asked([_called(_states(rides), PENDING)], len(rides), calls, payers)
        except ChainUnavailable:
            seen = await self._asked([], len(rides), calls, payers)
            self._asks_pending_from = now + NO_PENDING_SECONDS
            return seen

    async def _asked(self, pending: list[Question], count: int, calls: Sequence[Call], payers: Sequence[str]) -> _Seen:
        told = await self._chain.rpc.questions(
            [
                ("eth_getTransactionCount", [self._account, PENDING]),
                ("eth_feeHistory", [hex(BLOCKS_LOOKED_AT), LATEST, [PERCENTILE]]),
                _called(calls, LATEST, self._account),
                *(("eth_getCode", [payer, LATEST]) for payer in payers),
                *pending,
            ]
        )
        coded = {payer for payer, code in zip(payers, told[3:], strict=False) if replies.hex_bytes(code)}
        return _Seen(
            replies.quantity(told[0]),
            quoted(replies.fee_history(told[1])),
            _outcomes(told[2], len(calls)),
            coded,
            [any(outcome.answer) for outcome in _outcomes(told[-1], count)] if pending else [False] * count,
        )

    def _balance(self, payer: str) -> Call:
        return Call(self._asset, balance_of(bytes.fromhex(payer[2:])))


def _verdict(*, used: bool, held: bool, fits: bool, valid_before: int) -> Verdict:
    if used:
        return "used"
    if held:
        return "held"
    if valid_before <= clock.seconds() + MINING_SECONDS:
        return Failed(InvalidReason.VALID_BEFORE)
    return "go" if fits else "wait"


def _states(rides: Sequence[PendingPayment]) -> list[Call]:
    return [
        Call(ride.requirement.asset, authorization_state(paid.sender, paid.nonce))
        for ride in rides
        for paid in [ride.payment.authorization]
    ]


def _called(calls: Sequence[Call], at: str, account: str | None = None) -> Question:
    asked = {"to": MULTICALL3, "data": "0x" + aggregated(calls).hex()} | ({"from": account} if account else {})
    return "eth_call", [asked, at]


def _outcomes(answer: Raw, count: int) -> list[Outcome]:
    try:
        return outcomes(replies.hex_bytes(answer), count)
    except ValueError:
        failure = "Multicall3 is not on this chain, or answers in another shape"
    raise ChainUnavailable(failure)


def _number(outcome: Outcome) -> int:
    if not outcome.is_success or len(outcome.answer) != WORD:
        raise ChainUnavailable("no token that knows authorizations is at the address")
    return int.from_bytes(outcome.answer)
