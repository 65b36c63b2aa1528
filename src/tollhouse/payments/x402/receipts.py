"""Response headers about a settlement, and signed receipts (the x402 extension `offer-receipt`, EIP-712 form)."""

from typing import Any

import msgspec
from coincurve import PrivateKey
from msgspec import Struct

from tollhouse.evm.address import checksummed, parse_address
from tollhouse.evm.keccak import keccak256
from tollhouse.evm.signature import address_of, sign
from tollhouse.payments.x402.headers import encode_header
from tollhouse.payments.x402.types import Payment, Requirement

OFFER_RECEIPT = "offer-receipt"
VERSION = 1

# The extension's domain: no contract, and chain 1 whatever chain was paid on.
_DOMAIN = keccak256(
    keccak256(b"EIP712Domain(string name,string version,uint256 chainId)")
    + keccak256(b"x402 receipt")
    + keccak256(b"1")
    + (1).to_bytes(32)
)
_RECEIPT_TYPE = keccak256(
    b"Receipt(uint256 version,string network,string resourceUrl,string payer,uint256 issuedAt,string transaction)"
)


class PaymentReceipt(Struct, frozen=True, rename="camel"):
    """The receipt: `payer` (checksummed) paid for `resource_url` with that transaction at that second."""

    network: str
    resource_url: str
    payer: str
    issued_at: int
    transaction: str
    version: int = VERSION


class SignedReceipt(Struct, frozen=True):
    """A receipt as sent and stored; `signature` is r, s and v (27 or 28) in hex."""

    format: str
    payload: PaymentReceipt
    signature: str


class ReceiptSigner:
    """Signs receipts with one secp256k1 key of 32 bytes. Verifiers get `address` from the operator."""

    def __init__(self, key: bytes) -> None:
        self._key = PrivateKey(key)
        self.address = checksummed(address_of(self._key.public_key))

    def sign(self, receipt: PaymentReceipt) -> SignedReceipt:
        """Sign a receipt."""
        return SignedReceipt("eip712", receipt, sign(self._key, receipt_digest(receipt)))


def receipt_digest(receipt: PaymentReceipt) -> bytes:
    """The 32 bytes that are signed (EIP-712)."""
    struct = keccak256(
        _RECEIPT_TYPE
        + receipt.version.to_bytes(32)
        + _hashed(receipt.network)
        + _hashed(receipt.resource_url)
        + _hashed(receipt.payer)
        + receipt.issued_at.to_bytes(32)
        + _hashed(receipt.transaction)
    )
    return keccak256(b"\x19\x01" + _DOMAIN + struct)


def _hashed(text: str) -> bytes:
    return keccak256(text.encode())


V1_HEADER, V2_HEADER = "X-PAYMENT-RESPONSE", "PAYMENT-RESPONSE"

Headers = tuple[tuple[str, str], ...]


def settled_headers(payment: Payment, requirement: Requirement, tx_hash: str, receipt: str | None) -> Headers:
    """The header of a paid response; `receipt` is the signed receipt's JSON."""
    payload = {"success": True, **_common(payment, requirement, tx_hash)}
    if payment.version == 2:
        payload["amount"] = str(requirement.amount_micros)
    if receipt is not None:
        signed = msgspec.json.decode(receipt, type=SignedReceipt)
        payload["extensions"] = {OFFER_RECEIPT: {"info": {"receipt": signed}}}
    return _header(payment, payload)


def failed_headers(payment: Payment, requirement: Requirement, reason: str) -> Headers:
    """The header of a 402 after a settlement that moved no money."""
    return _header(payment, {"success": False, "errorReason": reason, **_common(payment, requirement, "")})


def _common(payment: Payment, requirement: Requirement, tx_hash: str) -> dict[str, Any]:
    return {
        "transaction": tx_hash,
        "network": requirement.network_for(payment.version),
        "payer": parse_address(payment.payer).text,
    }


def _header(payment: Payment, payload: dict[str, Any]) -> Headers:
    return ((V1_HEADER if payment.version == 1 else V2_HEADER, encode_header(payload)),)
