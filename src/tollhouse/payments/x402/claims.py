"""One payment's claim, and what another call with the same payment gets: a pure decision over its row."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.payments.stored_response import KEPT_SECONDS, StoredResponse
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.headers import payment_of
from tollhouse.payments.x402.receipts import Headers, SignedReceipt, settled_headers
from tollhouse.payments.x402.types import InvalidReason, Payment, Requirement, VerificationFailure, verification_failure
from tollhouse.payments.x402.verification import digest_of, signed_by_key

PENDING_RETRY_SECONDS = 2


class Asked(Struct, frozen=True):
    """One call that brings a payment. `fingerprint` tells its request from another one."""

    payment: Payment
    requirement: Requirement
    fingerprint: bytes
    resource_url: str
    at: float

    @property
    def key(self) -> store.Key:
        return key_of(self.payment)


class Claimed(Struct, frozen=True):
    """The payment is this call's: do the work, then settle or release it. `lease` says that it is still ours."""

    payment: Payment
    requirement: Requirement
    resource_url: str
    since_block: int
    lease: str

    @property
    def key(self) -> store.Key:
        return key_of(self.payment)


class Kept(Struct, frozen=True):
    """The answer that the payment bought, with the headers about its settlement: send it again."""

    payment: Payment
    answer: StoredResponse
    headers: Headers


class Receipted(Struct, frozen=True):
    """One settled payment as the operator sees it. `receipt` is the signed one's JSON, where receipts are signed."""

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


Verdict = Kept | VerificationFailure | Literal["wait", "abandoned", "fresh", "resume"]


def judge(row: Any, asked: Asked, now: float, handed_at: float | None = None) -> Verdict:
    """What a call gets whose payment is a row already. Raises Problem `idempotency-conflict`.

    `wait`: somebody works on it; `abandoned`: a claim whose holder is gone; `fresh`: failed before, try again;
    `resume`: nobody knows what became of it, and nobody looks. `handed_at` is when this process handed the answer over.
    """
    payment = asked.payment
    is_held = row.lease != store.NOBODY and row.lease_until >= now
    if row.state == store.FAILED:
        return "fresh"
    if row.state == store.CLAIMED and not is_held:
        return "abandoned"
    if (row.digest, row.fingerprint) != (digest_of(payment, asked.requirement), asked.fingerprint):
        if payment.payment_id is not None and row.payment_id == payment.payment_id:
            raise name_taken()
        return verification_failure(InvalidReason.NONCE_USED, payment.version)
    if signed_by_key(payment, asked.requirement) is None and _signature(row) != payment.signature:
        # A contract's signature was checked on the chain when the payment was claimed.
        return verification_failure(InvalidReason.INVALID_SIGNATURE, payment.version)
    if row.state in {store.CLAIMED, store.SETTLING}:
        return "wait" if is_held else "resume"
    return _bought(row, asked, now, handed_at) or verification_failure(InvalidReason.NONCE_USED, payment.version)


def claimed_of(row: Any, lease: str) -> Claimed:
    """The claim that a row is, under a lease of ours."""
    payment = payment_of(row.payment, row.version)
    return Claimed(payment, requirement_of(row), row.resource_url, row.since_block, lease)


def receipted(row: Any) -> Receipted:
    """What a settled row tells the operator."""
    requirement = requirement_of(row)
    return Receipted(
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


def requirement_of(row: Any) -> Requirement:
    """What the row's payment was for."""
    return msgspec.json.decode(row.requirement, type=Requirement)


def key_of(payment: Payment) -> store.Key:
    """What tells one payment from every other, on the chain and here."""
    return payment.payer, payment.nonce


def pending() -> Problem:
    """Nobody can tell yet whether the money has moved. Another payment could pay twice; the same one cannot."""
    return Problem(
        "payment-pending",
        "The payment is still being settled. Send this call again with the same payment, not with another one: "
        "it pays once, and gets its answer.",
        headers={"Retry-After": str(PENDING_RETRY_SECONDS)},
        retry_after_seconds=PENDING_RETRY_SECONDS,
    )


def name_taken() -> Problem:
    """The payer's name for this payment belongs to another of its payments, or to another call."""
    return Problem(
        "idempotency-conflict",
        "This payment identifier was used with another payment or another call. Choose a new identifier.",
    )


def _bought(row: Any, asked: Asked, now: float, handed_at: float | None) -> Kept | None:
    """The answer, for ten minutes, unless it was wholly sent before this call came.

    A payment with a name of the payer's own gets it even then: that is what the extension is for.
    """
    if row.answer is None or row.settled_at < now - KEPT_SECONDS:
        return None
    sent_at = row.delivered_at if row.state == store.DELIVERED else handed_at
    if sent_at is not None and row.payment_id is None and sent_at <= asked.at:
        return None
    answer = msgspec.msgpack.decode(row.answer, type=StoredResponse)
    return Kept(asked.payment, answer, settled_headers(asked.payment, requirement_of(row), row.tx_hash, row.receipt))


def _signature(row: Any) -> bytes:
    return payment_of(row.payment, row.version).signature
