"""AEAD_CHACHA20_POLY1305 (RFC 8439) in plain Python: for secrets of some bytes, where speed does not matter."""

import hmac
from struct import pack, unpack

KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
_QUARTERS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
             (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))  # fmt: skip
_WORD = 0xFFFFFFFF
_PRIME = 2**130 - 5
_CLAMP = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF


class TamperedError(Exception):
    """The text was not encrypted with this key and associated data, or was changed since."""


def encrypt(key: bytes, nonce: bytes, plain: bytes, associated: bytes) -> bytes:
    """The encrypted text and its tag. Never use a nonce twice with the same key."""
    text = _xor(key, nonce, plain)
    return text + _tag(key, nonce, text, associated)


def decrypt(key: bytes, nonce: bytes, sealed: bytes, associated: bytes) -> bytes:
    """The plain text. Raises TamperedError."""
    text, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(key, nonce, text, associated)):
        raise TamperedError
    return _xor(key, nonce, text)


def _block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """64 bytes of the key stream (section 2.3)."""
    start = [*_CONSTANTS, *unpack("<8L", key), counter, *unpack("<3L", nonce)]
    state = list(start)
    for _ in range(10):
        for a, b, c, d in _QUARTERS:
            for first, second, third, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                state[first] = (state[first] + state[second]) & _WORD
                mixed = state[third] ^ state[first]
                state[third] = (mixed << bits | mixed >> (32 - bits)) & _WORD
    return pack("<16L", *((one + two) & _WORD for one, two in zip(state, start, strict=True)))


def _xor(key: bytes, nonce: bytes, text: bytes) -> bytes:
    blocks = range(1, len(text) // 64 + 2)
    stream = b"".join(_block(key, counter, nonce) for counter in blocks)
    return bytes(one ^ two for one, two in zip(text, stream, strict=False))


def _tag(key: bytes, nonce: bytes, text: bytes, associated: bytes) -> bytes:
    """Poly1305 over the associated data and the text, each padded, and their lengths (sections 2.5 and 2.8)."""
    once = _block(key, 0, nonce)
    r, s = int.from_bytes(once[:16], "little") & _CLAMP, int.from_bytes(once[16:32], "little")
    message = _padded(associated) + _padded(text) + pack("<QQ", len(associated), len(text))
    sum_ = 0
    for start in range(0, len(message), 16):
        sum_ = (sum_ + int.from_bytes(message[start : start + 16] + b"\x01", "little")) * r % _PRIME
    return (sum_ + s & (1 << 128) - 1).to_bytes(16, "little")


def _padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % 16)
