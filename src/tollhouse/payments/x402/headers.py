"""The request headers of x402, versions 1 and 2: the 402 challenge, and the payment that answers it."""

import binascii
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse.errors import Problem
from tollhouse.evm.address import parse_address
from tollhouse.evm.typed_data import TransferWithAuthorization
from tollhouse.payments.x402.types import (
    InvalidReason,
    Payment,
    Requirement,
    Resource,
    VerificationFailure,
)

V1_HEADER, V2_HEADER = "X-PAYMENT", "PAYMENT-SIGNATURE"
HEADERS = {1: V1_HEADER, 2: V2_HEADER}

LARGEST_HEADER = 8_192
MOST_PARTS = 128
PAYMENT_IDENTIFIER = "payment-identifier"
SHORTEST_ID, LONGEST_ID = 16, 128

# 2^256-1 has so many.
MOST_DIGITS = 78

_Word = Annotated[str, Meta(min_length=1, max_length=64)]
_PaymentId = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]*\Z", min_length=SHORTEST_ID, max_length=LONGEST_ID)]


class _Authorization(Struct, frozen=True, rename="camel"):
    sender: str = msgspec.field(name="from")
    to: str
    value: str
    valid_after: str
    valid_before: str
    nonce: str


class _Signed(Struct, frozen=True):
    signature: str
    authorization: _Authorization


class _V1(Struct, frozen=True, rename="camel"):
    scheme: _Word
    network: _Word
    payload: _Signed


class _Accepted(Struct, frozen=True):
    scheme: _Word
    network: _Word


class _V2(Struct, frozen=True, rename="camel"):
    accepted: dict[str, Any]
    payload: _Signed
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
    """The payment that came with a call: `X-PAYMENT` (version 1) or `PAYMENT-SIGNATURE` (version 2); None without.

    Raises Problem `invalid-parameter` naming the header.
    """
    if x_payment and payment_signature:
        raise malformed(V1_HEADER, f"Send either {V1_HEADER} or {V2_HEADER}, not both.")
    if x_payment:
        return _read(x_payment, 1)
    if payment_signature:
        return _read(payment_signature, 2)
    return None


def payment_of(raw: bytes, version: int) -> Payment:
    """The payment that a JSON object of that version is. Raises ValueError, with a reason fit for a stranger."""
    try:
        raw.decode()
        _check_parts(raw)
        return _payment_v1(raw) if version == 1 else _payment_v2(raw)
    except msgspec.ValidationError as error:
        # Its words name members and kinds, never what stood there.
        reason = f"the payment does not fit its schema: {error}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        reason = "the payment is no JSON"
    raise ValueError(reason)


def malformed(header: str, detail: str, reason: str = InvalidReason.INVALID_PAYLOAD) -> Problem:
    """A 400 about a payment header; `reason` is the standard's code."""
    return Problem("invalid-parameter", detail, parameter=header, reason=reason)


def _read(text: str, version: int) -> Payment:
    header = HEADERS[version]
    if len(text) > LARGEST_HEADER:
        raise malformed(header, f"{header} is longer than {LARGEST_HEADER} characters.")
    try:
        raw = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        raise malformed(header, f"{header} is not standard base64.") from None
    if _version_of(raw) != version:
        detail = f"`x402Version` must be {version} in {header}."
        raise malformed(header, detail, InvalidReason.INVALID_VERSION)
    try:
        return payment_of(raw, version)
    except ValueError as error:
        raise malformed(header, f"{header}: {error}.") from None


def _version_of(raw: bytes) -> int | None:
    """The version an object says it has; None where it says none that is a number."""
    try:
        return _version.decode(raw).version
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _payment_v1(raw: bytes) -> Payment:
    sent = _v1.decode(raw)
    return _payment(1, sent.scheme, sent.network, sent.payload, raw)


def _payment_v2(raw: bytes) -> Payment:
    sent = _v2.decode(raw)
    accepted = msgspec.convert(sent.accepted, _Accepted)
    payment_id = _payment_id((sent.extensions or {}).get(PAYMENT_IDENTIFIER))
    return _payment(2, accepted.scheme, accepted.network, sent.payload, raw, sent.accepted, payment_id)


