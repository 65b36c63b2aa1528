"""The headers of x402, versions 1 and 2: the 402 challenge, the payment, its settlement and signed receipts.

Receipts are the extension `offer-receipt` in its EIP-712 form.
"""

import binascii
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urljoin

import msgspec
from coincurve import PrivateKey
from msgspec import Meta, Raw, Struct

from tollhouse.errors import Problem
from tollhouse.evm import (
    PermitTransfer,
    TransferWithAuthorization,
    address_of,
    checksummed,
    keccak256,
    parse_address,
    sign,
)
from tollhouse.payments.x402.types import UPTO, InvalidReason, Payment, Requirement, Resource, VerificationFailure

V1_HEADER, V2_HEADER = "X-PAYMENT", "PAYMENT-SIGNATURE"
HEADERS = {1: V1_HEADER, 2: V2_HEADER}

MAX_HEADER = 12_288
MAX_PARTS = 1_024
# A payment repeats the challenge and adds its signature. Many servers and clients refuse a header beyond 8,190 bytes.
MAX_CHALLENGE = 7_000
PAYMENT_IDENTIFIER = "payment-identifier"
MIN_ID, MAX_ID = 16, 128

# The digits of 2^256-1.
MAX_DIGITS = 78

_Word = Annotated[str, Meta(min_length=1, max_length=64)]
_PaymentId = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]*\Z", min_length=MIN_ID, max_length=MAX_ID)]


class _Authorization(Struct, frozen=True, rename="camel"):
    sender: str = msgspec.field(name="from")
    to: str
    value: str
    valid_after: str
    valid_before: str
    nonce: str

    def decoded(self) -> TransferWithAuthorization:
        return TransferWithAuthorization(
            parse_address(self.sender).raw,
            parse_address(self.to).raw,
            _number("value", self.value),
            _number("validAfter", self.valid_after),
            _number("validBefore", self.valid_before),
            _bytes("nonce", self.nonce),
        )


class _Permitted(Struct, frozen=True):
    token: str
    amount: str


class _Witness(Struct, frozen=True, rename="camel"):
    to: str
    facilitator: str
    valid_after: str


class _Permit2Authorization(Struct, frozen=True):
    sender: str = msgspec.field(name="from")
    permitted: _Permitted
    spender: str
    nonce: str
    deadline: str
    witness: _Witness

    def decoded(self) -> PermitTransfer:
        return PermitTransfer(
            parse_address(self.sender).raw,
            parse_address(self.witness.to).raw,
            _number("amount", self.permitted.amount),
            _number("validAfter", self.witness.valid_after),
            _number("deadline", self.deadline),
            _word("nonce", self.nonce),
            parse_address(self.permitted.token).raw,
            parse_address(self.spender).raw,
            parse_address(self.witness.facilitator).raw,
        )


class _Signed(Struct, frozen=True):
    signature: str
    authorization: _Authorization


class _SignedPermit(Struct, frozen=True, rename="camel"):
    signature: str
    authorization: _Permit2Authorization = msgspec.field(name="permit2Authorization")


class _V1(Struct, frozen=True, rename="camel"):
    scheme: _Word
    network: _Word
    payload: Raw


class _Accepted(Struct, frozen=True):
    scheme: _Word
    network: _Word


class _V2(Struct, frozen=True, rename="camel"):
    accepted: dict[str, Any]
    payload: Raw
    extensions: dict[str, Any] | None = None


class _IdentifierInfo(Struct, frozen=True):
    id: _PaymentId | None = None


class _Identifier(Struct, frozen=True):
    info: _IdentifierInfo


class _Versioned(Struct, frozen=True):
    version: int = msgspec.field(name="x402Version")


_version = msgspec.json.Decoder(_Versioned)
_v1, _v2 = msgspec.json.Decoder(_V1), msgspec.json.Decoder(_V2)


