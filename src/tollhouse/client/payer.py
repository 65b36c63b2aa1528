"""A wallet that pays for single requests: it signs what a 402 asks for (x402, version 2, scheme `exact`)."""

import json
import secrets
from base64 import b64decode, b64encode
from typing import Any

from tollhouse import clock
from tollhouse.client.agent import private_key_of
from tollhouse.evm.address import checksummed, parse_address
from tollhouse.evm.signature import address_of
from tollhouse.evm.typed_data import Domain, TransferWithAuthorization, transfer_digest

# Clocks differ: an authorization is good from a little before now.
VALID_SINCE_SECONDS = 600


class Payer:
    """One wallet. It signs transfers and sends nothing itself: whoever holds a signature may carry the transfer out."""

    def __init__(self, private_key: str | bytes) -> None:
        """Take the key as 32 bytes or as hex, with or without 0x. Raises ValueError, which never shows the key."""
        self._key = private_key_of(private_key)
        self._raw = address_of(self._key.public_key)
        self.address = checksummed(self._raw)

    def __repr__(self) -> str:
        return f"Payer({self.address})"

    def headers(self, payment_required: str, at_most_micros: int) -> dict[str, str]:
        """What to send with the request again, from the `PAYMENT-REQUIRED` header of its 402.

        Raises ValueError when nothing is asked for that can be paid, or more than `at_most_micros` micro-USD.
        """
        required = json.loads(b64decode(payment_required))
        asked = next((one for one in required["accepts"] if one["scheme"] == "exact"), None)
        if asked is None:
            raise ValueError("the server asks for no payment of the scheme `exact`")
        if int(asked["amount"]) > at_most_micros:
            raise ValueError(f"the server asks for {asked['amount']} micro-USD, more than {at_most_micros}")
        sent = {
            "x402Version": 2,
            "resource": required["resource"],
            "accepted": asked,
            "payload": self._signed(asked),
            "extensions": {},
        }
        return {"Payment-Signature": b64encode(json.dumps(sent).encode()).decode()}

    def _signed(self, asked: dict[str, Any]) -> dict[str, Any]:
        now = int(clock.seconds())
        transfer = TransferWithAuthorization(
            self._raw,
            parse_address(asked["payTo"]).raw,
            int(asked["amount"]),
            now - VALID_SINCE_SECONDS,
            now + int(asked["maxTimeoutSeconds"]),
            secrets.token_bytes(32),
        )
        chain_id = int(asked["network"].removeprefix("eip155:"))
        domain = Domain(asked["extra"]["name"], asked["extra"]["version"], chain_id, parse_address(asked["asset"]).raw)
        signature = self._key.sign_recoverable(transfer_digest(domain, transfer), hasher=None)
        return {
            "signature": f"0x{signature[:64].hex()}{signature[64] + 27:02x}",
            "authorization": {
                "from": self.address,
                "to": asked["payTo"],
                "value": str(transfer.value),
                "validAfter": str(transfer.valid_after),
                "validBefore": str(transfer.valid_before),
                "nonce": f"0x{transfer.nonce.hex()}",
            },
        }
