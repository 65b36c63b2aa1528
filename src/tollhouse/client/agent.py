"""A wallet that signs calls."""

import re
import secrets

from coincurve import PrivateKey

from tollhouse.evm.address import checksummed
from tollhouse.evm.keccak import personal_digest
from tollhouse.evm.signature import address_of

NONCE_BYTES = 16

_KEY = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")


class Agent:
    """A wallet that signs calls. `prefix` is the first word of the signed message, a setting of the server."""

    def __init__(self, private_key: str | bytes, prefix: str = "service") -> None:
        """Take the key as 32 bytes or as hex, with or without 0x. Raises ValueError, which never shows the key."""
        self._key = parse_private_key(private_key)
        self._prefix = prefix
        self.address = checksummed(address_of(self._key.public_key))

    def __repr__(self) -> str:
        return f"Agent({self.address})"

    def headers(self, path: str) -> dict[str, str]:
        """The headers for one call of this path, such as `/feeds/defense-brief`. Every call needs new ones.

        The path is the service's own, without the prefix it is mounted under. It may include the query string, exactly
        as it is sent. Raises ValueError if the path does not begin with a slash.
        """
        if not path.startswith("/"):
            raise ValueError("the path must begin with a slash")
        nonce = secrets.token_hex(NONCE_BYTES)
        digest = personal_digest(f"{self._prefix}:{path}:{nonce}".encode())
        signature = self._key.sign_recoverable(digest, hasher=None)
        return {
            "X-Agent-Address": self.address,
            "X-Agent-Nonce": nonce,
            "X-Agent-Signature": f"0x{signature[:64].hex()}{signature[64] + 27:02x}",
        }


def parse_private_key(key: str | bytes) -> PrivateKey:
    """Parse a key of 32 bytes, or its hex with or without 0x. Raises ValueError, which never shows the key."""
    matched = _KEY.fullmatch(key.hex() if isinstance(key, bytes) else key)
    if matched is None:
        raise ValueError("a private key must be 32 bytes, or 64 hex digits")
    try:
        return PrivateKey(bytes.fromhex(matched[1]))
    except ValueError:
        raise ValueError("a private key must be between 1 and the order of the curve") from None
