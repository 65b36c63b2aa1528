"""Deposits: USDC sent from a wallet to the treasury, confirmed on the chain, credited once and monitored.

`deposit:<transaction>:<position>:<turn>` credits a log, `reversal:<transaction>:<position>:<turn>` reverses it when the
chain drops it, and the next turn begins. Concurrent calls compute the same id, so that one of them writes.
"""

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.money import micros, usd
from tollhouse.payments.chain.client import ChainClient, Nodes
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.replies import ChainUnavailable, Receipt
from tollhouse.payments.deposit_evidence import (
    Confirmation,
    Deposit,
    DepositTerms,
    deposits_in,
    fetch_confirmation,
    is_evident,
    rejection_reason,
)
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import TREASURY, IdTakenError, Transfer, agent_account
from tollhouse.payments.reorganisation import (
    DEPOSIT,
    POLL_SECONDS,
    ChainView,
    MinedTransfer,
    ReorganisationMonitor,
    check_chain_id,
    reversal_id,
    standing_transfers,
)
from tollhouse.periodic import repeat

log = logger("payments.deposits")


async def current_credit(ledger: Ledger, tx_hash: str, position: int) -> Transfer | int:
    """The transfer that credits a log; if there is none, the turn in which it may be credited."""
    turn = 0
    while (transfer := await ledger.find(_id(tx_hash, position, turn))) is not None:
        if await ledger.find(reversal_id(transfer.id)) is None:
            return transfer
        turn += 1
    return turn


async def credit_deposits(
    ledger: Ledger, account: str, receipt: Receipt, deposits: Sequence[Deposit]
) -> tuple[list[Transfer], bool]:
    """Credit each deposit that is not credited; the transfers of all, and whether any is new.

    Raises IdTakenError when another process credited a log of the same transaction with another content.
    """
    credited, is_any_new = [], False
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
            transfer_id, amount = _id(receipt.tx_hash, deposit.position, credit), deposit.transfer.amount_micros
            moved = await ledger.move(Transfer(transfer_id, TREASURY, account, amount, DEPOSIT, memo))
            is_any_new |= moved.is_new
            credit = moved.transfer
        credited.append(credit)
    return credited, is_any_new


def _id(tx_hash: str, position: int, turn: int) -> str:
    return f"{DEPOSIT}:{tx_hash}:{position}:{turn}"


class DepositMonitor(ReorganisationMonitor):
    """Monitors credits."""

    kind, noun, log = DEPOSIT, "deposit", log

    def __init__(self, nodes: Nodes, ledger: Ledger, terms: DepositTerms) -> None:
        super().__init__(nodes, ledger, terms.chain_id)
        self._terms = terms

    async def restore(self, entry: MinedTransfer, receipt: Receipt, view: ChainView, node: ChainClient) -> bool:
        """Credit the wallet's logs of a transaction that is mined again and confirmed."""
        confirmation = Confirmation(receipt, view.head - receipt.block_number + 1)
        if confirmation.confirmations < self._terms.confirmations:
            return False
        account, wallet = entry.transfer.credit, entry.transfer.facts["wallet"]
        own = [one for one in deposits_in(receipt, self._terms) if one.transfer.sender == wallet]
        amount_micros = sum(one.transfer.amount_micros for one in own)
        try:
            if not await is_evident(self._nodes, node, self._terms, confirmation, amount_micros):
                return False
        except ChainUnavailable:
            return False
        if amount_micros >= self._terms.minimum_micros:
            try:
                restored, is_any_new = await credit_deposits(self._ledger, account, receipt, own)
            except IdTakenError:
                return False
            if is_any_new:
                log.warning("deposit credited again", deposits=[one.id for one in restored])
        return True


LONGEST_LIST = 100
"""The most differences that a report lists."""


