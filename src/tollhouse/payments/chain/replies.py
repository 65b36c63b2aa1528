"""Replies of a node, parsed strictly, and the two ways a node can fail: no usable reply, or a refusal."""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from tollhouse.errors import Problem
from tollhouse.logs import logger

log = logger("payments.chain")

RETRY_SECONDS = 5
CIRCUIT_IS_OPEN = "the circuit breaker is open"


class ChainUnavailable(Problem):
    """An `upstream-unavailable` problem: no usable reply from the node.

    `failure` says what happened. It never names the node's URL, which may hold a token.
    """

    def __init__(self, failure: str) -> None:
        super().__init__(
            "upstream-unavailable",
            "The chain's node is unavailable. Nothing was changed. Try again shortly.",
            upstream="chain",
            retry_after_seconds=RETRY_SECONDS,
        )
        self.failure = failure
        # The failures that opened the circuit breaker were logged.
        if failure != CIRCUIT_IS_OPEN:
            log.warning("chain unavailable", failure=failure)


class ChainRefused(Exception):
    """The node refused: a call that reverts, or a transaction it does not accept.

    `code` and `message` are the node's own; `data` is what a reverted call returned. Do not show them to callers.
    """

    def __init__(self, code: int, message: str, data: bytes = b"") -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


Hash = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{64}\Z")]
HexAddress = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{40}\Z")]
Quantity = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{1,64}\Z")]
Hex = Annotated[str, Meta(pattern=r"^0x([0-9a-fA-F]{2})*\Z")]

T = TypeVar("T")


class Log(Struct, frozen=True):
    """One event of a contract. Hashes and addresses are lower-case; `index` is its position in the block."""

    address: str
    topics: tuple[str, ...]
    data: bytes
    index: int
    tx_hash: str
    block_number: int
    block_hash: str


class Receipt(Struct, frozen=True):
    """The result of a mined transaction, with its own logs only. `layer1_fee` (wei) is a rollup's fee for its data."""

    tx_hash: str
    block_number: int
    block_hash: str
    is_success: bool
    logs: tuple[Log, ...]
    gas_used: int
    effective_gas_price: int
    layer1_fee: int = 0


class Transaction(Struct, frozen=True):
    """A transaction the node knows; `block_number` is None while it is pending, `data` is what it calls with."""

    hash: str
    sender: str
    to: str | None
    nonce: int
    block_number: int | None
    data: bytes = b""


class Block(Struct, frozen=True):
    """A block header. `timestamp` is in seconds since 1970, `base_fee` in wei per gas."""

    number: int
    hash: str
    parent_hash: str
    timestamp: int
    base_fee: int


class FeeHistory(Struct, frozen=True):
    """`base_fees` has one entry more than the blocks asked for: the next block's. `rewards` has a row per block."""

    base_fees: tuple[int, ...]
    rewards: tuple[tuple[int, ...], ...]


class _Log(Struct, frozen=True, rename="camel"):
    address: HexAddress
    topics: Annotated[list[Hash], Meta(max_length=4)]
    data: Hex
    log_index: Quantity
    transaction_hash: Hash
    block_number: Quantity
    block_hash: Hash
    removed: bool = False


class _Receipt(Struct, frozen=True, rename="camel"):
    transaction_hash: Hash
    block_number: Quantity
    block_hash: Hash
    status: Quantity
    logs: list[_Log]
    gas_used: Quantity
    effective_gas_price: Quantity = "0x0"
    l1_fee: Quantity | None = None


class _Transaction(Struct, frozen=True, rename={"sender": "from", "block_number": "blockNumber"}):
    hash: Hash
    sender: HexAddress
    nonce: Quantity
    to: HexAddress | None = None
    block_number: Quantity | None = None
    input: Hex = "0x"


class _Block(Struct, frozen=True, rename="camel"):
    number: Quantity
    hash: Hash
    parent_hash: Hash
    timestamp: Quantity
    base_fee_per_gas: Quantity = "0x0"


class _FeeHistory(Struct, frozen=True, rename="camel"):
    base_fee_per_gas: list[Quantity]
    reward: list[list[Quantity]] | None = None


