"""Deposits on the chain and in the ledger: each log is credited once, and reversed when the chain drops it.

`deposit:<transaction>:<position>:<turn>` credits, `reversal:<transaction>:<position>:<turn>` reverses. The next turn
begins when a reorganisation undid the one before. Concurrent calls compute the same id, so that one of them writes.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct
from prometheus_client import Counter

from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient, Nodes
from tollhouse.payments.chain.contracts import USED_TOPIC, TokenTransfer, is_settled, token_transfer
from tollhouse.payments.chain.replies import ChainUnavailable, Log, Receipt
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import REVERSAL, REVERSALS, TREASURY, Transfer
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
    used = (USED_TOPIC, "0x" + transfer.sender[2:].zfill(64))
    return any(log.address == transfer.token and log.topics[:2] == used for log in before) or any(
        is_settled(log) for log in after
    )


DEPOSIT = "deposit"


class Credit(Struct, frozen=True):
    """One credited deposit: the log, the block it was credited from, and the account."""

    tx_hash: str
    position: int
    turn: int
    account: str
    amount_micros: int
    wallet: str
    block_number: int
    block_hash: str

    @property
    def id(self) -> str:
        """The id of its transfer in the ledger."""
        return _id(DEPOSIT, self.tx_hash, self.position, self.turn)

    @property
    def reversal_id(self) -> str:
        """The id of the transfer that reverses it."""
        return _id(REVERSAL, self.tx_hash, self.position, self.turn)


def credit_from_transfer(transfer: Transfer) -> Credit:
    """The credit that a transfer of kind `deposit` records."""
    _, tx_hash, position, turn = transfer.id.split(":")
    memo: dict[str, Any] = transfer.memo or {}
    return Credit(
        tx_hash,
        int(position),
        int(turn),
        transfer.credit,
        transfer.amount_micros,
        memo["wallet"],
        memo["block_number"],
        memo["block_hash"],
    )


async def current_credit(ledger: Ledger, tx_hash: str, position: int) -> Credit | int:
    """The credit of a log; if there is none, the turn in which it may be credited."""
    turn = 0
    while True:
        transfer = await ledger.find(_id(DEPOSIT, tx_hash, position, turn))
        if transfer is None:
            return turn
        if await ledger.find(_id(REVERSAL, tx_hash, position, turn)) is None:
            return credit_from_transfer(transfer)
        turn += 1


async def credit_deposits(
    ledger: Ledger, account: str, receipt: Receipt, deposits: Sequence[Deposit]
) -> tuple[list[Credit], bool]:
    """Credit each deposit that is not credited; all credits, and whether any is new.

    Raises IdTakenError when another process credited a log of the same transaction with another content.
    """
    credits_, is_any_new = [], False
    for deposit in deposits:
        credit = await current_credit(ledger, receipt.tx_hash, deposit.position)
        if isinstance(credit, int):
            memo = {
                "tx_hash": receipt.tx_hash,
                "log_index": deposit.transfer.log.index,
                "block_number": receipt.block_number,
                "block_hash": receipt.block_hash,
                "wallet": deposit.transfer.sender,
            }
            transfer_id = _id(DEPOSIT, receipt.tx_hash, deposit.position, credit)
            amount = deposit.transfer.amount_micros
            moved = await ledger.move(Transfer(transfer_id, TREASURY, account, amount, DEPOSIT, memo))
            is_any_new |= moved.is_new
            credit = credit_from_transfer(moved.transfer)
        credits_.append(credit)
    return credits_, is_any_new


async def reverse(ledger: Ledger, credit: Credit, canonical_hash: str) -> bool:
    """Reverse a credit, below zero if it was spent; whether it is new. `canonical_hash` is the evidence."""
    memo = {
        "tx_hash": credit.tx_hash,
        "wallet": credit.wallet,
        "block_number": credit.block_number,
        "block_hash": credit.block_hash,
        "canonical_hash": canonical_hash,
    }
    reversal = Transfer(credit.reversal_id, credit.account, REVERSALS, credit.amount_micros, REVERSAL, memo)
    return (await ledger.move(reversal)).is_new


def is_reversed_deposit(transfer: Transfer) -> bool:
    """Whether a transfer of kind `reversal` reverses a deposit."""
    return transfer.id.startswith(f"{REVERSAL}:0x")


def deposit_id(reversal: Transfer) -> str:
    """The id of the deposit that a reversal reverses."""
    return DEPOSIT + reversal.id.removeprefix(REVERSAL)


def _id(kind: str, tx_hash: str, position: int, turn: int) -> str:
    return f"{kind}:{tx_hash}:{position}:{turn}"
