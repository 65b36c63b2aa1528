"""A wallet that signs calls."""

import secrets

from tollhouse.evm import address_of, checksummed, parse_private_key, personal_digest, sign

NONCE_BYTES = 16


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
        return {
            "X-Agent-Address": self.address,
            "X-Agent-Nonce": nonce,
            "X-Agent-Signature": sign(self._key, digest),
        }