def read_payment(x_payment: str, payment_signature: str) -> Payment | None:
    """Read the payment of a request: `X-PAYMENT` (version 1) or `PAYMENT-SIGNATURE` (version 2); None without.

    Raises Problem `invalid-parameter` that names the header.
    """
    if x_payment and payment_signature:
        raise malformed(V1_HEADER, f"Send `{V1_HEADER}` or `{V2_HEADER}`, not both.")
    if x_payment:
        return _read(x_payment, 1)
    if payment_signature:
        return _read(payment_signature, 2)
    return None


def decode_payment(raw: bytes, version: int) -> Payment:
    """Decode a payment's JSON object. Raises ValueError, with a reason that is safe to show."""
    try:
        raw.decode()
        # An upper bound of the nesting depth.
        if raw.count(b"{") + raw.count(b"[") > MAX_PARTS:
            raise ValueError(f"the payment has more than {MAX_PARTS} objects and arrays")
        return _payment(raw, version)
    except msgspec.ValidationError as error:
        # The message names members and types, never values.
        reason = f"the payment does not match its schema: {error}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        reason = "the payment is not valid JSON"
    raise ValueError(reason)


def malformed(header: str, detail: str, reason: str = InvalidReason.INVALID_PAYLOAD) -> Problem:
    """A 400 about a payment header; `reason` is the specification's code."""
    return Problem("invalid-parameter", detail, parameter=header, reason=reason)


def _read(text: str, version: int) -> Payment:
    header = HEADERS[version]
    if len(text) > MAX_HEADER:
        raise malformed(header, f"`{header}` must have at most {MAX_HEADER} characters.")
    try:
        raw = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        raise malformed(header, f"`{header}` must be standard base64.") from None
    try:
        sent_version = _version.decode(raw).version
    except (msgspec.DecodeError, ValueError, RecursionError):
        sent_version = None
    if sent_version != version:
        detail = f"`x402Version` must be {version} in `{header}`."
        raise malformed(header, detail, InvalidReason.INVALID_VERSION)
    try:
        return decode_payment(raw, version)
    except ValueError as error:
        raise malformed(header, f"`{header}` is invalid: {error}.") from None


def _payment(raw: bytes, version: int) -> Payment:
    accepted, payment_id = None, None
    sent: _V1 | _V2
    named: _V1 | _Accepted
    if version == 1:
        sent = named = _v1.decode(raw)
    else:
        sent = _v2.decode(raw)
        accepted, named = sent.accepted, msgspec.convert(sent.accepted, _Accepted)
        # An extension without an id only echoes the offered one.
        extension = (sent.extensions or {}).get(PAYMENT_IDENTIFIER)
        payment_id = None if extension is None else msgspec.convert(extension, _Identifier).info.id
    # Version 1 has no other scheme than `exact`; a payment of an unknown scheme is refused once it is read.
    shape: type[_Signed | _SignedPermit] = _SignedPermit if version == 2 and named.scheme == UPTO else _Signed
    signed = msgspec.json.decode(sent.payload, type=shape)
    signature = _bytes("signature", signed.signature)
    authorization = signed.authorization.decoded()
    return Payment(version, named.scheme, named.network, authorization, signature, raw, accepted, payment_id)


def _number(name: str, text: str) -> int:
    """Decode plain decimal digits: no sign, no spaces, no digits of other scripts."""
    is_plain = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    if not is_plain or (text.startswith("0") and text != "0"):
        raise ValueError(f"`{name}` must be a decimal string of at most {MAX_DIGITS} characters")
    return int(text)


def _word(name: str, text: str) -> bytes:
    """Decode a number into 32 bytes."""
    number = _number(name, text)
    if number.bit_length() > 256:
        raise ValueError(f"`{name}` must be below 2^256")
    return number.to_bytes(32)


