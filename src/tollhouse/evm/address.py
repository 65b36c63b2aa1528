"""Ethereum addresses: 20 bytes, and text whose letter case is a checksum (EIP-55)."""

import re
from functools import lru_cache

from msgspec import Struct

from tollhouse.evm.keccak import keccak256

ADDRESS_BYTES = 20

_ADDRESS = re.compile(r"0[xX]([0-9a-fA-F]{40})")


class Address(Struct, frozen=True):
    """An address as bytes, to compare, and as checksummed text, to show."""

    raw: bytes
    text: str


@lru_cache(maxsize=8192)
def parse_address(text: str) -> Address:
    """Parse an address. Raises ValueError, with a reason that is safe to show.

    Letters all lower or all upper case carry no checksum; mixed case must match it (EIP-55).
    """
    matched = _ADDRESS.fullmatch(text)
    if matched is None:
        raise ValueError("an address must be 0x and 40 hex digits")
    digits = matched[1]
    address = _address_of(bytes.fromhex(digits))
    if not (digits.islower() or digits.isupper() or digits.isdigit()) and digits != address.text[2:]:
        raise ValueError("the address has an invalid checksum (EIP-55): a character or the case of a letter is wrong")
    return address


def checksummed(raw: bytes) -> str:
    """The checksummed text of an address. Raises ValueError unless it has 20 bytes."""
    return _address_of(raw).text


def _address_of(raw: bytes) -> Address:
    if len(raw) != ADDRESS_BYTES:
        raise ValueError(f"an address must have {ADDRESS_BYTES} bytes, not {len(raw)}")
    digits = raw.hex()
    digest = keccak256(digits.encode()).hex()
    cased = [digit.upper() if nibble >= "8" else digit for digit, nibble in zip(digits, digest, strict=False)]
    return Address(raw, "0x" + "".join(cased))
