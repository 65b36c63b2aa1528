"""The outcome of a payment, read from the chain alone."""

import asyncio

from msgspec import Struct

from tollhouse import clock
from tollhouse.evm.keccak import keccak256
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.contracts import WORD, Movement, authorization_state, movement
from tollhouse.payments.chain.replies import Block, ChainRefused, ChainUnavailable, Log, Receipt
from tollhouse.payments.x402.types import Failed, InvalidReason, Payment, Requirement, Settled, Unknown

USED_TOPIC = "0x" + keccak256(b"AuthorizationUsed(address,bytes32)").hex()
CANCELLED_TOPIC = "0x" + keccak256(b"AuthorizationCanceled(address,bytes32)").hex()

# Six blocks of Base: a reorganisation of the newest blocks does not bring back the time before.
EXPIRED_MARGIN_SECONDS = 12
BLOCKS_ASKED_AT_ONCE = 1_000
BLOCKS_BEFORE = 32
"""How many blocks before the claim are searched too: nodes behind one address are not all at the same height."""


class Pending(Struct, frozen=True):
    """The authorization is unused and may still be carried out."""


class Unrecoverable(Struct, frozen=True):
    """It was not carried out, and nobody can carry it out any more."""

    reason: str


Fate = Settled | Unrecoverable | Unknown | Pending


async def fate(chain: ChainClient, payment: Payment, requirement: Requirement, since_block: int) -> Fate:
    """What became of a payment that was unused at `since_block`. Raises ChainUnavailable.

    A used nonce alone proves nothing: the payer may have cancelled it, or spent it on another transfer.
    """
    head = await chain.block(LATEST)
    if head is None:
        raise ChainUnavailable("a node without a newest block")
    if await _is_used(chain, payment, requirement, head):
        return await _how_used(chain, payment, requirement, max(0, since_block - BLOCKS_BEFORE), head.number)
    if head.timestamp >= payment.authorization.valid_before + EXPIRED_MARGIN_SECONDS:
        return Unrecoverable(InvalidReason.VALID_BEFORE)
    return Pending()


def proves(receipt: Receipt, payment: Payment, requirement: Requirement) -> bool:
    """Whether a transaction carried this payment out."""
    moved = carried_by(receipt, requirement.asset, payment.payer, payment.nonce)
    told = (requirement.pay_to.lower(), requirement.amount_micros)
    return receipt.is_success and moved is not None and (moved.recipient, moved.amount_micros) == told


def carried_by(receipt: Receipt, asset: str, payer: str, nonce: str) -> Movement | None:
    """The transfer for which a transaction used that authorization: the token logs the use right before it."""
    topics = _topics(USED_TOPIC, payer, nonce)
    for used, after in zip(receipt.logs, receipt.logs[1:], strict=False):
        if used.topics == topics and used.address == after.address == asset.lower():
            moved = movement(after)
            return moved if moved is not None and moved.sender == payer else None
    return None


async def _is_used(chain: ChainClient, payment: Payment, requirement: Requirement, head: Block) -> bool:
    paid = payment.authorization
    asked = authorization_state(paid.sender, paid.nonce)
    try:
        answer = await chain.call(requirement.asset, asked, at=head.number)
    except ChainRefused:
        answer = b""
    if len(answer) != WORD:
        raise ChainUnavailable("no token that knows authorizations is at the address")
    return any(answer)


async def _how_used(chain: ChainClient, payment: Payment, requirement: Requirement, first: int, last: int) -> Fate:
    for start in range(first, last + 1, BLOCKS_ASKED_AT_ONCE):
        end = min(start + BLOCKS_ASKED_AT_ONCE - 1, last)
        for topic in (USED_TOPIC, CANCELLED_TOPIC):
            logs = await chain.logs(requirement.asset, _topics(topic, payment.payer, payment.nonce), start, end)
            if logs:
                return await _told_by(chain, payment, requirement, logs[0])
    return Unknown()


async def _told_by(chain: ChainClient, payment: Payment, requirement: Requirement, log: Log) -> Fate:
    if log.topics[0] == CANCELLED_TOPIC:
        return Unrecoverable(InvalidReason.NONCE_USED)
    receipt = await chain.receipt(log.tx_hash)
    if receipt is None or receipt.block_hash != log.block_hash:
        return Unknown(log.tx_hash)
    if not proves(receipt, payment, requirement):
        return Unrecoverable(InvalidReason.NONCE_USED)
    return Settled(receipt.tx_hash, payment.payer, receipt.block_number, receipt)


def _topics(topic: str, payer: str, nonce: str) -> tuple[str, ...]:
    return topic, "0x" + payer[2:].zfill(2 * WORD), nonce


SEARCHED_BLOCKS = 5_000
"""Nearly three hours of Base. What was used before that is not told from what was cancelled."""
ASK_AGAIN_SECONDS = 0.25


async def fate_so_far(chain: ChainClient, payment: Payment, requirement: Requirement) -> Fate:
    """Settled whoever carried it out, impossible for ever, still open, or not to be told. Raises ChainUnavailable."""
    newest = await chain.block_number()
    return await fate(chain, payment, requirement, max(0, newest - SEARCHED_BLOCKS))


async def settled_within(
    chain: ChainClient, payment: Payment, requirement: Requirement, seconds: float
) -> Settled | Failed | Unknown:
    """Ask the chain until it tells, or time is up: then the outcome is unknown. Raises nothing."""
    deadline = clock.seconds() + seconds
    while True:
        try:
            found = await fate_so_far(chain, payment, requirement)
        except ChainUnavailable:
            found = Unknown()
        if isinstance(found, Settled):
            return found
        if isinstance(found, Unrecoverable):
            return Failed(found.reason)
        if clock.seconds() >= deadline:
            return found if isinstance(found, Unknown) else Unknown()
        await asyncio.sleep(ASK_AGAIN_SECONDS)
