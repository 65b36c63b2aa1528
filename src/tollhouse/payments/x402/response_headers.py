"""What the answer's header says of the payment: settled, or why not, in the payer's version of the protocol."""

from typing import Any

import msgspec

from tollhouse.evm.address import parse_address
from tollhouse.payments.x402.challenge import as_header
from tollhouse.payments.x402.receipts import SignedReceipt, as_extension
from tollhouse.payments.x402.types import Payment, Requirement

V1_HEADER, V2_HEADER = "X-PAYMENT-RESPONSE", "PAYMENT-RESPONSE"

Headers = tuple[tuple[str, str], ...]


def settled_headers(payment: Payment, requirement: Requirement, tx_hash: str, receipt: str | None) -> Headers:
    """The header of an answer that was paid for; `receipt` is the signed receipt's JSON."""
    told = {"success": True, **_common(payment, requirement, tx_hash)}
    if payment.version == 2:
        told["amount"] = str(requirement.amount_micros)
    if receipt is not None:
        told["extensions"] = as_extension(msgspec.json.decode(receipt, type=SignedReceipt))
    return _header(payment, told)


def failed_headers(payment: Payment, requirement: Requirement, reason: str) -> Headers:
    """The header of a 402 after a settlement that moved no money."""
    return _header(payment, {"success": False, "errorReason": reason, **_common(payment, requirement, "")})


def _common(payment: Payment, requirement: Requirement, tx_hash: str) -> dict[str, Any]:
    return {
        "transaction": tx_hash,
        "network": requirement.network_for(payment.version),
        "payer": parse_address(payment.payer).text,
    }


def _header(payment: Payment, told: dict[str, Any]) -> Headers:
    return ((V1_HEADER if payment.version == 1 else V2_HEADER, as_header(told)),)
