"""The claim of one payment, and the pure decision what another call with the same payment gets."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.payments.stored_response import RESPONSE_TTL_SECONDS, StoredResponse
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.headers import decode_payment
from tollhouse.payments.x402.receipts import Headers, SignedReceipt, settled_headers
from tollhouse.payments.x402.types import InvalidReason, Payment, Requirement, VerificationFailure, verification_failure
from tollhouse.payments.x402.verification import authorization_digest, recover_eoa_signature

PENDING_RETRY_SECONDS = 2


class ClaimRequest(Struct, frozen=True):
    """One call that carries a payment. `fingerprint` identifies its request."""

    payment: Payment
    requirement: Requirement
    fingerprint: bytes
    resource_url: str
    at: float

    @property
    def key(self) -> store.Key:
        return payment_key(self.payment)


class Claimed(Struct, frozen=True):
    """The payment belongs to this call: handle it, then settle or release. `lease` proves the ownership."""

    payment: Payment
    requirement: Requirement
    resource_url: str
    since_block: int
    lease: str

    @property
    def key(self) -> store.Key:
        return payment_key(self.payment)


class PaidResponse(Struct, frozen=True):
    """The response that this payment already bought, with its settlement headers, to be sent again."""

    payment: Payment
    response: StoredResponse
    headers: Headers


class SettledPayment(Struct, frozen=True):
    """One settled payment, for the operator. `receipt` is set where the server signs receipts."""

    payer: str
    nonce: str
    network: str
    amount_micros: int
    resource_url: str
    tx_hash: str
    block_number: int
    settled_at: float
    is_delivered: bool
    receipt: SignedReceipt | None


Verdict = PaidResponse | VerificationFailure | Literal["wait", "abandoned", "fresh", "resume"]


def decide(row: Any, request: ClaimRequest, now: float, handed_over_at: float | None = None) -> Verdict:
    """What a call gets if its payment has a row already. Raises Problem `idempotency-conflict`.

    `wait`: another call works on it. `abandoned`: its holder is gone. `fresh`: it failed before and may be tried again.
    `resume`: its outcome is unknown, and no call works on it. `handed_over_at` is when this process sent the response.
    """
    payment = request.payment
    is_leased = row.lease != store.NO_LEASE and row.lease_until >= now
    if row.state == store.FAILED:
        return "fresh"
    if row.state == store.CLAIMED and not is_leased:
        return "abandoned"
    if (row.digest, row.fingerprint) != (authorization_digest(payment, request.requirement), request.fingerprint):
        if payment.payment_id is not None and row.payment_id == payment.payment_id:
            raise identifier_conflict()
        return verification_failure(InvalidReason.NONCE_USED, payment.version)
    if (
        recover_eoa_signature(payment, request.requirement) is None
        and decode_payment(row.payment, row.version).signature != payment.signature
    ):
        # A contract's signature was checked on the chain when the payment was claimed.
        return verification_failure(InvalidReason.INVALID_SIGNATURE, payment.version)
    if row.state in {store.CLAIMED, store.SETTLING}:
        return "wait" if is_leased else "resume"
    return _stored_response(row, request, now, handed_over_at) or verification_failure(
        InvalidReason.NONCE_USED, payment.version
    )


def claim_from_row(row: Any, lease: str) -> Claimed:
    """The claim that a row describes, under our lease."""
    payment = decode_payment(row.payment, row.version)
    return Claimed(payment, requirement_from_row(row), row.resource_url, row.since_block, lease)


def settled_payment_from_row(row: Any) -> SettledPayment:
    """The settled payment that a row describes."""
    requirement = requirement_from_row(row)
    return SettledPayment(
        row.payer,
        row.nonce,
        requirement.network,
        requirement.amount_micros,
        row.resource_url,
        row.tx_hash,
        row.block_number,
        row.settled_at,
        row.state == store.DELIVERED,
        msgspec.json.decode(row.receipt, type=SignedReceipt) if row.receipt else None,
    )


def requirement_from_row(row: Any) -> Requirement:
    """The requirement that the row's payment was for."""
    return msgspec.json.decode(row.requirement, type=Requirement)


def payment_key(payment: Payment) -> store.Key:
    """The payer and the nonce, which identify a payment on the chain and in the database."""
    return payment.payer, payment.nonce


def payment_pending() -> Problem:
    """The outcome is unknown: a new payment could pay twice, the same one cannot."""
    return Problem(
        "payment-pending",
        "The payment is still being settled. Send the same request with the same payment again, not with a new "
        "one: it is charged once and gets its response.",
        headers={"Retry-After": str(PENDING_RETRY_SECONDS)},
        retry_after_seconds=PENDING_RETRY_SECONDS,
    )


def identifier_conflict() -> Problem:
    """The payment identifier belongs to another payment of this payer, or to another call."""
    return Problem(
        "idempotency-conflict",
        "This payment identifier was used with another payment or another call. Choose a new identifier.",
    )


def _stored_response(row: Any, request: ClaimRequest, now: float, handed_over_at: float | None) -> PaidResponse | None:
    """The stored response, for ten minutes, unless it was completely sent before this call arrived.

    A payment with an identifier (extension `payment-identifier`) gets it even then.
    """
    if row.answer is None or row.settled_at < now - RESPONSE_TTL_SECONDS:
        return None
    sent_at = row.delivered_at if row.state == store.DELIVERED else handed_over_at
    if sent_at is not None and row.payment_id is None and sent_at <= request.at:
        return None
    response = msgspec.msgpack.decode(row.answer, type=StoredResponse)
    return PaidResponse(
        request.payment, response, settled_headers(request.payment, requirement_from_row(row), row.tx_hash, row.receipt)
    )
