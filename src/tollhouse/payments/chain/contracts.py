"""ABI of the contracts used here: ERC-20 and EIP-3009 tokens, contract wallets (EIP-1271, EIP-6492), Multicall3."""

from collections.abc import Sequence

from msgspec import Struct

from tollhouse.evm.keccak import keccak256
from tollhouse.evm.signature import Signature
from tollhouse.evm.typed_data import TransferWithAuthorization
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.replies import ChainRefused, ChainUnavailable, Log

USDC_ON_BASE = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"

TRANSFER_TOPIC = "0x" + keccak256(b"Transfer(address,address,uint256)").hex()


class Movement(Struct, frozen=True):
    """One Transfer log: token units that went from one address to another (lower-case)."""

    token: str
    sender: str
    recipient: str
    amount_micros: int
    log: Log


def movement(log: Log) -> Movement | None:
    """The Transfer a log tells of; None where it is another event, or another shape (as an NFT's)."""
    if len(log.topics) != 3 or log.topics[0] != TRANSFER_TOPIC or len(log.data) != 32:
        return None
    if any(topic[2:26] != "0" * 24 for topic in log.topics[1:]):
        return None  # an address is in the last 20 of 32 bytes
    sender, recipient = ("0x" + topic[26:] for topic in log.topics[1:])
    return Movement(log.address, sender, recipient, int.from_bytes(log.data), log)


async def token_balance(chain: ChainClient, token: str, holder: str, at: int | str = LATEST) -> int:
    """How many units of a token somebody holds. Raises ChainUnavailable."""
    try:
        answer = await chain.call(token, call_data("balanceOf(address)", holder), at=at)
    except ChainRefused as refusal:
        raise ChainUnavailable(f"the token refused with {refusal.code}") from None
    if len(answer) != 32:
        raise ChainUnavailable("no token is at the address")
    return int.from_bytes(answer)


def call_data(signature: str, *words: str | int) -> bytes:
    """A call as a contract reads it: the function's selector, then each address or number in 32 bytes."""
    selector = keccak256(signature.encode())[:4]
    numbers = (int(word, 16) if isinstance(word, str) else word for word in words)
    return selector + b"".join(number.to_bytes(32) for number in numbers)


MULTICALL3 = "0xcA11bde05977b3631167028862bE2a173976CA11"
"""Where Multicall3 stands on every chain that has it."""

WORD = 32
_FIELDS = "address,address,uint256,uint256,uint256,bytes32"
_BY_KEY = keccak256(f"transferWithAuthorization({_FIELDS},uint8,bytes32,bytes32)".encode())[:4]
_BY_ANYBODY = keccak256(f"transferWithAuthorization({_FIELDS},bytes)".encode())[:4]
_AGGREGATE = keccak256(b"aggregate3((address,bool,bytes)[])")[:4]
_STATE = keccak256(b"authorizationState(address,bytes32)")[:4]
_ERROR = keccak256(b"Error(string)")[:4]
IS_VALID_SIGNATURE = keccak256(b"isValidSignature(bytes32,bytes)")[:4]
"""The function of EIP-1271, and what it answers for yes."""

# EIP-6492: what a signature ends with that also says how to make the wallet it is good for.
_WRAPPED = bytes.fromhex("6492") * 16


class Call(Struct, frozen=True):
    """One call of a contract: its address and the call's data."""

    to: str
    data: bytes


class Outcome(Struct, frozen=True):
    """What one call of several came to: what it returned or, where it reverted, why."""

    is_success: bool
    answer: bytes


class Wrapped(Struct, frozen=True):
    """A signature by a wallet that may not be there yet, and the call of the factory that makes it (EIP-6492)."""

    making: Call
    signature: bytes


