"""A wallet that pays for single requests (x402, version 2, schemes `exact` and `upto`)."""

import json
import secrets
from base64 import b64encode
from typing import Any

from msgspec import Struct

from tollhouse import clock
from tollhouse.client.offer import UPTO, Offer, read_challenge
from tollhouse.evm import (
    UPTO_PROXY,
    Domain,
    PermitTransfer,
    TransferWithAuthorization,
    address_of,
    checksummed,
    parse_address,
    parse_private_key,
    permit_digest,
    sign,
    transfer_digest,
)

# An authorization is valid from some minutes ago, because clocks differ, and never longer than an hour.
VALID_SINCE_SECONDS = 600
VALID_AT_MOST_SECONDS = 3_600


class Payment(Struct, frozen=True):
    """A signed payment: the headers to send, what it costs or at most costs, and when the signature expires."""

    headers: dict[str, str]
    micros: int
    expires_at: float


class Payer:
    """A wallet that signs transfers. It sends nothing itself: anyone with a signature may execute the transfer.

    Before it pays with the scheme `upto`, it must have approved Permit2 on the token, once.
    """

    def __init__(self, private_key: str | bytes) -> None:
        """Take the key as 32 bytes or as hex, with or without 0x. Raises ValueError, which never shows the key."""
        self._key = parse_private_key(private_key)
        self._raw = address_of(self._key.public_key)
        self.address = checksummed(self._raw)

    def __repr__(self) -> str:
        return f"Payer({self.address})"

    def headers(self, payment_required: str, at_most_micros: int) -> dict[str, str]:
        """The headers to repeat a request with, from the `PAYMENT-REQUIRED` header of its 402.

        Raises ValueError if no accepted payment is possible, or the price is more than `at_most_micros` micro-USD.
        """
        terms = read_challenge(payment_required)
        if not terms.offers:
            raise ValueError("the server does not accept payments of the schemes `exact` and `upto`")
        offer, raw = terms.offers[0]
        if offer.micros > at_most_micros:
            raise ValueError(f"the price is {offer.micros} micro-USD, more than {at_most_micros}")
        return self.pay(terms.resource, offer, raw).headers

    def pay(self, resource: Any, offer: Offer, raw: dict[str, Any]) -> Payment:
        """Sign the payment of an offer. `resource` and `raw` are the challenge's, repeated as they came."""
        expires_at = int(clock.seconds()) + min(offer.max_timeout_seconds, VALID_AT_MOST_SECONDS)
        signed = self._permit(offer, expires_at) if offer.scheme == UPTO else self._transfer(offer, expires_at)
        sent = {"x402Version": 2, "resource": resource, "accepted": raw, "payload": signed, "extensions": {}}
        headers = {"Payment-Signature": b64encode(json.dumps(sent).encode()).decode()}
        return Payment(headers, offer.micros, expires_at)

    def _transfer(self, offer: Offer, expires_at: int) -> dict[str, Any]:
        transfer = TransferWithAuthorization(
            self._raw,
            parse_address(offer.pay_to).raw,
            offer.micros,
            int(clock.seconds()) - VALID_SINCE_SECONDS,
            expires_at,
            secrets.token_bytes(32),
        )
        domain = Domain(offer.extra.name, offer.extra.version, offer.chain_id, parse_address(offer.asset).raw)
        return {
            "signature": sign(self._key, transfer_digest(domain, transfer)),
            "authorization": {
                "from": self.address,
                "to": offer.pay_to,
                "value": str(transfer.value),
                "validAfter": str(transfer.valid_after),
                "validBefore": str(transfer.valid_before),
                "nonce": f"0x{transfer.nonce.hex()}",
            },
        }

    def _permit(self, offer: Offer, expires_at: int) -> dict[str, Any]:
        addresses = (offer.asset, UPTO_PROXY, offer.extra.facilitator_address)
        permit = PermitTransfer(
            self._raw,
            parse_address(offer.pay_to).raw,
            offer.micros,
            0,
            expires_at,
            secrets.token_bytes(32),
            *(parse_address(address).raw for address in addresses),
        )
        return {
            "signature": sign(self._key, permit_digest(offer.chain_id, permit)),
            "permit2Authorization": {
                "from": self.address,
                "permitted": {"token": offer.asset, "amount": offer.amount},
                "spender": UPTO_PROXY,
                "nonce": str(int.from_bytes(permit.nonce)),
                "deadline": str(expires_at),
                "witness": {"to": offer.pay_to, "facilitator": offer.extra.facilitator_address, "validAfter": "0"},
            },
        }
