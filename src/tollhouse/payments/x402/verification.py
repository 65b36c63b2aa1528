"""What can be said of a payment without asking anybody: whether it is for what was asked, in time, and signed."""

from collections.abc import Sequence

from tollhouse.evm.address import parse_address
from tollhouse.evm.signature import Signature, parse_signature, recover
from tollhouse.evm.typed_data import transfer_digest
from tollhouse.payments.x402 import invalid_reasons
from tollhouse.payments.x402.invalid_reasons import refused
from tollhouse.payments.x402.types import EXACT, Payment, Requirement, VerificationFailure

SETTLING_SECONDS = 6
"""An authorization must be valid for at least this long (the standard's rule): three blocks of Base."""


def chosen_from(accepts: Sequence[Requirement], payment: Payment) -> Requirement | VerificationFailure:
    """The requirement that the payment is for: same network, exactly the amount, to exactly the recipient."""
    if payment.scheme != EXACT:
        return refused(invalid_reasons.UNSUPPORTED_SCHEME, payment.version)
    on_network = [one for one in accepts if payment.network == _network(one, payment.version)]
    if not on_network:
        return refused(invalid_reasons.INVALID_NETWORK, payment.version)
    accepted = [one for one in on_network if payment.accepted is None or payment.accepted == one.v2()]
    if not accepted:
        return refused(invalid_reasons.INVALID_REQUIREMENTS, payment.version)
    paid = payment.authorization
    to_us = [one for one in accepted if parse_address(one.pay_to).raw == paid.recipient]
    if not to_us:
        return refused(invalid_reasons.RECIPIENT_MISMATCH, payment.version)
    exact = [one for one in to_us if one.amount_micros == paid.value]
    return exact[0] if exact else refused(invalid_reasons.VALUE_MISMATCH, payment.version)


def untimely_at(payment: Payment, now: float) -> VerificationFailure | None:
    """Why the authorization cannot be carried out at that moment (seconds since 1970)."""
    if payment.authorization.valid_before < now + SETTLING_SECONDS:
        return refused(invalid_reasons.VALID_BEFORE, payment.version)
    if payment.authorization.valid_after > now:
        return refused(invalid_reasons.VALID_AFTER, payment.version)
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
