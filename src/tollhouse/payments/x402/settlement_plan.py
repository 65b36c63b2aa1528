"""The calls that carry a payment out: a transfer by authorization and, first, the making of a wallet where needed."""

from collections.abc import Collection

from msgspec import Struct

from tollhouse.evm.address import parse_address
from tollhouse.evm.signature import Signature
from tollhouse.payments.x402.contract_calls import (
    Call,
    Wrapped,
    is_valid_signature,
    transfer_by_anybody,
    transfer_by_key,
    unwrapped,
)
from tollhouse.payments.x402.types import Payment, Requirement
from tollhouse.payments.x402.verification import digest_of, signed_by_key


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
