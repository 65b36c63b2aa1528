"""Replies of a node, parsed strictly, and the two ways a node can fail: no usable reply, or a refusal."""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from tollhouse.errors import Problem
from tollhouse.logs import logger

log = logger("payments.chain")

RETRY_SECONDS = 5
CIRCUIT_IS_OPEN = "the circuit is open"


class ChainUnavailable(Problem):
    """An `upstream-unavailable` problem: the node did not answer, or not as a node should.

    `failure` says what happened without naming the node's address, which may hold an operator's token.
    """

    def __init__(self, failure: str) -> None:
        super().__init__(
            "upstream-unavailable",
            "The chain's node does not answer as it should. Nothing was changed; try again shortly.",
            headers={"Retry-After": str(RETRY_SECONDS)},
            upstream="chain",
            retry_after_seconds=RETRY_SECONDS,
        )
        self.failure = failure
        # What opened the circuit was told; each call that then goes without would only repeat it.
        if failure != CIRCUIT_IS_OPEN:
            log.warning("chain unavailable", failure=failure)


class ChainRefused(Exception):
    """The node understood and said no: a call that reverts, a transaction it will not take.

    `code` and `message` are the node's own; `data` is what a reverted call returned. None is fit for a stranger.
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
    """One event of a contract. Hashes and addresses are lower-case; `index` is its place in the block."""

    address: str
    topics: tuple[str, ...]
    data: bytes
    index: int
    tx_hash: str
    block_number: int
    block_hash: str


class Receipt(Struct, frozen=True):
    """What became of a transaction in the block that holds it. Its logs are those of this transaction only."""

    tx_hash: str
    block_number: int
    block_hash: str
    is_success: bool
    logs: tuple[Log, ...]
    gas_used: int
    effective_gas_price: int


class Transaction(Struct, frozen=True):
    """A transaction the node knows; `block_number` is None while it waits to be mined."""

    hash: str
    sender: str
    to: str | None
    nonce: int
    block_number: int | None


class Block(Struct, frozen=True):
    """A block's head. `timestamp` is in seconds since 1970, `base_fee` in wei for each gas."""

    number: int
    hash: str
    parent_hash: str
    timestamp: int
    base_fee: int


class FeeHistory(Struct, frozen=True):
    """`base_fees` has one more than the blocks asked for: the next block's. `rewards` are tips, a row a block."""

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


class _Transaction(Struct, frozen=True, rename={"sender": "from", "block_number": "blockNumber"}):
    hash: Hash
    sender: HexAddress
    nonce: Quantity
    to: HexAddress | None = None
    block_number: Quantity | None = None


class _Block(Struct, frozen=True, rename="camel"):
    number: Quantity
    hash: Hash
    parent_hash: Hash
    timestamp: Quantity
    base_fee_per_gas: Quantity = "0x0"


class _FeeHistory(Struct, frozen=True, rename="camel"):
    base_fee_per_gas: list[Quantity]
    reward: list[list[Quantity]] | None = None


def quantity(answer: Raw) -> int:
    """A number."""
    return int(_decoded(answer, Quantity), 16)


def tx_hash(answer: Raw) -> str:
    """The hash of a transaction, lower-case."""
    found: str = _decoded(answer, Hash)
    return found.lower()


def hex_bytes(answer: Raw) -> bytes:
    """Bytes: what a call returned, or the code of a contract."""
    return _bytes(_decoded(answer, Hex))


def receipt(answer: Raw, asked: str) -> Receipt | None:
    """The receipt of the transaction that was asked about; None where the node has none."""
    found: _Receipt | None = _decoded(answer, _Receipt | None)
    if found is None:
        return None
    made = Receipt(
        found.transaction_hash.lower(),
        int(found.block_number, 16),
        found.block_hash.lower(),
        _status(found.status),
        tuple(_log(log) for log in found.logs),
        int(found.gas_used, 16),
        int(found.effective_gas_price, 16),
    )
    if made.tx_hash != asked or not _is_consistent(made):
        raise ChainUnavailable("a receipt that contradicts itself or the question")
    return made


def transaction(answer: Raw, asked: str) -> Transaction | None:
    """The transaction that was asked about; None where the node does not know it."""
    found: _Transaction | None = _decoded(answer, _Transaction | None)
    if found is None:
        return None
    if found.hash.lower() != asked:
        raise ChainUnavailable("a transaction that was not asked for")
    return Transaction(
        asked,
        found.sender.lower(),
        found.to.lower() if found.to else None,
        int(found.nonce, 16),
        int(found.block_number, 16) if found.block_number else None,
    )


def block(answer: Raw, asked: int | str) -> Block | None:
    """The block of the number, hash or name that was asked about; None where the node has none."""
    found: _Block | None = _decoded(answer, _Block | None)
    if found is None:
        return None
    made = Block(
        int(found.number, 16),
        found.hash.lower(),
        found.parent_hash.lower(),
        int(found.timestamp, 16),
        int(found.base_fee_per_gas, 16),
    )
    if (isinstance(asked, int) and made.number != asked) or (str(asked).startswith("0x") and made.hash != asked):
        raise ChainUnavailable("a block that was not asked for")
    return made


def logs(answer: Raw) -> list[Log]:
    """Logs in the order of the node, without those it says a reorganisation removed."""
    found: list[_Log] = _decoded(answer, list[_Log])
    return [_log(log) for log in found if not log.removed]


def fee_history(answer: Raw) -> FeeHistory:
    """What gas cost in the last blocks."""
    found: _FeeHistory = _decoded(answer, _FeeHistory)
    rewards = tuple(tuple(int(tip, 16) for tip in row) for row in found.reward or ())
    return FeeHistory(tuple(int(fee, 16) for fee in found.base_fee_per_gas), rewards)


def _decoded(answer: Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        failure = "an answer of another shape than asked for"
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
    """Whether every log is of this transaction and block, each with a place of its own."""
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
