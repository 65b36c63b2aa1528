"""Secrets and signatures as Standard Webhooks 1.0 lays them down: HMAC-SHA256 over `id.timestamp.body`."""

import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256

PREFIX = "whsec_"
_RANDOM_BYTES = 32


def new_secret() -> str:
    """A secret nobody has had before: `whsec_` and 32 random bytes in base64."""
    return PREFIX + b64encode(secrets.token_bytes(_RANDOM_BYTES)).decode()


def signatures(message_id: str, timestamp: int, body: bytes, keys: Iterable[str]) -> str:
    """The header `webhook-signature`: one `v1,<base64>` for each secret, separated by spaces."""
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return " ".join(f"v1,{b64encode(hmac.digest(_bytes_of(key), signed, sha256)).decode()}" for key in keys)


def _bytes_of(key: str) -> bytes:
    return b64decode(key.removeprefix(PREFIX))
