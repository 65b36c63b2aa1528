"""Recoverable secp256k1 signatures: the only accepted form, and the address of the signer."""

import re

from coincurve import PrivateKey, PublicKey
from msgspec import Struct

from tollhouse.evm.keccak import keccak256

ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141

_KEY = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")
_SIGNATURE = re.compile(r"(?:0[xX])?([0-9a-fA-F]{130})")
# Big-endian bytes of one length compare as the numbers do.
_ZERO = bytes(32)
_ORDER = ORDER.to_bytes(32, "big")
_HIGHEST_S = (ORDER // 2).to_bytes(32, "big")
_RECOVERY_IDS = {0: b"\0", 1: b"\1", 27: b"\0", 28: b"\1"}


class Signature(Struct, frozen=True):
    """r and s, 32 bytes each, then the recovery id 0 or 1. The form is unique for each signature."""

    compact: bytes


def parse_signature(text: str) -> Signature:
    """Parse `r || s || v` in hex, with or without 0x. Raises ValueError, with a reason that is safe to show.

    v is 0, 1, 27 or 28; r and s lie in 1..n-1; the upper half of s is refused, because anyone can derive such a second
    signature from the first (EIP-2).
    """
    matched = _SIGNATURE.fullmatch(text)
    if matched is None:
        raise ValueError("a signature must be 65 bytes in hex")
    raw = bytes.fromhex(matched[1])
    r, s, recovery_id = raw[:32], raw[32:64], _RECOVERY_IDS.get(raw[64])
    if recovery_id is None:
        raise ValueError("the signature's last byte must be 0, 1, 27 or 28")
    if not (_ZERO < r < _ORDER and _ZERO < s < _ORDER):
        raise ValueError("the signature's r and s must lie between 1 and the order of the curve")
    if s > _HIGHEST_S:
        raise ValueError("the signature's s must be in the lower half of the curve's order (EIP-2)")
    return Signature(r + s + recovery_id)


def recover(digest: bytes, signature: Signature) -> bytes:
    """The 20 bytes of the address that signed this digest of 32 bytes. Raises ValueError if there is none."""
    try:
        key = PublicKey.from_signature_and_message(signature.compact, digest, hasher=None)
    except ValueError:
        raise ValueError("the signature is invalid") from None
    return address_of(key)


def sign(key: PrivateKey, digest: bytes) -> str:
    """Sign a digest of 32 bytes: r, s and v (27 or 28) as 0x-prefixed hex."""
    signature = key.sign_recoverable(digest, hasher=None)
    return f"0x{signature[:64].hex()}{signature[64] + 27:02x}"


def parse_private_key(key: str | bytes) -> PrivateKey:
    """Parse a key of 32 bytes, or its hex with or without 0x. Raises ValueError, which never shows the key."""
    matched = _KEY.fullmatch(key.hex() if isinstance(key, bytes) else key)
    if matched is None:
        raise ValueError("a private key must be 32 bytes, or 64 hex digits")
    try:
        return PrivateKey(bytes.fromhex(matched[1]))
    except ValueError:
        raise ValueError("a private key must be between 1 and the order of the curve") from None


def address_of(key: PublicKey) -> bytes:
    """The 20 bytes of the address of a public key."""
    return keccak256(key.format(compressed=False)[1:])[12:]
