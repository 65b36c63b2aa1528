"""A wallet that signs calls: its private key, and the three headers of each call."""

import re
import secrets

from coincurve import PrivateKey

from tollhouse.evm.address import checksummed
from tollhouse.evm.keccak import personal_digest
from tollhouse.evm.signature import address_of

NONCE_BYTES = 16

_KEY = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")


class Agent:
    """One wallet. `prefix` is the word before the path in the signed message; the server's settings may change it."""

    def __init__(self, private_key: str | bytes, prefix: str = "service") -> None:
        """Take the key as 32 bytes or as hex, with or without 0x. Raises ValueError, which never shows the key."""
        self._key = private_key_of(private_key)
        self._prefix = prefix
        self.address = checksummed(address_of(self._key.public_key))

    def __repr__(self) -> str:
        return f"Agent({self.address})"

    def headers(self, path: str) -> dict[str, str]:
        """What to send with one call of this path, such as `/feeds/defense-brief`; the next call needs others.

        The path is the service's own, without the prefix it is mounted under. A query string may be signed too: then
        it must be, byte for byte, the one that is sent. Raises ValueError when the path does not begin with a slash.
        """
        if not path.startswith("/"):
            raise ValueError("sign the path of the call, beginning with a slash")
        nonce = secrets.token_hex(NONCE_BYTES)
        digest = personal_digest(f"{self._prefix}:{path}:{nonce}".encode())
        signature = self._key.sign_recoverable(digest, hasher=None)
        return {
            "X-Agent-Address": self.address,
            "X-Agent-Nonce": nonce,
            "X-Agent-Signature": f"0x{signature[:64].hex()}{signature[64] + 27:02x}",
        }


def private_key_of(given: str | bytes) -> PrivateKey:
    """A key of 32 bytes, or its hex with or without 0x. Raises ValueError, which never shows the key."""
    matched = _KEY.fullmatch(given.hex() if isinstance(given, bytes) else given)
    if matched is None:
        raise ValueError("a private key is 32 bytes, or 64 hexadecimal digits")
    try:
        return PrivateKey(bytes.fromhex(matched[1]))
    except ValueError:
        raise ValueError("a private key lies between 1 and the order of the curve") from None
