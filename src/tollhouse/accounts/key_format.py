"""What an API key looks like: `th_live_`, 160 random bits in base62, a checksum that catches typing errors."""

import hmac
import secrets
import zlib
from hashlib import sha256

PREFIX = "th_live_"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_BYTES = 20
_RANDOM_CHARACTERS = 27  # 62 ** 27 > 2 ** 160
_CHECKSUM_CHARACTERS = 6  # 62 ** 6 > 2 ** 32
_LENGTH = len(PREFIX) + _RANDOM_CHARACTERS + _CHECKSUM_CHARACTERS


def new_key() -> str:
    """A key nobody has had before."""
    random = _base62(int.from_bytes(secrets.token_bytes(_RANDOM_BYTES), "big"), _RANDOM_CHARACTERS)
    return PREFIX + random + _checksum(random)


def is_well_formed(key: str) -> bool:
    """Whether prefix, length and checksum are right: nothing about whether the key was ever issued."""
    if len(key) != _LENGTH or not key.startswith(PREFIX) or not key.isascii():
        return False
    random, checksum = key[len(PREFIX) : -_CHECKSUM_CHARACTERS], key[-_CHECKSUM_CHARACTERS:]
    return _checksum(random) == checksum


def key_hash(key: str, secret: bytes) -> bytes:
    """What is stored instead of the key: HMAC-SHA256 under the server's secret."""
    return hmac.digest(secret, key.encode(), sha256)


def _checksum(random: str) -> str:
    return _base62(zlib.crc32(random.encode()), _CHECKSUM_CHARACTERS)


def _base62(number: int, width: int) -> str:
    digits = []
    while number:
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits)).rjust(width, _ALPHABET[0])
