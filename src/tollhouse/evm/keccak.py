"""Keccak-256, and the digest of a personal message."""

import tiny_keccak


def keccak256(message: bytes) -> bytes:
    """The Keccak-256 hash, 32 bytes: the original padding, not that of SHA3-256."""
    return tiny_keccak.keccak256(message)


def personal_digest(message: bytes) -> bytes:
    """The 32 bytes signed for a personal message (EIP-191): the prefix keeps it from being a transaction."""
    return keccak256(b"\x19Ethereum Signed Message:\n%d%b" % (len(message), message))
