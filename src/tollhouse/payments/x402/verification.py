"""Verification of a payment: first its content and signature, then a simulation on the chain."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from tollhouse.evm.address import parse_address
from tollhouse.evm.signature import Signature, parse_signature, recover
from tollhouse.evm.typed_data import transfer_digest
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.contracts import (
    IS_VALID_SIGNATURE,
    MULTICALL3,
    WORD,
    Call,
    Outcome,
    Wrapped,
    aggregated,
    authorization_state,
    balance_of,
    is_valid_signature,
    outcomes,
    revert_text,
    transfer_by_anybody,
    transfer_by_key,
    unwrapped,
)
from tollhouse.payments.chain.replies import Block, ChainUnavailable
from tollhouse.payments.x402.types import (
    EXACT,
    InvalidReason,
    Payment,
    Requirement,
    VerificationFailure,
    verification_failure,
)

SETTLING_SECONDS = 6
"""An authorization must be valid for at least this long (the standard's rule): three blocks of Base."""


def chosen_from(accepts: Sequence[Requirement], payment: Payment) -> Requirement | VerificationFailure:
    """The requirement that the payment is for: same network, exactly the amount, to exactly the recipient."""
    if payment.scheme != EXACT:
        return verification_failure(InvalidReason.UNSUPPORTED_SCHEME, payment.version)
    on_network = [one for one in accepts if payment.network == _network(one, payment.version)]
    if not on_network:
        return verification_failure(InvalidReason.INVALID_NETWORK, payment.version)
    accepted = [one for one in on_network if payment.accepted is None or payment.accepted == one.v2()]
    if not accepted:
        return verification_failure(InvalidReason.INVALID_REQUIREMENTS, payment.version)
    paid = payment.authorization
    to_us = [one for one in accepted if parse_address(one.pay_to).raw == paid.recipient]
    if not to_us:
        return verification_failure(InvalidReason.RECIPIENT_MISMATCH, payment.version)
    exact = [one for one in to_us if one.amount_micros == paid.value]
    return exact[0] if exact else verification_failure(InvalidReason.VALUE_MISMATCH, payment.version)


def untimely_at(payment: Payment, now: float) -> VerificationFailure | None:
    """Why the authorization cannot be carried out at that moment (seconds since 1970)."""
    if payment.authorization.valid_before < now + SETTLING_SECONDS:
        return verification_failure(InvalidReason.VALID_BEFORE, payment.version)
    if payment.authorization.valid_after > now:
        return verification_failure(InvalidReason.VALID_AFTER, payment.version)
    return None


def signed_by_key(payment: Payment, requirement: Requirement) -> Signature | None:
    """The signature, if it is one that the payer's own key made for this token; None where it is anything else."""
    if len(payment.signature) != 65:
        return None
    try:
        signature = parse_signature(payment.signature.hex())
        signer = recover(digest_of(payment, requirement), signature)
    except ValueError:
        return None
    return signature if signer == payment.authorization.sender else None


def digest_of(payment: Payment, requirement: Requirement) -> bytes:
    """The 32 bytes that the payer signed."""
    return transfer_digest(requirement.domain, payment.authorization)


def _network(requirement: Requirement, version: int) -> str | None:
    return requirement.network_v1 if version == 1 else requirement.network


class SettlementPlan(Struct, frozen=True):
    """How a payment is carried out. `by_key` is its signature where the payer is a key.

    `asking` asks the payer's contract whether it signed (EIP-1271). `making` makes the payer's wallet, where the
    signature brings an allowed way to (EIP-6492); `is_barred` where it brings one that is not allowed.
    """

    transfer: Call
    by_key: Signature | None
    asking: Call | None = None
    making: Call | None = None
    is_barred: bool = False


def carrying(payment: Payment, requirement: Requirement, factories: Collection[str] = ()) -> SettlementPlan:
    """The calls for a payment. `factories` are the addresses that may be called to make a wallet, in any case."""
    by_key = signed_by_key(payment, requirement)
    if by_key is not None:
        return SettlementPlan(Call(requirement.asset, transfer_by_key(payment.authorization, by_key)), by_key)
    wrapped = _unwrapped(payment.signature)
    signature = wrapped.signature if wrapped else payment.signature
    asking = Call(payment.payer, is_valid_signature(digest_of(payment, requirement), signature))
    transfer = Call(requirement.asset, transfer_by_anybody(payment.authorization, signature))
    if wrapped is None:
        return SettlementPlan(transfer, None, asking)
    if parse_address(wrapped.making.to) in {parse_address(factory) for factory in factories}:
        return SettlementPlan(transfer, None, asking, wrapped.making)
    return SettlementPlan(transfer, None, asking, is_barred=True)


def _unwrapped(signature: bytes) -> Wrapped | None:
    try:
        return unwrapped(signature)
    except ValueError:
        return None


# What USDC and tokens like it say when they revert.
_SAID = {
    "signature": InvalidReason.INVALID_SIGNATURE,
    "used or canceled": InvalidReason.NONCE_USED,
    "not yet valid": InvalidReason.VALID_AFTER,
    "expired": InvalidReason.VALID_BEFORE,
    "exceeds balance": InvalidReason.INSUFFICIENT_FUNDS,
    "more than the balance": InvalidReason.INSUFFICIENT_FUNDS,
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
    return Verified(block.number) if reason is None else verification_failure(reason, payment.version)


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
        return InvalidReason.FACTORY_NOT_ALLOWED if carried.is_barred else InvalidReason.INVALID_SIGNATURE
    if _number(came_to["is_used"]) != 0:
        return InvalidReason.NONCE_USED
    if _number(came_to["balance"]) < payment.authorization.value:
        return InvalidReason.INSUFFICIENT_FUNDS
    transfer = came_to["transfer"]
    if transfer.is_success:
        return None
    said = revert_text(transfer.answer).lower()
    return next((reason for words, reason in _SAID.items() if words in said), InvalidReason.INVALID_STATE)


def _says_yes(outcome: Outcome) -> bool:
    return outcome.is_success and outcome.answer[:4] == IS_VALID_SIGNATURE


def _number(outcome: Outcome) -> int:
    if not outcome.is_success or len(outcome.answer) != WORD:
        raise ChainUnavailable("no token that knows authorizations is at the address")
    return int.from_bytes(outcome.answer)
