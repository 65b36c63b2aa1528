"""USDC as seen from outside: the calls and logs of an ERC-20 token, whose units are micro-USD (6 decimals)."""

from msgspec import Struct

from tollhouse.evm.keccak import keccak256
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.errors import ChainRefused, ChainUnavailable
from tollhouse.payments.chain.replies import Log

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
    sender, recipient = (_address(topic) for topic in log.topics[1:])
    if sender is None or recipient is None:
        return None
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
    return selector + b"".join(_number(word).to_bytes(32) for word in words)


def _number(word: str | int) -> int:
    return int(word, 16) if isinstance(word, str) else word


def _address(topic: str) -> str | None:
    """The address in a topic's last 20 bytes; None where the first 12 are not empty."""
    return "0x" + topic[26:] if topic[2:26] == "0" * 24 else None