def unwrapped(signature: bytes) -> Wrapped | None:
    """What an EIP-6492 signature holds; None for any other. Raises ValueError where it ends like one and is none."""
    if not signature.endswith(_WRAPPED):
        return None
    body = signature.removesuffix(_WRAPPED)
    factory = _word(body, 0).to_bytes(WORD)
    if any(factory[:12]):
        raise ValueError("the signature names no factory")
    making = Call("0x" + factory[12:].hex(), _bytes_at(body, _word(body, WORD)))
    return Wrapped(making, _bytes_at(body, _word(body, 2 * WORD)))


def transfer_by_key(authorization: TransferWithAuthorization, signature: Signature) -> bytes:
    """`transferWithAuthorization` with v, r and s: for a payer that is a key."""
    compact = signature.compact
    return _BY_KEY + _fields(authorization) + _number(27 + compact[64]) + compact[:64]


def transfer_by_anybody(authorization: TransferWithAuthorization, signature: bytes) -> bytes:
    """`transferWithAuthorization` with the signature's bytes: for a payer that may be a contract."""
    head = _fields(authorization)
    return _BY_ANYBODY + head + _number(len(head) + WORD) + _bytes(signature)


def is_valid_signature(digest: bytes, signature: bytes) -> bytes:
    """Ask a contract wallet whether it has signed (EIP-1271)."""
    return IS_VALID_SIGNATURE + digest + _number(2 * WORD) + _bytes(signature)


def authorization_state(sender: bytes, nonce: bytes) -> bytes:
    """Ask a token whether a nonce was used or cancelled."""
    return _STATE + _address(sender) + nonce


def balance_of(holder: bytes) -> bytes:
    """Ask a token how much somebody holds."""
    return call_data("balanceOf(address)", "0x" + holder.hex())


def aggregated(calls: Sequence[Call]) -> bytes:
    """Multicall3's `aggregate3`: many calls one after the other, each of which may fail without the others."""
    tuples = [_address(_raw(call.to)) + _number(1) + _number(3 * WORD) + _bytes(call.data) for call in calls]
    offsets, at = [], len(calls) * WORD
    for one in tuples:
        offsets.append(_number(at))
        at += len(one)
    return _AGGREGATE + _number(WORD) + _number(len(calls)) + b"".join(offsets) + b"".join(tuples)


def outcomes(answer: bytes, count: int) -> list[Outcome]:
    """What each of `count` aggregated calls came to. Raises ValueError for an answer of another shape."""
    array = answer[_word(answer, 0) :]
    if _word(array, 0) != count:
        raise ValueError("another number of answers than calls")
    elements = array[WORD:]
    return [_outcome(elements[_word(elements, number * WORD) :]) for number in range(count)]


def revert_text(answer: bytes) -> str:
    """What a contract said when it reverted; empty where it said nothing readable."""
    if not answer.startswith(_ERROR):
        return ""
    try:
        return _bytes_at(answer[4:], _word(answer[4:], 0)).decode()
    except ValueError:
        return ""


def _outcome(element: bytes) -> Outcome:
    return Outcome(_word(element, 0) == 1, _bytes_at(element, _word(element, WORD)))


def _fields(authorization: TransferWithAuthorization) -> bytes:
    told = authorization
    numbers = (told.value, told.valid_after, told.valid_before)
    return _address(told.sender) + _address(told.recipient) + b"".join(map(_number, numbers)) + told.nonce


def _bytes(value: bytes) -> bytes:
    return _number(len(value)) + value + bytes(-len(value) % WORD)


def _bytes_at(body: bytes, at: int) -> bytes:
    length = _word(body, at)
    value = body[at + WORD : at + WORD + length]
    if len(value) != length:
        raise ValueError("bytes that end too early")
    return value


def _word(body: bytes, at: int) -> int:
    word = body[at : at + WORD]
    if len(word) != WORD:
        raise ValueError("a word that ends too early")
    return int.from_bytes(word)


def _number(value: int) -> bytes:
    return value.to_bytes(WORD)


def _address(raw: bytes) -> bytes:
    return raw.rjust(WORD, b"\0")


def _raw(address: str) -> bytes:
    return bytes.fromhex(address[2:])
