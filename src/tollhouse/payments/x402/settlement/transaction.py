"""A transaction of the chain's current kind (EIP-1559), and the one key that signs ours."""

from coincurve import PrivateKey
from msgspec import Struct

from tollhouse.evm.address import checksummed
from tollhouse.evm.keccak import keccak256
from tollhouse.evm.signature import ORDER, address_of
from tollhouse.payments.x402.settlement.rlp import Item, rlp

_KIND = b"\x02"
_NO_VALUE = 0
_NO_ACCESS_LIST: tuple[Item, ...] = ()


class Fees(Struct, frozen=True):
    """What is offered for each gas, in wei: never more than `max_fee` in all, of which `tip` at most goes on top."""

    max_fee: int
    tip: int


class Errand(Struct, frozen=True):
    """What a transaction does: call `to` with `data`, using `gas` at most. It carries none of the chain's coin."""

    to: str
    data: bytes
    gas: int


class Signed(Struct, frozen=True):
    """A transaction ready to be sent. `hash` is lower-case text."""

    hash: str
    raw: bytes


class Wallet:
    """The facilitator's own account. Its key never leaves it, neither in text nor in an error."""

    __slots__ = ("_key", "address")

    def __init__(self, private_key: str) -> None:
        """Raises ValueError, which tells nothing of the key, unless it is 32 bytes in hexadecimal, with 0x or without.

        Checked by hand, because an error of a library would show what it was given.
        """
        try:
            secret = bytes.fromhex(private_key.removeprefix("0x"))
        except ValueError:
            secret = b""
        if len(secret) != 32 or not 0 < int.from_bytes(secret) < ORDER:
            raise ValueError("a private key is 64 hexadecimal digits, and not every number is one") from None
        self._key = PrivateKey(secret)
        self.address = checksummed(address_of(self._key.public_key))

    def __repr__(self) -> str:
        return f"Wallet({self.address})"

    def sign(self, chain_id: int, nonce: int, fees: Fees, errand: Errand) -> Signed:
        """The errand as this account's transaction of that nonce."""
        fields: list[Item] = [
            chain_id,
            nonce,
            fees.tip,
            fees.max_fee,
            errand.gas,
            bytes.fromhex(errand.to[2:]),
            _NO_VALUE,
            errand.data,
            _NO_ACCESS_LIST,
        ]
        made = self._key.sign_recoverable(keccak256(_KIND + rlp(fields)), hasher=None)
        r, s, parity = int.from_bytes(made[:32]), int.from_bytes(made[32:64]), made[64]
        raw = _KIND + rlp([*fields, parity, r, s])
        return Signed("0x" + keccak256(raw).hex(), raw)
