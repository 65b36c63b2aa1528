"""Typed data (EIP-712) of a token transfer by authorization (EIP-3009), and of one by a Permit2 signature."""

from functools import lru_cache

from msgspec import Struct

from tollhouse.evm.address import ADDRESS_BYTES
from tollhouse.evm.keccak import keccak256

NONCE_BYTES = 32

PERMIT2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3"
"""The address of Permit2, which checks permits, on every chain that has it."""
UPTO_PROXY = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002"
"""The contract that payers of x402's scheme `upto` name as the spender: it lets only the facilitator that they signed
take the money."""

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


class Domain(Struct, frozen=True):
    """The token contract that a signature is valid for: name, version, chain and address."""

    name: str
    version: str
    chain_id: int
    verifying_contract: bytes

    def __post_init__(self) -> None:
        _check_address("verifying contract", self.verifying_contract)
        _check_number("chain id", self.chain_id)


class TransferWithAuthorization(Struct, frozen=True):
    """A transfer that anyone with its signature may execute, once, in a time window.

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


class PermitTransfer(Struct, frozen=True):
    """A transfer of at most `value` that `spender` may execute once, for the account `facilitator`, in a time window.

    Permit2's `permitWitnessTransferFrom` with the witness of x402's scheme `upto`. Fields have the names of
    TransferWithAuthorization where they mean the same; `valid_before` is the last second. Raises ValueError.
    """

    sender: bytes
    recipient: bytes
    value: int
    valid_after: int
    valid_before: int
    nonce: bytes
    token: bytes
    spender: bytes
    facilitator: bytes

    def __post_init__(self) -> None:
        for name in ("sender", "recipient", "token", "spender", "facilitator"):
            _check_address(name, getattr(self, name))
        for name in ("value", "valid_after", "valid_before"):
            _check_number(name, getattr(self, name))
        if len(self.nonce) != NONCE_BYTES:
            raise ValueError(f"the nonce must have {NONCE_BYTES} bytes, not {len(self.nonce)}")


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
