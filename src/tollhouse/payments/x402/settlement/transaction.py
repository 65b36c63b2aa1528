"""EIP-1559 transactions: fees, RLP encoding, and the wallet that signs."""

from collections.abc import Sequence
from statistics import median_low

from msgspec import Struct

from tollhouse.evm.address import checksummed
from tollhouse.evm.keccak import keccak256
from tollhouse.evm.signature import address_of, parse_private_key
from tollhouse.payments.chain.replies import FeeHistory

Item = bytes | int | Sequence["Item"]


def rlp(item: Item) -> bytes:
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


_KIND = b"\x02"


class Fees(Struct, frozen=True):
    """Fees per gas in wei: at most `max_fee` in all, of which at most `tip` for the block producer."""

    max_fee: int
    tip: int


class TransactionRequest(Struct, frozen=True):
    """What a transaction does: call `to` with `data`, with at most `gas`. It transfers no ether."""

    to: str
    data: bytes
    gas: int


class Signed(Struct, frozen=True):
    """A signed transaction. `hash` is lower-case text."""

    hash: str
    raw: bytes


class Wallet:
    """The facilitator's account. Its key is never shown, neither in text nor in an error."""

    __slots__ = ("_key", "address")

    def __init__(self, private_key: str) -> None:
        """Take the key as hex, with or without 0x. Raises ValueError, which never shows the key."""
        self._key = parse_private_key(private_key)
        self.address = checksummed(address_of(self._key.public_key))

    def __repr__(self) -> str:
        return f"Wallet({self.address})"

    def sign(self, chain_id: int, nonce: int, fees: Fees, request: TransactionRequest) -> Signed:
        """Sign the request as a transaction of this account with that nonce."""
        to, value, access_list = bytes.fromhex(request.to[2:]), 0, ()
        fields: list[Item] = [
            *(chain_id, nonce, fees.tip, fees.max_fee, request.gas),
            *(to, value, request.data, access_list),
        ]
        made = self._key.sign_recoverable(keccak256(_KIND + rlp(fields)), hasher=None)
        r, s, parity = int.from_bytes(made[:32]), int.from_bytes(made[32:64]), made[64]
        raw = _KIND + rlp([*fields, parity, r, s])
        return Signed("0x" + keccak256(raw).hex(), raw)


FEE_HISTORY_BLOCKS = 5
PERCENTILE = 50.0
MIN_TIP = 1_000_000
"""A thousandth of a gwei: the minimum of Base's sequencer."""
MAX_TIP = 100_000_000
"""A tenth of a gwei, a hundred times as much. A tip decides who goes first, and a payment need not: neither a crowd
that outbids itself nor a node that errs may drain the account. What blocks pass by is offered again for more anyway."""

MAX_QUOTE_FACTOR = 20


def fee_quote(history: FeeHistory) -> Fees:
    """Twice the next block's base fee, enough for six full blocks, and the usual tip within its bounds.

    Where gas itself costs more than the maximum tip, the tip may be as high as the base fee.
    """
    base_fee = history.base_fees[-1]
    tips = [row[0] for row in history.rewards if row]
    usual = median_low(tips) if tips else 0
    tip = min(max(MIN_TIP, usual), max(MAX_TIP, base_fee))
    return Fees(2 * base_fee + tip, tip)


def bump_fees(fees: Fees) -> Fees:
    """An eighth more of both, rounded up: nodes require a tenth more before they replace a transaction."""
    return Fees(fees.max_fee * 9 // 8 + 1, fees.tip * 9 // 8 + 1)


def replacement_fees(old: Fees, quote: Fees) -> Fees | None:
    """The fees of a replacement; None if they would be absurdly higher than the current quote."""
    more = bump_fees(old)
    offered = Fees(max(more.max_fee, quote.max_fee), max(more.tip, quote.tip))
    return offered if offered.max_fee <= MAX_QUOTE_FACTOR * quote.max_fee else None
