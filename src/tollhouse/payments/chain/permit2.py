"""ABI of Permit2, and of the contract through which x402's scheme `upto` settles its transfers."""

from collections.abc import Iterator

from msgspec import Struct

from tollhouse.evm.address import parse_address
from tollhouse.evm.keccak import keccak256
from tollhouse.evm.typed_data import PERMIT2, UPTO_PROXY, PermitTransfer
from tollhouse.payments.chain.contracts import WORD, ContractCall, call_data
from tollhouse.payments.chain.replies import Log

_SETTLED_TOPICS = frozenset(("0x" + keccak256(event).hex(),) for event in (b"Settled()", b"SettledWithPermit()"))
"""The topics of the log that follows a transfer: the second where the same call had Permit2 approved."""
INVALIDATED_TOPIC = "0x" + keccak256(b"UnorderedNonceInvalidation(address,uint256,uint256)").hex()

_SETTLE = "settle(((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)"
_SETTLE_SELECTOR = keccak256(_SETTLE.encode())[:4]
_WORDS = 10
"""The words before the signature: permit (4), amount, owner, witness (3), and where the signature starts."""


class UptoSettlement(Struct, frozen=True):
    """What a call of `settle` orders: an amount in the token's smallest unit, by the owner's permit with that nonce.

    Owner and nonce are lower-case hexadecimal with 0x.
    """

    owner: str
    nonce: str
    amount: int


def settle_call(permit: PermitTransfer, amount: int, signature: bytes) -> ContractCall:
    """Take that amount of a permitted transfer. Only the permit's facilitator may send it."""
    head = call_data(
        _SETTLE,
        permit.token.hex(),
        permit.value,
        permit.nonce.hex(),
        permit.valid_before,
        amount,
        permit.sender.hex(),
        permit.recipient.hex(),
        permit.facilitator.hex(),
        permit.valid_after,
        _WORDS * WORD,
    )
    return ContractCall(UPTO_PROXY, head + len(signature).to_bytes(WORD) + signature + bytes(-len(signature) % WORD))


def settlements(data: bytes) -> Iterator[UptoSettlement]:
    """The calls of `settle` in a transaction's data, also inside of a call to another contract."""
    at = data.find(_SETTLE_SELECTOR)
    while at >= 0:
        words = [data[at + 4 + WORD * number :][:WORD] for number in range(_WORDS)]
        if len(words[-1]) == WORD:
            owner, nonce = "0x" + words[5][12:].hex(), "0x" + words[2].hex()
            yield UptoSettlement(owner, nonce, int.from_bytes(words[4]))
        at = data.find(_SETTLE_SELECTOR, at + 1)


def is_ordered(data: bytes, owner: str, nonce: str, amount: int | None = None) -> bool:
    """Whether a transaction's data calls `settle` for that owner and nonce; with `amount`, for exactly that much."""
    return any((one.owner, one.nonce) == (owner, nonce) and amount in {None, one.amount} for one in settlements(data))


def nonce_word_call(permit: PermitTransfer) -> ContractCall:
    """Ask for the word of the bitmap that holds the permit's nonce."""
    return ContractCall(PERMIT2, call_data("nonceBitmap(address,uint256)", permit.sender.hex(), _word_of(permit)))


def nonce_mask(permit: PermitTransfer) -> int:
    """The bit of that word that is set once the nonce was used or invalidated."""
    return 1 << permit.nonce[-1]


def is_invalidation(log: Log, permit: PermitTransfer) -> bool:
    """Whether the log says that the owner gave up the permit's nonce."""
    word, mask = int.from_bytes(log.data[:WORD]), int.from_bytes(log.data[WORD:])
    return log.topics[0] == INVALIDATED_TOPIC and word == _word_of(permit) and bool(mask & nonce_mask(permit))


def is_settled(log: Log) -> bool:
    """Whether the log says that the transfer before it settled a payment of scheme `upto`."""
    return log.address == UPTO_PROXY.lower() and log.topics in _SETTLED_TOPICS


def allowance_call(token: str, owner: bytes) -> ContractCall:
    """Ask a token how much Permit2 may take from the owner."""
    return ContractCall(token, call_data("allowance(address,address)", owner.hex(), PERMIT2))


def proxy_call() -> ContractCall:
    """Ask the settling contract for its Permit2: no answer means that the chain has no such contract."""
    return ContractCall(UPTO_PROXY, call_data("PERMIT2()"))


def is_proxy(return_data: bytes) -> bool:
    """Whether that was the answer of the settling contract."""
    return return_data == parse_address(PERMIT2).raw.rjust(WORD, b"\0")


def error_selector(signature: str) -> bytes:
    """The first four bytes of a revert with that error."""
    return keccak256(signature.encode())[:4]


def _word_of(permit: PermitTransfer) -> int:
    return int.from_bytes(permit.nonce[:-1])