def _payment(  # noqa: PLR0913, PLR0917 - a payment not made yet, in the order of its fields
    version: int,
    scheme: str,
    network: str,
    signed: _Signed,
    raw: bytes,
    accepted: dict[str, Any] | None = None,
    payment_id: str | None = None,
) -> Payment:
    told = signed.authorization
    authorization = TransferWithAuthorization(
        parse_address(told.sender).raw,
        parse_address(told.to).raw,
        _number("value", told.value),
        _number("validAfter", told.valid_after),
        _number("validBefore", told.valid_before),
        _bytes("nonce", told.nonce),
    )
    signature = _bytes("signature", signed.signature)
    return Payment(version, scheme, network, authorization, signature, raw, accepted, payment_id)


def _number(name: str, text: str) -> int:
    """Plain decimal digits, as the chain can hold them: no sign, no space, no digits of other scripts."""
    is_plain = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    if not is_plain or (text.startswith("0") and text != "0"):
        raise ValueError(f"`{name}` is no decimal string of at most {MOST_DIGITS} characters")
    return int(text)


def _bytes(name: str, text: str) -> bytes:
    if not text.startswith(("0x", "0X")):
        raise ValueError(f"`{name}` is no hexadecimal string that begins with 0x")
    try:
        found = bytes.fromhex(text[2:])
    except ValueError:
        found = b""
    # Python's reader passes over spaces; one byte is always two digits.
    if 2 * len(found) != len(text) - 2 or not found:
        raise ValueError(f"`{name}` is no hexadecimal string that begins with 0x")
    return found


def _payment_id(extension: Any) -> str | None:
    """What the payer calls this payment; None where it says nothing, or only echoes what was offered."""
    if extension is None:
        return None
    return msgspec.convert(extension, _Identifier).info.id


def _check_parts(raw: bytes) -> None:
    # Nothing is nested deeper than it has openings.
    if raw.count(b"{") + raw.count(b"[") > MOST_PARTS:
        raise ValueError(f"the payment has more than {MOST_PARTS} parts")


REQUIRED_HEADER = "PAYMENT-REQUIRED"
NO_PAYMENT_TAKEN = "This server takes no payment yet."

_EXTENSIONS = {
    PAYMENT_IDENTIFIER: {
        "info": {"required": False},
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "required": {"type": "boolean"},
                "id": {
                    "type": "string",
                    "minLength": SHORTEST_ID,
                    "maxLength": LONGEST_ID,
                    "pattern": "^[a-zA-Z0-9_-]+$",
                },
            },
            "required": ["required"],
        },
    }
}


class Challenge(Struct, frozen=True):
    """What a 402 carries: `members` of its JSON body (version 1), `headers` (version 2)."""

    members: dict[str, Any]
    headers: dict[str, str]

    def problem(self, code: str, detail: str, **facts: Any) -> Problem:
        """The 402 itself."""
        return Problem(code, detail, headers=dict(self.headers), **facts, **self.members)


def challenge(resource: Resource, accepts: Sequence[Requirement], error: str) -> Challenge:
    """Ask for one of `accepts`; with none of them, say `error` and ask for nothing."""
    is_named_in_v1 = [one for one in accepts if one.network_v1 is not None]
    members = {"x402Version": 1, "error": error, "accepts": [one.v1(resource) for one in is_named_in_v1]}
    required = {
        "x402Version": 2,
        "error": error,
        "resource": {"url": resource.url, "description": resource.description, "mimeType": resource.mime_type},
        "accepts": [one.v2() for one in accepts],
        "extensions": _EXTENSIONS if accepts else {},
    }
    return Challenge(members, {REQUIRED_HEADER: as_header(required)})


def refusal(refused: VerificationFailure, again: Challenge) -> Problem:
    """The 402 for a payment that will not do, which asks for another one."""
    problem = again.problem("payment-invalid", refused.detail, reason=refused.reason)
    problem.headers |= dict(refused.headers)
    return problem


def as_header(members: Any) -> str:
    """JSON in standard base64, as every header of the protocol is written."""
    return b64encode(msgspec.json.encode(members)).decode()
