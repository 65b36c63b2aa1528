"""Keccak-256, and the digest of a personal message."""

import tiny_keccak


def keccak256(message: bytes) -> bytes:
    """The 32 bytes of the hash."""
    return tiny_keccak.keccak256(message)


def personal_digest(message: bytes) -> bytes:
    """The 32 bytes that are signed: the prefix keeps a message from ever being a transaction."""
    return keccak256(b"\x19Ethereum Signed Message:\n%d%b" % (len(message), message))
