"""Deposits in the ledger: each log credited at most once a turn, and taken back when the chain takes it back.

`deposit:<transaction>:<position>:<turn>` credits, `reversal:<transaction>:<position>:<turn>` takes that back; the next
turn begins when a reorganisation undid the one before. Whoever computes the same id at the same moment writes once.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tollhouse.evm.keccak import keccak256
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.contracts import Movement, movement
from tollhouse.payments.chain.replies import ChainUnavailable, Log, Receipt
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import REVERSAL, REVERSALS, TREASURY, Transfer

_AUTHORIZATION_USED = "0x" + keccak256(b"AuthorizationUsed(address,bytes32)").hex()


class DepositTerms(Struct, frozen=True):
    """What counts as a deposit. Addresses in any case; amounts in micro-USD, which are USDC's own units.

    `takes_authorized` is False where payments for single calls (x402) go to the treasury too: a transfer by
    authorization (EIP-3009) may then have paid for a call, and must not count a second time as a deposit.
    """

    chain_id: int
    usdc_address: str
    treasury_address: str
    confirmations: int
    minimum_micros: int = 1_000_000
    takes_authorized: bool = True


class Sighting(Struct, frozen=True):
    """A mined transaction in a block that the node itself calls canonical; `confirmations` counts that block too."""

    receipt: Receipt
    confirmations: int


class Deposit(Struct, frozen=True):
    """One transfer to the treasury. `position` is its log's place within the transaction, wherever that is mined."""

    position: int
    movement: Movement


async def sighting(chain: ChainClient, terms: DepositTerms, tx_hash: str) -> Sighting | None:
    """Where the transaction is mined; None while that is nowhere, or its block is not the canonical one.

    Raises ChainUnavailable.
    """
    await must_be(chain, terms.chain_id)
    receipt = await chain.receipt(tx_hash)
    if receipt is None:
        return None
    canonical = await chain.block(receipt.block_number)
    if canonical is None or canonical.hash != receipt.block_hash:
        return None
    return Sighting(receipt, await chain.block_number() - receipt.block_number + 1)


async def must_be(chain: ChainClient, chain_id: int) -> None:
    """Raises ChainUnavailable unless the node is of that chain: on another one nothing is where it was."""
    found = await chain.chain_id()
    if found != chain_id:
        raise ChainUnavailable(f"the node is of chain {found}, not {chain_id}")


def deposits_in(receipt: Receipt, terms: DepositTerms) -> list[Deposit]:
    """Every transfer of USDC to the treasury that may count as a deposit, whoever sent it."""
    return [
        Deposit(position, moved)
        for position, moved in _movements(receipt.logs)
        if moved.token == terms.usdc_address.lower()
        and moved.recipient == terms.treasury_address.lower() != moved.sender
        and moved.amount_micros > 0
        and (terms.takes_authorized or not _is_authorized(receipt.logs, position, moved))
    ]


def refusal(receipt: Receipt, terms: DepositTerms, wallet: str) -> str:
    """Why a confirmed transaction without a deposit of this wallet holds none: the `reason` of wire section 3."""
    moved = [movement for _, movement in _movements(receipt.logs)]
    in_usdc = [movement for movement in moved if movement.token == terms.usdc_address.lower()]
    if not receipt.is_success:
        return "reverted"
    if not in_usdc:
        return "wrong-token"
    if any(movement.recipient == terms.treasury_address.lower() != movement.sender for movement in in_usdc):
        is_own = any(movement.sender == wallet for movement in in_usdc)
        return "wrong-recipient" if is_own else "wrong-sender"
    is_claimed = any(movement.recipient == terms.treasury_address.lower() for movement in moved)
    return "wrong-token" if is_claimed else "wrong-recipient"


def _movements(logs: Sequence[Log]) -> list[tuple[int, Movement]]:
    found = [(position, movement(log)) for position, log in enumerate(logs)]
    return [(position, moved) for position, moved in found if moved is not None]


def _is_authorized(logs: Sequence[Log], position: int, moved: Movement) -> bool:
    """Whether an authorization of the sender was used for the transfer: USDC logs that right before it."""
    before = logs[position - 1] if position else None
    return (
        before is not None
        and before.address == moved.token
        and before.topics[:2] == (_AUTHORIZATION_USED, "0x" + moved.sender[2:].zfill(64))
    )


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
