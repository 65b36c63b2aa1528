"""One payment, as the descriptions show it."""

from typing import Any

_PAYER, _SELLER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
_FACILITATOR = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
_BASE = "eip155:8453"

_REQUIREMENTS: dict[str, Any] = {
    "scheme": "exact",
    "network": _BASE,
    "amount": "1000",
    "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    "payTo": _SELLER,
    "maxTimeoutSeconds": 60,
    "extra": {"name": "USD Coin", "version": "2"},
}

TO_SETTLE: dict[str, Any] = {
    "x402Version": 2,
    "paymentPayload": {
        "x402Version": 2,
        "resource": {"url": "https://shop.example/api/products"},
        "accepted": _REQUIREMENTS,
        "payload": {
            "signature": "0x" + "5a" * 64 + "1b",
            "authorization": {
                "from": _PAYER,
                "to": _SELLER,
                "value": "1000",
                "validAfter": "1790000000",
                "validBefore": "1790000660",
                "nonce": "0x" + "c7" * 32,
            },
        },
        "extensions": {},
    },
    "paymentRequirements": _REQUIREMENTS,
}
VERIFIED: dict[str, Any] = {"isValid": True, "payer": _PAYER}
SETTLED: dict[str, Any] = {
    "success": True,
    "transaction": "0x" + "8d" * 32,
    "network": _BASE,
    "payer": _PAYER,
    "amount": "1000",
}
SUPPORTED: dict[str, Any] = {
    "kinds": [
        {"scheme": "exact", "network": _BASE, "x402Version": 2},
        {"scheme": "exact", "network": "base", "x402Version": 1},
    ],
    "extensions": [],
    "signers": {"eip155:*": [_FACILITATOR]},
}
