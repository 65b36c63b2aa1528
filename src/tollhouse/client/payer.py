"""A wallet that pays for single requests (x402, version 2, scheme `exact`)."""

import json
import secrets
from base64 import b64decode, b64encode
from typing import Any

from tollhouse import clock
from tollhouse.evm.address import checksummed, parse_address
from tollhouse.evm.signature import address_of, parse_private_key, sign
from tollhouse.evm.typed_data import Domain, TransferWithAuthorization, transfer_digest

# An authorization is valid from some minutes ago, because clocks differ.
VALID_SINCE_SECONDS = 600


class Payer:
    """A wallet that signs transfers. It sends nothing itself: anyone with a signature may execute the transfer."""

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
        required = json.loads(b64decode(payment_required))
        requirement = next((one for one in required["accepts"] if one["scheme"] == "exact"), None)
        if requirement is None:
            raise ValueError("the server does not accept payments of the scheme `exact`")
        if int(requirement["amount"]) > at_most_micros:
            raise ValueError(f"the price is {requirement['amount']} micro-USD, more than {at_most_micros}")
        sent = {
            "x402Version": 2,
            "resource": required["resource"],
            "accepted": requirement,
            "payload": self._signed(requirement),
            "extensions": {},
        }
        return {"Payment-Signature": b64encode(json.dumps(sent).encode()).decode()}

    def _signed(self, requirement: dict[str, Any]) -> dict[str, Any]:
        now = int(clock.seconds())
        transfer = TransferWithAuthorization(
            self._raw,
            parse_address(requirement["payTo"]).raw,
            int(requirement["amount"]),
            now - VALID_SINCE_SECONDS,
            now + int(requirement["maxTimeoutSeconds"]),
            secrets.token_bytes(32),
        )
        chain_id, extra = int(requirement["network"].removeprefix("eip155:")), requirement["extra"]
        domain = Domain(extra["name"], extra["version"], chain_id, parse_address(requirement["asset"]).raw)
        return {
            "signature": sign(self._key, transfer_digest(domain, transfer)),
            "authorization": {
                "from": self.address,
                "to": requirement["payTo"],
                "value": str(transfer.value),
                "validAfter": str(transfer.valid_after),
                "validBefore": str(transfer.valid_before),
                "nonce": f"0x{transfer.nonce.hex()}",
            },
        }
