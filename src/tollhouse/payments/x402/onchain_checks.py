"""What the chain says of a payment before it is taken: one round trip, everything as of one block."""

from collections.abc import Collection

from msgspec import Struct

from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.errors import ChainUnavailable
from tollhouse.payments.chain.replies import Block
from tollhouse.payments.x402 import invalid_reasons
from tollhouse.payments.x402.contract_calls import (
    IS_VALID_SIGNATURE,
    MULTICALL3,
    WORD,
    Call,
    Outcome,
    aggregated,
    authorization_state,
    balance_of,
    outcomes,
    revert_text,
)
from tollhouse.payments.x402.invalid_reasons import refused
from tollhouse.payments.x402.settlement_plan import SettlementPlan, carrying
from tollhouse.payments.x402.types import Payment, Requirement, VerificationFailure

# What USDC and tokens like it say when they revert.
_SAID = {
    "signature": invalid_reasons.INVALID_SIGNATURE,
    "used or canceled": invalid_reasons.NONCE_USED,
    "not yet valid": invalid_reasons.VALID_AFTER,
    "expired": invalid_reasons.VALID_BEFORE,
    "exceeds balance": invalid_reasons.INSUFFICIENT_FUNDS,
    "more than the balance": invalid_reasons.INSUFFICIENT_FUNDS,
}


class Verified(Struct, frozen=True):
    """The chain would carry the payment out, as of that block."""

    block_number: int


async def ask_chain(
    chain: ChainClient, payment: Payment, requirement: Requirement, factories: Collection[str] = ()
) -> Verified | VerificationFailure:
    """Whether the payer signed, holds enough, has not used the nonce, and the transfer would succeed now.

    The calls run one after another in one `eth_call` of Multicall3, so a wallet can be made before it is asked, and
    none of them sees another block. Raises ChainUnavailable.
    """
    carried = carrying(payment, requirement, factories)
    calls = _calls(payment, requirement, carried)
    block, came_to = await _asked(chain, requirement.chain_id, list(calls.values()))
    reason = _reason(payment, carried, dict(zip(calls, came_to, strict=True)))
    return Verified(block.number) if reason is None else refused(reason, payment.version)


def _calls(payment: Payment, requirement: Requirement, carried: SettlementPlan) -> dict[str, Call]:
    """What is asked, by name, in its order: the transfer comes last, for it changes what the others see."""
    paid = payment.authorization
    calls = {
        "balance": Call(requirement.asset, balance_of(paid.sender)),
        "is_used": Call(requirement.asset, authorization_state(paid.sender, paid.nonce)),
        "making": carried.making,
        "asking": carried.asking,
        "transfer": carried.transfer,
    }
    return {name: call for name, call in calls.items() if call is not None}


async def _asked(chain: ChainClient, chain_id: int, calls: list[Call]) -> tuple[Block, list[Outcome]]:
    asked = {"to": MULTICALL3, "data": "0x" + aggregated(calls).hex()}
    told = await chain.rpc.questions(
        [
            ("eth_chainId", []),
            ("eth_getBlockByNumber", [LATEST, False]),
            ("eth_call", [asked, LATEST]),
        ]
    )
    if replies.quantity(told[0]) != chain_id:
        raise ChainUnavailable("the node is of another chain")
    block = replies.block(told[1], LATEST)
    if block is None:
        raise ChainUnavailable("a node without a newest block")
    try:
        return block, outcomes(replies.hex_bytes(told[2]), len(calls))
    except ValueError:
        failure = "Multicall3 is not on this chain, or answers in another shape"
    raise ChainUnavailable(failure)


def _reason(payment: Payment, carried: SettlementPlan, came_to: dict[str, Outcome]) -> str | None:
    if carried.asking is not None and not _says_yes(came_to["asking"]):
        return invalid_reasons.FACTORY_NOT_ALLOWED if carried.is_barred else invalid_reasons.INVALID_SIGNATURE
    if _number(came_to["is_used"]) != 0:
        return invalid_reasons.NONCE_USED
    if _number(came_to["balance"]) < payment.authorization.value:
        return invalid_reasons.INSUFFICIENT_FUNDS
    transfer = came_to["transfer"]
    if transfer.is_success:
        return None
    said = revert_text(transfer.answer).lower()
    return next((reason for words, reason in _SAID.items() if words in said), invalid_reasons.INVALID_STATE)


def _says_yes(outcome: Outcome) -> bool:
    return outcome.is_success and outcome.answer[:4] == IS_VALID_SIGNATURE


def _number(outcome: Outcome) -> int:
    if not outcome.is_success or len(outcome.answer) != WORD:
        raise ChainUnavailable("no token that knows authorizations is at the address")
    return int.from_bytes(outcome.answer)