def quantity(reply: Raw) -> int:
    """Decode a number."""
    return int(_decode(reply, Quantity), 16)


def tx_hash(reply: Raw) -> str:
    """Decode a transaction hash, lower-case."""
    decoded: str = _decode(reply, Hash)
    return decoded.lower()


def hex_bytes(reply: Raw) -> bytes:
    """Decode bytes: return data, or the code of a contract."""
    return _bytes(_decode(reply, Hex))


def receipt(reply: Raw, requested: str) -> Receipt | None:
    """Decode the receipt of the requested transaction; None if the node has none."""
    decoded: _Receipt | None = _decode(reply, _Receipt | None)
    if decoded is None:
        return None
    parsed = Receipt(
        decoded.transaction_hash.lower(),
        int(decoded.block_number, 16),
        decoded.block_hash.lower(),
        _status(decoded.status),
        tuple(_log(log) for log in decoded.logs),
        int(decoded.gas_used, 16),
        int(decoded.effective_gas_price, 16),
        int(decoded.l1_fee or "0x0", 16),
    )
    if parsed.tx_hash != requested or not _is_consistent(parsed):
        raise ChainUnavailable("an inconsistent receipt")
    return parsed


def transaction(reply: Raw, requested: str) -> Transaction | None:
    """Decode the requested transaction; None if the node does not know it."""
    decoded: _Transaction | None = _decode(reply, _Transaction | None)
    if decoded is None:
        return None
    if decoded.hash.lower() != requested:
        raise ChainUnavailable("another transaction than requested")
    return Transaction(
        requested,
        decoded.sender.lower(),
        decoded.to.lower() if decoded.to else None,
        int(decoded.nonce, 16),
        int(decoded.block_number, 16) if decoded.block_number else None,
        _bytes(decoded.input),
    )


def block(reply: Raw, requested: int | str) -> Block | None:
    """Decode the block of the requested number, hash or tag; None if the node has none."""
    decoded: _Block | None = _decode(reply, _Block | None)
    if decoded is None:
        return None
    parsed = Block(
        int(decoded.number, 16),
        decoded.hash.lower(),
        decoded.parent_hash.lower(),
        int(decoded.timestamp, 16),
        int(decoded.base_fee_per_gas, 16),
    )
    if (isinstance(requested, int) and parsed.number != requested) or (
        str(requested).startswith("0x") and parsed.hash != requested
    ):
        raise ChainUnavailable("another block than requested")
    return parsed


def logs(reply: Raw) -> list[Log]:
    """Decode logs in the node's order, without those that a reorganisation removed."""
    decoded: list[_Log] = _decode(reply, list[_Log])
    return [_log(log) for log in decoded if not log.removed]


def fee_history(reply: Raw) -> FeeHistory:
    """Decode the fees of the last blocks."""
    decoded: _FeeHistory = _decode(reply, _FeeHistory)
    rewards = tuple(tuple(int(tip, 16) for tip in row) for row in decoded.reward or ())
    return FeeHistory(tuple(int(fee, 16) for fee in decoded.base_fee_per_gas), rewards)


def _decode(reply: Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(reply, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        failure = "a reply of an unexpected shape"
    raise ChainUnavailable(failure)


def _log(log: _Log) -> Log:
    return Log(
        log.address.lower(),
        tuple(topic.lower() for topic in log.topics),
        _bytes(log.data),
        int(log.log_index, 16),
        log.transaction_hash.lower(),
        int(log.block_number, 16),
        log.block_hash.lower(),
    )


def _is_consistent(receipt: Receipt) -> bool:
    """Whether every log belongs to this transaction and block and has an index of its own."""
    place = (receipt.tx_hash, receipt.block_number, receipt.block_hash)
    indexes = [log.index for log in receipt.logs]
    is_of_here = all((log.tx_hash, log.block_number, log.block_hash) == place for log in receipt.logs)
    return is_of_here and indexes == sorted(set(indexes)) and (receipt.is_success or not receipt.logs)


def _status(text: str) -> bool:
    number = int(text, 16)
    if number not in {0, 1}:
        raise ChainUnavailable("a receipt with an unknown status")
    return number == 1


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])