class Reconciliation(Struct, frozen=True):
    """`ledger_micros` is the sum of credited deposits, `chain_micros` of those found on the chain.

    `treasury_micros` is the treasury's balance now. The operator may spend it, so it proves nothing.
    """

    agrees: bool
    deposits: int
    ledger_micros: int
    chain_micros: int
    treasury_micros: int
    differences: list[str]


async def reconcile(chain: ChainClient, ledger: Ledger, terms: DepositTerms) -> Reconciliation:
    """Compare every credited deposit with one node of the chain. Raises ChainUnavailable."""
    await check_chain_id(chain, terms.chain_id)
    deposits = await standing_transfers(ledger, DEPOSIT)
    hashes = list(dict.fromkeys(deposit.facts["tx_hash"] for deposit in deposits))
    receipts = dict(zip(hashes, await chain.receipts(hashes), strict=True))
    treasury_micros = await token_balance(chain, terms.usdc_address, terms.treasury_address)
    missing = [one for one in deposits if not _is_on_chain(one, receipts[one.facts["tx_hash"]], terms)]
    ledger_micros = _sum(deposits)
    differences = [f"{credit.id}: the chain has no such transfer of {credit.amount_micros}" for credit in missing]
    return Reconciliation(
        agrees=not differences,
        deposits=len(deposits),
        ledger_micros=ledger_micros,
        chain_micros=ledger_micros - _sum(missing),
        treasury_micros=treasury_micros,
        differences=differences[:LONGEST_LIST],
    )


def _is_on_chain(credit: Transfer, receipt: Receipt | None, terms: DepositTerms) -> bool:
    if receipt is None:
        return False
    return (int(credit.id.split(":")[2]), credit.facts["wallet"], credit.amount_micros) in {
        (one.position, one.transfer.sender, one.transfer.amount_micros) for one in deposits_in(receipt, terms)
    }


def _sum(transfers: Iterable[Transfer]) -> int:
    return sum(transfer.amount_micros for transfer in transfers)


# Base makes a block every two seconds.
BLOCK_SECONDS = 2
UNKNOWN_RETRY_SECONDS = 5

_TX_HASH = re.compile(r"0x[0-9a-fA-F]{64}")


class Credited(Struct, frozen=True):
    """The amount a transaction added to a balance. `already_credited` if all of it was credited before."""

    credited_micros: int
    balance_micros: int
    tx_hash: str
    block_number: int
    already_credited: bool


