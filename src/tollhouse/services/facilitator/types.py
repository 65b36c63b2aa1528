"""Requests and responses of the facilitator, versions 1 and 2 of the x402 specification."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from tollhouse.evm import PermitTransfer, parse_address
from tollhouse.payments.x402.headers import decode_payment
from tollhouse.payments.x402.settlement.remote import Kind
from tollhouse.payments.x402.types import EXACT, UPTO, InvalidReason, Payment, Requirement

SETTLEMENT_PENDING = "settlement_pending"
VERIFY_ERROR, SETTLE_ERROR = "unexpected_verify_error", "unexpected_settle_error"

_METHODS = {EXACT: "eip3009", UPTO: "permit2"}
"""How each scheme moves the tokens (`assetTransferMethod`)."""

_OBJECT = {"type": "object"}
_Decimal = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,77})\Z")]
_Seconds = Annotated[int, Meta(ge=0)]
_Text = Annotated[str, Meta(max_length=4096)]


class FacilitatorRequest(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of `POST /verify` and `POST /settle`: the payment as sent, and its requirement."""

    version: Annotated[Any, Meta(description="1 or 2", extra_json_schema={"enum": [1, 2]})] = msgspec.field(
        name="x402Version"
    )
    payment_payload: Annotated[
        Raw,
        Meta(description="The payment, as in the header `X-PAYMENT` or `PAYMENT-SIGNATURE`", extra_json_schema=_OBJECT),
    ]
    payment_requirements: Annotated[
        Raw, Meta(description="The entry of `accepts` that it is for", extra_json_schema=_OBJECT)
    ]


class Verified(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The response of `/verify`. `payer` is checksummed, and missing if the payment is not readable."""

    is_valid: bool
    invalid_reason: str | None = None
    invalid_message: str | None = None
    payer: str | None = None


class SettleResult(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The response of `/settle`. `transaction` is empty if none settled the payment."""

    success: bool
    transaction: str
    network: str
    error_reason: str | None = None
    error_message: str | None = None
    payer: str | None = None
    amount: str | None = None


class Supported(Struct, frozen=True):
    """The supported kinds; `signers` are the accounts that send transactions, by family of chains."""

    kinds: list[Kind]
    extensions: list[str]
    signers: dict[str, list[str]]


class UnreadableError(Exception):
    """The request does not follow the specification. `reason` is its code, `detail` is safe to show."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class _Extra(Struct, frozen=True, rename="camel"):
    name: str | None = None
    version: str | None = None
    asset_transfer_method: str | None = None
    facilitator_address: str | None = None


class _RequiredV2(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    scheme: str
    network: str
    amount: _Decimal
    pay_to: str
    asset: str
    max_timeout_seconds: _Seconds
    extra: _Extra | None = None


class _RequiredV1(_RequiredV2, frozen=True, kw_only=True, forbid_unknown_fields=True):
    amount: _Decimal = msgspec.field(name="maxAmountRequired")
    resource: _Text = ""
    description: _Text = ""
    mime_type: _Text = msgspec.field(name="mimeType", default="")
    output_schema: Any = msgspec.field(name="outputSchema", default=None)


class PaymentRequest(Struct, frozen=True):
    """A decoded request: a payment, what is required or is to be taken, and what its payer must have signed.

    They differ in the amount where a payment of scheme `upto` is settled.
    """

    payment: Payment
    requirement: Requirement
    signed: Requirement


def read_request(request: FacilitatorRequest, settled: Requirement, *, is_settling: bool) -> PaymentRequest:
    """Decode a request about the token that is settled here. Raises UnreadableError."""
    version = request.version
    if type(version) is not int or version not in {1, 2}:
        raise UnreadableError(InvalidReason.INVALID_VERSION, "`x402Version` must be 1 or 2")
    payment = _payment(bytes(request.payment_payload), version)
    requirement = _requirement(bytes(request.payment_requirements), version, settled)
    signed = requirement
    if is_settling and isinstance(payment.authorization, PermitTransfer):
        signed = msgspec.structs.replace(requirement, amount_micros=payment.authorization.value)
    if payment.accepted is not None:
        _check_accepted(payment.accepted, bytes(request.payment_requirements), str(signed.amount_micros))
    return PaymentRequest(msgspec.structs.replace(payment, accepted=None), requirement, signed)


def _payment(raw: bytes, version: int) -> Payment:
    try:
        if msgspec.json.decode(raw, type=_Versioned).version != version:
            raise UnreadableError(
                InvalidReason.INVALID_VERSION, "`paymentPayload` must have the version of the request"
            )
        return decode_payment(raw, version)
    except (msgspec.DecodeError, RecursionError):
        detail = "`paymentPayload` is not a valid x402 payment"
    except ValueError as error:
        detail = f"`paymentPayload`: {error}"
    raise UnreadableError(InvalidReason.INVALID_PAYLOAD, detail)


def _requirement(raw: bytes, version: int, settled: Requirement) -> Requirement:
    try:
        requirement: _RequiredV2 = msgspec.json.decode(raw, type=_RequiredV1 if version == 1 else _RequiredV2)
        pay_to, asset = parse_address(requirement.pay_to), parse_address(requirement.asset)
    except (ValueError, RecursionError) as error:
        detail = str(error) if isinstance(error, msgspec.ValidationError) else "not a valid x402 requirement"
        raise UnreadableError(InvalidReason.INVALID_REQUIREMENTS, f"`paymentRequirements`: {detail}") from None
    extra, scheme, amount = requirement.extra or _Extra(), requirement.scheme, requirement.amount
    network = settled.network_v1 if version == 1 else settled.network
    is_supported = scheme == EXACT or (scheme == UPTO and version == 2)
    if not is_supported or extra.asset_transfer_method not in {None, _METHODS[scheme]}:
        raise UnreadableError(
            InvalidReason.UNSUPPORTED_SCHEME,
            "only the schemes `exact` with an EIP-3009 authorization and, in version 2, `upto` are supported",
        )
    if scheme == EXACT and amount == "0":
        raise UnreadableError(InvalidReason.INVALID_REQUIREMENTS, "the amount of `exact` must be above zero")
    if scheme == UPTO and (extra.facilitator_address or "").lower() != settled.facilitator.lower():
        raise UnreadableError(
            InvalidReason.INVALID_REQUIREMENTS, f"`extra.facilitatorAddress` must be {settled.facilitator}"
        )
    if requirement.network != network:
        raise UnreadableError(InvalidReason.INVALID_NETWORK, f"only payments on `{network}` are supported")
    domain = (extra.name or settled.name, extra.version or settled.version)
    if asset != parse_address(settled.asset) or domain != (settled.name, settled.version):
        raise UnreadableError(InvalidReason.INVALID_REQUIREMENTS, f"only the token {settled.asset} is supported")
    return msgspec.structs.replace(
        settled,
        scheme=scheme,
        amount_micros=int(amount),
        pay_to=pay_to.text,
        max_timeout_seconds=requirement.max_timeout_seconds,
        facilitator=settled.facilitator if scheme == UPTO else "",
    )


def _check_accepted(accepted: dict[str, Any], requirements: bytes, amount: str) -> None:
    if accepted != msgspec.json.decode(requirements) | {"amount": amount}:
        raise UnreadableError(
            InvalidReason.INVALID_REQUIREMENTS,
            "`accepted` in the payment must equal `paymentRequirements`, apart from the amount of `upto` to settle",
        )


class _Versioned(Struct, frozen=True):
    version: Literal[1, 2] = msgspec.field(name="x402Version")
