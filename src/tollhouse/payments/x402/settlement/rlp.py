"""Recursive Length Prefix: how transactions are written as bytes (Ethereum yellow paper, appendix B)."""

from collections.abc import Sequence

Item = bytes | int | Sequence["Item"]


def rlp(item: Item) -> bytes:
    """Bytes as they are, numbers as big-endian bytes without leading zeros, lists of both."""
    if isinstance(item, int):
        return rlp(item.to_bytes((item.bit_length() + 7) // 8))
    if isinstance(item, bytes):
        return item if len(item) == 1 and item[0] < 0x80 else _prefixed(0x80, item)
    return _prefixed(0xC0, b"".join(rlp(part) for part in item))


def _prefixed(kind: int, body: bytes) -> bytes:
    if len(body) < 56:
        return bytes([kind + len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8)
    return bytes([kind + 55 + len(length)]) + length + body
