"""What the chain shows of a deposit: its confirmations, its transfers to the treasury, and whether the nodes agree."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from prometheus_client import Counter

from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient, Nodes
from tollhouse.payments.chain.contracts import USED_TOPIC, TokenTransfer, address_topic, is_settled, token_transfer
from tollhouse.payments.chain.replies import ChainUnavailable, Log, Receipt
from tollhouse.payments.reorganisation import check_chain_id

log = logger("payments.deposits")

_DISAGREEMENTS = Counter(
    "tollhouse_deposit_disagreements", "Deposits on which another node of the chain contradicted the first"
)


class DepositTerms(Struct, frozen=True):
    """What counts as a deposit. Addresses in any case; amounts in micro-USD, which are USDC's units.

    `takes_authorized` is False if x402 payments go to the treasury too: a transfer by authorization (EIP-3009, or
    Permit2 in the scheme `upto`) may then have paid for a call, and must not count as a deposit as well. With several
    nodes, two must agree on a deposit above `second_source_micros`.
    """

    chain_id: int
    usdc_address: str
    treasury_address: str
    confirmations: int
    minimum_micros: int = 1_000_000
    takes_authorized: bool = True
    second_source_micros: int = 100_000_000


class Confirmation(Struct, frozen=True):
    """A mined transaction in a canonical block; `confirmations` counts that block too."""

    receipt: Receipt
    confirmations: int


class Deposit(Struct, frozen=True):
    """One transfer to the treasury. `position` is its log's place within the transaction, in whatever block."""

    position: int
    transfer: TokenTransfer


async def fetch_confirmation(chain: ChainClient, terms: DepositTerms, tx_hash: str) -> Confirmation | None:
    """Where the transaction is mined; None if it is not, or not in a canonical block.

    Raises ChainUnavailable.
    """
    await check_chain_id(chain, terms.chain_id)
    receipt = await chain.receipt(tx_hash)
    if receipt is None:
        return None
    canonical = await chain.block(receipt.block_number)
    if canonical is None or canonical.hash != receipt.block_hash:
        return None
    return Confirmation(receipt, await chain.block_number() - receipt.block_number + 1)


async def is_evident(
    nodes: Nodes, node: ChainClient, terms: DepositTerms, seen: Confirmation, amount_micros: int
) -> bool:
    """Whether a deposit that `node` confirms may be credited: a large one only if another node agrees.

    Raises ChainUnavailable if no other node answers.
    """
    others = nodes.others(node)
    if not others or amount_micros <= terms.second_source_micros:
        return True
    replies = await asyncio.gather(*(_compare(one, terms, seen) for one in others), return_exceptions=True)
    failures = [reply for reply in replies if isinstance(reply, BaseException)]
    for failure in failures:
        if not isinstance(failure, ChainUnavailable):
            raise failure
    if "disagrees" in replies:
        _DISAGREEMENTS.inc()
        receipt = seen.receipt
        log.error("nodes disagree", tx_hash=receipt.tx_hash, block_number=receipt.block_number)
    if failures and len(failures) == len(others):
        raise failures[0]
    return "agrees" in replies


async def _compare(
    chain: ChainClient, terms: DepositTerms, seen: Confirmation
) -> Literal["agrees", "behind", "disagrees"]:
    """What another node says of a transaction. Raises ChainUnavailable."""
    own = await fetch_confirmation(chain, terms, seen.receipt.tx_hash)
    if own is None:
        confirmed_at = seen.receipt.block_number + terms.confirmations - 1
        return "disagrees" if await chain.block_number() >= confirmed_at else "behind"
    if _evidence(own.receipt) != _evidence(seen.receipt):
        return "disagrees"
    return "agrees" if own.confirmations >= terms.confirmations else "behind"


def _evidence(receipt: Receipt) -> tuple[object, ...]:
    return receipt.is_success, receipt.block_number, receipt.block_hash, receipt.logs


def deposits_in(receipt: Receipt, terms: DepositTerms) -> list[Deposit]:
    """Every USDC transfer to the treasury that counts as a deposit, from any sender."""
    return [
        Deposit(position, transfer)
        for position, transfer in _transfers(receipt.logs)
        if transfer.token == terms.usdc_address.lower()
        and transfer.recipient == terms.treasury_address.lower() != transfer.sender
        and transfer.amount_micros > 0
        and (terms.takes_authorized or not _is_authorized(receipt.logs, position, transfer))
    ]


def rejection_reason(receipt: Receipt, terms: DepositTerms, wallet: str) -> str:
    """Why a confirmed transaction holds no deposit of this wallet: the `reason` of `deposit-invalid`."""
    transfers = [transfer for _, transfer in _transfers(receipt.logs)]
    in_usdc = [one for one in transfers if one.token == terms.usdc_address.lower()]
    if not receipt.is_success:
        return "reverted"
    if not in_usdc:
        return "wrong-token"
    treasury = terms.treasury_address.lower()
    if any(one.recipient == treasury != one.sender for one in in_usdc):
        return "wrong-recipient" if any(one.sender == wallet for one in in_usdc) else "wrong-sender"
    return "wrong-token" if any(one.recipient == treasury for one in transfers) else "wrong-recipient"


def _transfers(logs: Sequence[Log]) -> list[tuple[int, TokenTransfer]]:
    decoded = ((position, token_transfer(log)) for position, log in enumerate(logs))
    return [(position, transfer) for position, transfer in decoded if transfer is not None]


def _is_authorized(logs: Sequence[Log], position: int, transfer: TokenTransfer) -> bool:
    """Whether an authorization made this transfer: USDC logs its use right before, x402's contract right after."""
    before, after = logs[max(0, position - 1) : position], logs[position + 1 : position + 2]
    used = (USED_TOPIC, address_topic(transfer.sender))
    return any(log.address == transfer.token and log.topics[:2] == used for log in before) or any(
        is_settled(log) for log in after
    )
