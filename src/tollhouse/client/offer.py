"""The challenge of a 402 (x402, version 2), read and checked."""

from base64 import b64decode
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tollhouse.evm import parse_address

_Digits = Annotated[str, Meta(pattern=r"^[0-9]{1,30}\Z")]


EXACT, UPTO = "exact", "upto"
_METHODS = {EXACT: "eip3009", UPTO: "permit2"}
"""How each scheme moves the money (`assetTransferMethod`)."""


class _Extra(Struct, frozen=True, rename="camel"):
    """The EIP-712 domain of the token and, in the scheme `upto`, the account that settles."""

    name: str
    version: str
    facilitator_address: str = ""


class Offer(Struct, frozen=True, rename="camel"):
    """One way to pay, with the scheme `exact` or `upto`: the price, or the most that the call costs.

    `amount` is in units of the token, of which a dollar has a million.
    """

    scheme: str
    network: Annotated[str, Meta(pattern=r"^eip155:[0-9]{1,18}\Z")]
    asset: str
    pay_to: str
    amount: _Digits
    max_timeout_seconds: Annotated[int, Meta(ge=1)]
    extra: _Extra

    @property
    def micros(self) -> int:
        return int(self.amount)

    @property
    def chain_id(self) -> int:
        return int(self.network.removeprefix("eip155:"))


class PaymentTerms(Struct, frozen=True):
    """What a 402 asks for: the ways to pay that this client has, each with the members as the server sent them."""

    resource: Any
    offers: list[tuple[Offer, dict[str, Any]]]


class _Challenge(Struct, frozen=True):
    version: int = msgspec.field(name="x402Version")
    accepts: list[dict[str, Any]]
    resource: Any = None


def read_challenge(header: str) -> PaymentTerms:
    """Read the header `PAYMENT-REQUIRED`. Raises ValueError if it is malformed."""
    try:
        challenge = msgspec.json.decode(b64decode(header, validate=True), type=_Challenge)
    except (ValueError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the challenge is malformed: {error}") from None
    offers = [(offer, raw) for raw in challenge.accepts for offer in [_offer(raw)] if offer is not None]
    return PaymentTerms(challenge.resource, offers)


def _offer(raw: dict[str, Any]) -> Offer | None:
    """The offer; None if it is of another scheme or chain, or if this client cannot read it."""
    method = _METHODS.get(raw.get("scheme", ""))
    if method is None or raw.get("extra", {}).get("assetTransferMethod", method) != method:
        return None
    try:
        offer = msgspec.convert(raw, Offer)
        if offer.scheme == UPTO:
            parse_address(offer.extra.facilitator_address)
        parse_address(offer.asset)
        parse_address(offer.pay_to)
    except (msgspec.ValidationError, ValueError):
        return None
    return offer
