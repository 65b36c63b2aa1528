"""The outcome of a payment on the chain, where no receipt of its own shows it."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.contracts import WORD, CallResult
from tollhouse.payments.chain.replies import Block, ChainRefused, ChainUnavailable, Log
from tollhouse.payments.x402.types import Failed, InvalidReason, Payment, Requirement, Settled, Unknown
from tollhouse.payments.x402.verification import proves_payment, scheme_of

# Six blocks of Base: a reorganisation of the newest blocks does not make an expired authorization valid again.
EXPIRED_MARGIN_SECONDS = 12
BLOCKS_PER_QUERY = 1_000
BLOCKS_BEFORE = 32
"""How many blocks before the claim are searched too: the nodes of one provider differ in height."""


class Pending(Struct, frozen=True):
    """The authorization is unused and may still be settled."""


class Unrecoverable(Struct, frozen=True):
    """It was not settled, and can never be."""

    reason: str


SettlementOutcome = Settled | Unrecoverable | Unknown | Pending

HasSent = Callable[[Payment, Requirement, str], Awaitable[bool | None]]
"""Whether a transaction that used the payment's authorization was sent for us; None if that is not known yet."""


async def settlement_outcome(
    chain: ChainClient, payment: Payment, requirement: Requirement, since_block: int, has_sent: HasSent
) -> SettlementOutcome:
    """The outcome of a payment that was unused at `since_block`. Raises ChainUnavailable, and what `has_sent` raises.

    A used nonce alone proves nothing: the payer may have cancelled it, or used it for another transfer. Nor does the
    right transfer: another server, or the payer, may have sent it for something else.
    """
    head = await chain.block(LATEST)
    if head is None:
        raise ChainUnavailable("the node has no newest block")
    is_expired = head.timestamp >= payment.authorization.valid_before + EXPIRED_MARGIN_SECONDS
    if await _is_used(chain, payment, requirement, head):
        outcome = await _find_use(chain, payment, requirement, max(0, since_block - BLOCKS_BEFORE), head.number)
        if outcome is None:
            # Its log is missing only on this node, or there is none. The provider's nodes agree by the time it expires.
            is_lost = is_expired and not scheme_of(payment).logs_every_use
            return Unrecoverable(InvalidReason.NONCE_USED) if is_lost else Unknown()
        if not isinstance(outcome, Settled):
            return outcome
        is_ours = await has_sent(payment, requirement, outcome.tx_hash)
        if is_ours is None:
            return Unknown(outcome.tx_hash)
        return outcome if is_ours else Unrecoverable(InvalidReason.NONCE_USED)
    if is_expired:
        return Unrecoverable(InvalidReason.VALID_BEFORE)
    return Pending()


async def _is_used(chain: ChainClient, payment: Payment, requirement: Requirement, head: Block) -> bool:
    use = scheme_of(payment).nonce_use(payment, requirement)
    try:
        state = await chain.call(use.call.to, use.call.data, at=head.number)
    except ChainRefused:
        state = b""
    return use.is_in(CallResult(is_success=len(state) == WORD, return_data=state))


async def _find_use(
    chain: ChainClient, payment: Payment, requirement: Requirement, first: int, last: int
) -> SettlementOutcome | None:
    """The outcome that the logs of these blocks show; None if they show none."""
    for start in range(first, last + 1, BLOCKS_PER_QUERY):
        end = min(start + BLOCKS_PER_QUERY - 1, last)
        for address, topics in scheme_of(payment).use_filters(payment, requirement):
            for log in await chain.logs(address, topics, start, end):
                outcome = await _classify_use(chain, payment, requirement, log)
                if outcome is not None:
                    return outcome
    return None


async def _classify_use(
    chain: ChainClient, payment: Payment, requirement: Requirement, log: Log
) -> SettlementOutcome | None:
    """The outcome, if the log is of this authorization's use."""
    scheme, data = scheme_of(payment), b""
    if not scheme.logs_every_use:
        transaction = await chain.transaction(log.tx_hash)
        if transaction is None:
            return Unknown(log.tx_hash)
        data = transaction.data
    use = scheme.use(log, data, payment)
    if use is None:
        return None
    if use == "given_up":
        return Unrecoverable(InvalidReason.NONCE_USED)
    receipt = await chain.receipt(log.tx_hash)
    if receipt is None or receipt.block_hash != log.block_hash:
        return Unknown(log.tx_hash)
    if not proves_payment(receipt, payment, requirement):
        return Unrecoverable(InvalidReason.NONCE_USED)
    return Settled(receipt.tx_hash, payment.payer, receipt.block_number, receipt)


SEARCHED_BLOCKS = 5_000
"""Nearly three hours of Base. Beyond that, a used nonce cannot be distinguished from a cancelled one."""
RETRY_SECONDS = 0.25


async def recent_outcome(
    chain: ChainClient, payment: Payment, requirement: Requirement, has_sent: HasSent
) -> SettlementOutcome:
    """The outcome, from the newest blocks only. Raises as `settlement_outcome`."""
    newest = await chain.block_number()
    return await settlement_outcome(chain, payment, requirement, max(0, newest - SEARCHED_BLOCKS), has_sent)


async def wait_for_outcome(
    chain: ChainClient, payment: Payment, requirement: Requirement, seconds: float, has_sent: HasSent
) -> Settled | Failed | Unknown:
    """Query the chain until the outcome is known or time is up: then it is Unknown. Raises nothing."""
    deadline = clock.seconds() + seconds
    while True:
        try:
            outcome = await recent_outcome(chain, payment, requirement, has_sent)
        except Problem:  # the node or the storage
            outcome = Unknown()
        if isinstance(outcome, Settled):
            return outcome
        if isinstance(outcome, Unrecoverable):
            return Failed(outcome.reason)
        if clock.seconds() >= deadline:
            return outcome if isinstance(outcome, Unknown) else Unknown()
        await asyncio.sleep(RETRY_SECONDS)