class Deposits:
    """The deposits of one treasury on one chain.

    The nodes `others` are node when the first is unavailable, and whether they agree on a large deposit.
    """

    def __init__(self, chain: ChainClient, ledger: Ledger, terms: DepositTerms, *others: ChainClient) -> None:
        self._nodes = Nodes(chain, *others)
        self._ledger = ledger
        self._terms = terms

    async def credit(self, agent_id: str, wallet_address: str, tx_hash: str) -> Credited:
        """Credit the wallet's transfers to the treasury in a confirmed transaction, each once.

        Raises Problem `invalid-body`, `deposit-pending`, `deposit-invalid`, `deposit-conflict`, `upstream-unavailable`.
        """
        if not _TX_HASH.fullmatch(tx_hash):
            raise Problem("invalid-body", "`tx_hash` must be 0x and 64 hex digits.", parameter="tx_hash")
        node, confirmation = await self._nodes.first(
            lambda chain: fetch_confirmation(chain, self._terms, tx_hash.lower())
        )
        if confirmation is None or confirmation.confirmations < self._terms.confirmations:
            raise self._pending(confirmation)
        own = await self._own(confirmation.receipt, wallet_address.lower())
        amount_micros = sum(one.transfer.amount_micros for one in own)
        if not await is_evident(self._nodes, node, self._terms, confirmation, amount_micros):
            raise self._contradicted()
        account = agent_account(agent_id)
        try:
            credited, is_new = await credit_deposits(self._ledger, account, confirmation.receipt, own)
        except IdTakenError:
            # Another process credits from another block now: the monitor resolves which of them is canonical.
            raise self._pending(None) from None
        return Credited(
            _sum(credited),
            (await self._ledger.account(account)).balance_micros,
            tx_hash.lower(),
            credited[0].facts["block_number"],
            already_credited=not is_new,
        )

    async def monitor(self) -> None:
        """Run forever: reverse deposits that reorganisations removed, and credit them again once mined again."""
        monitor = DepositMonitor(self._nodes, self._ledger, self._terms)
        await repeat(monitor.poll, POLL_SECONDS, log, "deposit monitoring failed")

    async def reconcile(self) -> Reconciliation:
        """Compare the ledger's deposits with the chain. Raises ChainUnavailable."""
        _, result = await self._nodes.first(lambda chain: reconcile(chain, self._ledger, self._terms))
        return result

    async def _own(self, receipt: Receipt, wallet: str) -> Sequence[Deposit]:
        """The deposits of this wallet. Raises Problem `deposit-invalid`, `deposit-conflict`."""
        every = deposits_in(receipt, self._terms)
        own = [deposit for deposit in every if deposit.transfer.sender == wallet]
        if not own:
            current = [await current_credit(self._ledger, receipt.tx_hash, deposit.position) for deposit in every]
            if any(isinstance(credit, Transfer) for credit in current):
                raise Problem(
                    "deposit-conflict",
                    "This transaction has no transfer from your wallet, and was credited to the wallet that sent it.",
                )
            raise self._invalid(rejection_reason(receipt, self._terms, wallet))
        if sum(deposit.transfer.amount_micros for deposit in own) < self._terms.minimum_micros:
            raise self._invalid("below-minimum")
        return own

    def _pending(self, seen: Confirmation | None) -> Problem:
        confirmations = max(0, seen.confirmations) if seen else 0
        missing = self._terms.confirmations - confirmations
        seconds = max(1, missing * BLOCK_SECONDS) if seen else UNKNOWN_RETRY_SECONDS
        return Problem(
            "deposit-pending",
            f"The transaction has {confirmations} of {self._terms.confirmations} confirmations. Try again shortly."
            if seen
            else "The transaction is not in a block yet. Try again shortly.",
            retry_after_seconds=seconds,
            confirmations=confirmations,
            confirmations_required=self._terms.confirmations,
        )

    def _contradicted(self) -> Problem:
        return Problem(
            "deposit-pending",
            "No second node of the chain confirms this transaction yet. Try again shortly.",
            retry_after_seconds=UNKNOWN_RETRY_SECONDS,
        )

    def _invalid(self, reason: str) -> Problem:
        minimum_usd = usd(self._terms.minimum_micros)
        return Problem("deposit-invalid", _REASONS[reason], reason=reason, minimum_usd=minimum_usd)


_REASONS = {
    "reverted": "The transaction failed on the chain.",
    "wrong-token": "The transaction transferred no USDC to the treasury. Other tokens are not accepted.",
    "wrong-recipient": "The transaction's USDC went to another address, or paid for single requests.",
    "wrong-sender": "The transaction's USDC came from another wallet.",
    "below-minimum": "The wallet's transfers in the transaction are less than the minimum.",
}


@asynccontextmanager
async def open_deposits(settings: Settings, ledger: Ledger) -> AsyncIterator[Deposits | None]:
    """The deposits the settings configure; None without a node and `treasury_address`."""
    if not settings.rpc_urls or not settings.treasury_address:
        yield None
        return
    terms = DepositTerms(
        settings.evm_chain_id,
        settings.usdc_address,
        settings.treasury_address,
        settings.deposit_confirmations,
        takes_authorized=settings.x402_pay_to.lower() != settings.treasury_address.lower(),
        second_source_micros=micros(settings.deposit_second_source_usd),
    )
    nodes = [ChainClient(url) for url in settings.rpc_urls]
    try:
        yield Deposits(nodes[0], ledger, terms, *nodes[1:])
    finally:
        await Nodes(*nodes).close()
