"""A signed statement that a payment was received and answered: the x402 extension `offer-receipt`, in EIP-712 form."""

from typing import Any

from coincurve import PrivateKey
from msgspec import Struct

from tollhouse.evm.address import checksummed
from tollhouse.evm.keccak import keccak256
from tollhouse.evm.signature import address_of

OFFER_RECEIPT = "offer-receipt"
VERSION = 1

# The extension's domain: of no contract, and of chain 1 whatever chain was paid on.
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
    """What is stated: `payer` (checksummed) paid for `resource_url`, by that transaction, at that second."""

    network: str
    resource_url: str
    payer: str
    issued_at: int
    transaction: str
    version: int = VERSION


class SignedReceipt(Struct, frozen=True):
    """The statement as it is sent and kept; `signature` is r, s and v (27 or 28) in hex."""

    format: str
    payload: PaymentReceipt
    signature: str


class ReceiptSigner:
    """Signs with one secp256k1 key of 32 bytes. Verifiers learn `address` from the operator."""

    def __init__(self, key: bytes) -> None:
        self._key = PrivateKey(key)
        self.address = checksummed(address_of(self._key.public_key))

    def sign(self, receipt: PaymentReceipt) -> SignedReceipt:
        """The receipt with its signature."""
        made = self._key.sign_recoverable(receipt_digest(receipt), hasher=None)
        return SignedReceipt("eip712", receipt, "0x" + made[:64].hex() + f"{27 + made[64]:02x}")


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


def as_extension(receipt: SignedReceipt) -> dict[str, Any]:
    """The member of `extensions` in a settlement response."""
    return {OFFER_RECEIPT: {"info": {"receipt": receipt}}}


def _hashed(text: str) -> bytes:
    return keccak256(text.encode())