def _bytes(name: str, text: str) -> bytes:
    if not text.startswith(("0x", "0X")):
        raise ValueError(f"`{name}` must be a 0x-prefixed hex string")
    try:
        decoded = bytes.fromhex(text[2:])
    except ValueError:
        decoded = b""
    # `fromhex` accepts spaces; without them one byte is two digits.
    if 2 * len(decoded) != len(text) - 2 or not decoded:
        raise ValueError(f"`{name}` must be a 0x-prefixed hex string")
    return decoded


REQUIRED_HEADER = "PAYMENT-REQUIRED"
PAYMENT_NOT_CONFIGURED = "This server does not accept payments per request."

_EXTENSIONS = {
    PAYMENT_IDENTIFIER: {
        "info": {"required": False},
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "required": {"type": "boolean"},
                "id": {"type": "string", "minLength": MIN_ID, "maxLength": MAX_ID, "pattern": "^[a-zA-Z0-9_-]+$"},
            },
            "required": ["required"],
        },
    }
}


class Challenge(Struct, frozen=True):
    """The content of a 402: `members` of its JSON body (version 1) and `headers` (version 2)."""

    members: dict[str, Any]
    headers: dict[str, str]

    def problem(self, code: str, detail: str, **facts: Any) -> Problem:
        """The 402 response."""
        return Problem(code, detail, headers=dict(self.headers), **facts, **self.members)


def challenge(
    resource: Resource, accepts: Sequence[Requirement], error: str, extensions: Mapping[str, Sequence[bytes]] = {}
) -> Challenge:
    """Ask for a payment that meets one of `accepts`; if empty, only report `error`.

    `extensions` are further ones of version 2, each as JSON in the sizes in which it can be sent, the largest first.
    Those of one size are sent first. Each is sent in the largest size that fits the header, or not where none does.
    """
    in_v1 = [one for one in accepts if one.network_v1 is not None]
    members = {"x402Version": 1, "error": error, "accepts": [one.v1(resource) for one in in_v1]}
    sent: dict[str, Any] = {**_EXTENSIONS} if accepts else {}
    required: dict[str, Any] = {
        "x402Version": 2,
        "error": error,
        "resource": {"url": resource.url, "description": resource.description, "mimeType": resource.mime_type},
        "accepts": [one.v2() for one in accepts],
        "extensions": sent,
    }
    header = encode_header(required)
    # Of an address that is too long the query goes, then the path. Version 1 has it whole, in the body.
    for shorter in (resource.url.partition("?")[0], urljoin(resource.url, "/")):
        if len(header) > MAX_CHALLENGE:
            required["resource"] = {**required["resource"], "url": shorter}
            header = encode_header(required)
    remaining = (MAX_CHALLENGE - len(header)) * 3 // 4
    for name, sizes in sorted(extensions.items(), key=lambda one: len(one[1]) > 1) if accepts else ():
        # A comma, the name and a colon; the last group of base64 may be longer by two bytes.
        fitting = next((one for one in sizes if len(one) + len(name) + 6 <= remaining), None)
        if fitting is not None:
            sent[name] = msgspec.Raw(fitting)
            remaining -= len(fitting) + len(name) + 6
    return Challenge(members, {REQUIRED_HEADER: encode_header(required)})


def payment_invalid(failure: VerificationFailure, challenge: Challenge) -> Problem:
    """The 402 for an invalid payment, with a new challenge."""
    problem = challenge.problem("payment-invalid", failure.detail, reason=failure.reason)
    problem.headers |= dict(failure.headers)
    return problem


def encode_header(members: Any) -> str:
    """Encode JSON in standard base64, as all headers of the protocol are."""
    return b64encode(msgspec.json.encode(members)).decode()


OFFER_RECEIPT = "offer-receipt"
RECEIPT_VERSION = 1

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
    version: int = RECEIPT_VERSION


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


V1_RESPONSE_HEADER, V2_RESPONSE_HEADER = "X-PAYMENT-RESPONSE", "PAYMENT-RESPONSE"

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
    return ((V1_RESPONSE_HEADER if payment.version == 1 else V2_RESPONSE_HEADER, encode_header(payload)),)
