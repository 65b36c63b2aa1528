"""Ethereum primitives: hashes, addresses, signatures, the two kinds of signed messages, and the RLP encoding."""

import re
from collections.abc import Sequence
from functools import lru_cache

import tiny_keccak
from coincurve import PrivateKey, PublicKey
from msgspec import Struct

ADDRESS_BYTES = 20

_ADDRESS = re.compile(r"0[xX]([0-9a-fA-F]{40})")

ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141

_KEY = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")
_SIGNATURE = re.compile(r"(?:0[xX])?([0-9a-fA-F]{130})")
# Big-endian bytes of one length compare as the numbers do.
_ZERO = bytes(32)
_ORDER = ORDER.to_bytes(32, "big")
_HIGHEST_S = (ORDER // 2).to_bytes(32, "big")
_RECOVERY_IDS = {0: b"\0", 1: b"\1", 27: b"\0", 28: b"\1"}

NONCE_BYTES = 32

PERMIT2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3"
"""The address of Permit2, which checks permits, on every chain that has it."""
UPTO_PROXY = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002"
"""The contract that payers of x402's scheme `upto` name as the spender: it lets only the facilitator that they signed
take the money."""


def keccak256(message: bytes) -> bytes:
    """The Keccak-256 hash, 32 bytes: the original padding, not that of SHA3-256."""
    return tiny_keccak.keccak256(message)


_DOMAIN_TYPE = keccak256(b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_TRANSFER_TYPE = keccak256(
    b"TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,"
    b"bytes32 nonce)"
)
_PERMISSIONS_TYPE = keccak256(b"TokenPermissions(address token,uint256 amount)")
_WITNESS_TYPE = keccak256(b"Witness(address to,address facilitator,uint256 validAfter)")
_PERMIT_TYPE = keccak256(
    b"PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,"
    b"Witness witness)TokenPermissions(address token,uint256 amount)"
    b"Witness(address to,address facilitator,uint256 validAfter)"
)
_PERMIT_DOMAIN_TYPE = keccak256(b"EIP712Domain(string name,uint256 chainId,address verifyingContract)")
_PERMIT2 = bytes.fromhex(PERMIT2[2:]).rjust(32, b"\0")
_UINT256_END = 1 << 256
_ADDRESS_PADDING = bytes(32 - ADDRESS_BYTES)


def personal_digest(message: bytes) -> bytes:
    """The 32 bytes signed for a personal message (EIP-191): the prefix keeps it from being a transaction."""
    return keccak256(b"\x19Ethereum Signed Message:\n%d%b" % (len(message), message))


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


class Domain(Struct, frozen=True):
    """The token contract that a signature is valid for: name, version, chain and address."""

    name: str
    version: str
    chain_id: int
    verifying_contract: bytes

    def __post_init__(self) -> None:
        _check_address("verifying contract", self.verifying_contract)
        _check_number("chain id", self.chain_id)


class _Authorization(Struct, frozen=True):
    """What both kinds of transfers say.

    `value` is in the token's smallest unit, `valid_after` and `valid_before` are seconds since 1970, addresses are 20
    bytes and the nonce 32. Raises ValueError for other values.
    """

    sender: bytes
    recipient: bytes
    value: int
    valid_after: int
    valid_before: int
    nonce: bytes

    def __post_init__(self) -> None:
        _check_address("sender", self.sender)
        _check_address("recipient", self.recipient)
        for name in ("value", "valid_after", "valid_before"):
            _check_number(name, getattr(self, name))
        if len(self.nonce) != NONCE_BYTES:
            raise ValueError(f"the nonce must have {NONCE_BYTES} bytes, not {len(self.nonce)}")


class TransferWithAuthorization(_Authorization, frozen=True):
    """A transfer that anyone with its signature may execute, once, in a time window."""


class PermitTransfer(_Authorization, frozen=True):
    """A transfer of at most `value` that `spender` may execute once, for the account `facilitator`, in a time window.

    Permit2's `permitWitnessTransferFrom` with the witness of x402's scheme `upto`; `valid_before` is the last second.
    """

    token: bytes
    spender: bytes
    facilitator: bytes

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("token", "spender", "facilitator"):
            _check_address(name, getattr(self, name))


@lru_cache(maxsize=64)
def domain_separator(domain: Domain) -> bytes:
    """The hash of a domain: 32 bytes, the same for every transfer of a token."""
    return keccak256(
        _DOMAIN_TYPE
        + keccak256(domain.name.encode())
        + keccak256(domain.version.encode())
        + _number(domain.chain_id)
        + _address(domain.verifying_contract)
    )


def transfer_digest(domain: Domain, transfer: TransferWithAuthorization) -> bytes:
    """The 32 bytes that the sender signs."""
    struct = keccak256(
        _TRANSFER_TYPE
        + _address(transfer.sender)
        + _address(transfer.recipient)
        + _number(transfer.value)
        + _number(transfer.valid_after)
        + _number(transfer.valid_before)
        + transfer.nonce
    )
    return keccak256(b"\x19\x01" + domain_separator(domain) + struct)


def permit_digest(chain_id: int, permit: PermitTransfer) -> bytes:
    """The 32 bytes that the sender signs, for Permit2 on that chain."""
    permitted = keccak256(_PERMISSIONS_TYPE + _address(permit.token) + _number(permit.value))
    witness = keccak256(
        _WITNESS_TYPE + _address(permit.recipient) + _address(permit.facilitator) + _number(permit.valid_after)
    )
    struct = keccak256(
        _PERMIT_TYPE + permitted + _address(permit.spender) + permit.nonce + _number(permit.valid_before) + witness
    )
    domain = keccak256(_PERMIT_DOMAIN_TYPE + keccak256(b"Permit2") + _number(chain_id) + _PERMIT2)
    return keccak256(b"\x19\x01" + domain + struct)


RlpItem = bytes | int | Sequence["RlpItem"]


def rlp(item: RlpItem) -> bytes:
    """Encode in Recursive Length Prefix (Ethereum yellow paper, appendix B): bytes, numbers and lists of both."""
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


def _address(raw: bytes) -> bytes:
    return _ADDRESS_PADDING + raw


def _number(value: int) -> bytes:
    return value.to_bytes(32, "big")


def _check_address(name: str, raw: bytes) -> None:
    if len(raw) != ADDRESS_BYTES:
        raise ValueError(f"the {name} must have {ADDRESS_BYTES} bytes, not {len(raw)}")


def _check_number(name: str, value: int) -> None:
    if not 0 <= value < _UINT256_END:
        raise ValueError(f"{name} must be between 0 and 2^256-1")
