"""`Tollhouse-Caller`: who calls, signed for the upstream (a JSON Web Token, RFC 7519, with HMAC SHA-256)."""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import msgspec

from tollhouse import clock
from tollhouse.http.endpoint import Request
from tollhouse.http.terms import KeyCaller, WalletCaller

VALID_SECONDS = 60
MIN_KEY_BYTES = 32


def _encoded(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")


_HEADER = _encoded(b'{"alg":"HS256","typ":"JWT"}')


class CallerSigner:
    """Signs for one upstream. `audience` is the name of its service. Raises ValueError for a key that is too short."""

    def __init__(self, key: bytes, audience: str, issuer: str = "tollhouse") -> None:
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(f"the key of Tollhouse-Caller must have at least {MIN_KEY_BYTES} bytes")
        self._hash = hmac.new(key, digestmod=sha256)
        self._fixed = {"iss": issuer, "aud": audience}

    def sign(self, request: Request[Any, Any], request_id: str) -> bytes:
        """The token. Its claims: `sub` (key id, agent id or client address), `kind`, `plan`, `wallet`, `payment`."""
        now = int(clock.seconds())
        claims = self._fixed | {"iat": now, "exp": now + VALID_SECONDS, "jti": request_id, **_identity(request)}
        signed = _HEADER + b"." + _encoded(msgspec.json.encode(claims))
        digest = self._hash.copy()
        digest.update(signed)
        return signed + b"." + _encoded(digest.digest())


def _identity(request: Request[Any, Any]) -> dict[str, str]:
    caller = request.caller
    payment = {"payment": request.payment} if request.payment else {}
    if isinstance(caller, KeyCaller):
        return {"sub": caller.key_id, "kind": "key", "plan": caller.tier, **payment}
    if isinstance(caller, WalletCaller):
        return {"sub": caller.agent_id, "kind": "wallet", "wallet": caller.address, **payment}
    if request.payer:
        return {"sub": request.payer, "kind": "wallet", "wallet": request.payer, **payment}
    return {"sub": request.address, "kind": "address", **payment}
