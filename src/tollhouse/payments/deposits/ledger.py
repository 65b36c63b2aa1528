"""Deposits in the ledger: each log credited at most once a turn, and taken back when the chain takes it back.

`deposit:<transaction>:<position>:<turn>` credits, `reversal:<transaction>:<position>:<turn>` takes that back; the next
turn begins when a reorganisation undid the one before. Whoever computes the same id at the same moment writes once.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tollhouse.payments.chain.replies import Receipt
from tollhouse.payments.deposits.confirmation import Deposit
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import REVERSAL, REVERSALS, TREASURY, Transfer

DEPOSIT = "deposit"


class Credit(Struct, frozen=True):
    """One deposit as it stands in the ledger: the log, the block it was credited from, and to whose account."""

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
        """The id of the transfer that takes it back."""
        return _id(REVERSAL, self.tx_hash, self.position, self.turn)


def credit_of(transfer: Transfer) -> Credit:
    """The deposit that a transfer of kind `deposit` is."""
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


async def standing(ledger: Ledger, tx_hash: str, position: int) -> Credit | int:
    """The credit of a log that stands; where none does, the turn in which it may be credited."""
    turn = 0
    while True:
        found = await ledger.find(_id(DEPOSIT, tx_hash, position, turn))
        if found is None:
            return turn
        if await ledger.find(_id(REVERSAL, tx_hash, position, turn)) is None:
            return credit_of(found)
        turn += 1


async def book(
    ledger: Ledger, account: str, receipt: Receipt, deposits: Sequence[Deposit]
) -> tuple[list[Credit], bool]:
    """Credit each deposit that does not stand yet; all that stand now, and whether any is new.

    Raises IdTakenError when another process credited a log of the same transaction with another content.
    """
    credits_, is_any_new = [], False
    for deposit in deposits:
        found = await standing(ledger, receipt.tx_hash, deposit.position)
        if isinstance(found, int):
            moved = await ledger.move(_transfer(account, receipt, deposit, found))
            is_any_new |= moved.is_new
            found = credit_of(moved.transfer)
        credits_.append(found)
    return credits_, is_any_new


async def reverse(ledger: Ledger, credit: Credit, canonical_hash: str) -> bool:
    """Take a credit back, below zero if it was spent; whether this call did it. `canonical_hash` is the evidence."""
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
    """Whether a transfer of kind `reversal` takes back a deposit, and nothing else."""
    return transfer.id.startswith(f"{REVERSAL}:0x")


def deposit_id(reversal: Transfer) -> str:
    """The id of the deposit that a reversal took back."""
    return DEPOSIT + reversal.id.removeprefix(REVERSAL)


def _transfer(account: str, receipt: Receipt, deposit: Deposit, turn: int) -> Transfer:
    memo = {
        "tx_hash": receipt.tx_hash,
        "log_index": deposit.movement.log.index,
        "block_number": receipt.block_number,
        "block_hash": receipt.block_hash,
        "wallet": deposit.movement.sender,
    }
    transfer_id = _id(DEPOSIT, receipt.tx_hash, deposit.position, turn)
    return Transfer(transfer_id, TREASURY, account, deposit.movement.amount_micros, DEPOSIT, memo)


def _id(kind: str, tx_hash: str, position: int, turn: int) -> str:
    return f"{kind}:{tx_hash}:{position}:{turn}"
