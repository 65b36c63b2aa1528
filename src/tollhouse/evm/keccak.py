"""Keccak-256, the hash Ethereum uses: the original padding, not that of SHA3-256."""

import tiny_keccak


def keccak256(message: bytes) -> bytes:
    """The 32 bytes of the hash."""
    return tiny_keccak.keccak256(message)
