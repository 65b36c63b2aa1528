"""What is said to a facilitator over HTTP and what it may answer, in both versions of x402."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from tollhouse.payments.x402 import invalid_reasons
from tollhouse.payments.x402.types import Payment, Requirement, Resource

# Said before anything was sent to the chain, or once a transaction was mined without moving money: nothing will move.
# Whatever else a facilitator says (`settlement_pending`, `unexpected_settle_error`, a word of its own) proves nothing.
_NOTHING_MOVES = frozenset({
    invalid_reasons.INSUFFICIENT_FUNDS,
    invalid_reasons.INVALID_NETWORK,
    invalid_reasons.INVALID_PAYLOAD,
    invalid_reasons.INVALID_REQUIREMENTS,
    invalid_reasons.INVALID_SIGNATURE,
    invalid_reasons.INVALID_VERSION,
    invalid_reasons.RECIPIENT_MISMATCH,
    invalid_reasons.UNSUPPORTED_SCHEME,
    invalid_reasons.VALID_AFTER,
    invalid_reasons.VALID_BEFORE,
    invalid_reasons.VALUE_MISMATCH,
    "invalid_exact_evm_payload_authorization_value",
    "invalid_scheme",
})  # fmt: skip

_Reason = Annotated[str, Meta(max_length=200)]
_Hash = Annotated[str, Meta(pattern=r"^(0x[0-9a-fA-F]{64})?\Z")]


class Verified(Struct, frozen=True, rename="camel"):
    """What `/verify` answers."""

    is_valid: bool
    invalid_reason: _Reason | None = None


class SettleAnswer(Struct, frozen=True, rename="camel"):
    """What `/settle` answers. `transaction` is empty or null where there is none."""

    success: bool
    error_reason: _Reason | None = None
    transaction: _Hash | None = None


class Kind(Struct, frozen=True, rename="camel"):
    """One thing that a facilitator settles."""

    scheme: str
    network: str
    version: int = msgspec.field(name="x402Version")


class Supported(Struct, frozen=True):
    """What `/supported` answers, as far as it matters here."""

    kinds: list[Kind]


class _Request(Struct, frozen=True, rename="camel"):
    version: int = msgspec.field(name="x402Version")
    payment_payload: Raw
    payment_requirements: dict[str, Any]


def request_body(payment: Payment, requirement: Requirement, resource_url: str) -> bytes:
    """The body of `/verify` and of `/settle`: the payment as it was sent, and what it was asked for.

    Version 1 names a resource in the requirement; what is signed does not hold it, and no payment does either.
    """
    resource = Resource(resource_url, "", "application/json")
    asked = requirement.v1(resource) if payment.version == 1 else requirement.v2()
    return msgspec.json.encode(_Request(payment.version, Raw(payment.raw), asked))


def moves_nothing(reason: str | None) -> bool:
    """Whether a failed settlement with this reason has moved no money and will not."""
    return reason in _NOTHING_MOVES
