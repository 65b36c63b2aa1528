"""Deposits: USDC sent from a wallet to the treasury, confirmed on the chain, credited once and monitored."""

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
from tollhouse.payments.deposits.ledger import (
    DEPOSIT,
    Confirmation,
    Credit,
    Deposit,
    DepositTerms,
    credit_deposits,
    credit_from_transfer,
    current_credit,
    deposit_id,
    deposits_in,
    fetch_confirmation,
    is_evident,
    is_reversed_deposit,
    rejection_reason,
    reverse,
)
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import REVERSAL, IdTakenError, Transfer, agent_account
from tollhouse.payments.reorganisation import POLL_SECONDS, ChainView, ReorganisationMonitor, check_chain_id
from tollhouse.periodic import repeat


class DepositMonitor(ReorganisationMonitor[Credit]):
    """Monitors credits."""

    kind = DEPOSIT

    def __init__(self, nodes: Nodes, ledger: Ledger, terms: DepositTerms) -> None:
        super().__init__(nodes, ledger, terms.chain_id)
        self._terms = terms

    def entry(self, transfer: Transfer) -> Credit:
        """See ReorganisationMonitor."""
        return credit_from_transfer(transfer)

    def reversed_id(self, reversal: Transfer) -> str | None:
        """See ReorganisationMonitor."""
        return deposit_id(reversal) if is_reversed_deposit(reversal) else None

    async def reverse(self, entry: Credit, canonical_hash: str) -> None:
        """See ReorganisationMonitor."""
        await reverse(self._ledger, entry, canonical_hash)
        log.warning("deposit reversed", deposit=entry.id, account=entry.account)

    async def restore(self, entry: Credit, receipt: Receipt, view: ChainView, node: ChainClient) -> bool:
        """Credit the wallet's logs of a transaction that is mined again and confirmed."""
        confirmation = Confirmation(receipt, view.head - receipt.block_number + 1)
        if confirmation.confirmations < self._terms.confirmations:
            return False
        own = [one for one in deposits_in(receipt, self._terms) if one.transfer.sender == entry.wallet]
        amount_micros = sum(one.transfer.amount_micros for one in own)
        try:
            if not await is_evident(self._nodes, node, self._terms, confirmation, amount_micros):
                return False
        except ChainUnavailable:
            return False
        if amount_micros >= self._terms.minimum_micros:
            try:
                restored, is_any_new = await credit_deposits(self._ledger, entry.account, receipt, own)
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
    reversed_ids = {deposit_id(transfer) for transfer in await ledger.transfers(REVERSAL, 0.0)}
    deposits = [one for one in await ledger.transfers(DEPOSIT, 0.0) if one.id not in reversed_ids]
    credits_ = [credit_from_transfer(transfer) for transfer in deposits]
    hashes = list(dict.fromkeys(credit.tx_hash for credit in credits_))
    receipts = dict(zip(hashes, await chain.receipts(hashes), strict=True))
    treasury_micros = await token_balance(chain, terms.usdc_address, terms.treasury_address)
    missing = [credit for credit in credits_ if not _is_on_chain(credit, receipts[credit.tx_hash], terms)]
    ledger_micros = _sum(credits_)
    differences = [f"{credit.id}: the chain has no such transfer of {credit.amount_micros}" for credit in missing]
    return Reconciliation(
        agrees=not differences,
        deposits=len(credits_),
        ledger_micros=ledger_micros,
        chain_micros=ledger_micros - _sum(missing),
        treasury_micros=treasury_micros,
        differences=differences[:LONGEST_LIST],
    )


def _is_on_chain(credit: Credit, receipt: Receipt | None, terms: DepositTerms) -> bool:
    if receipt is None:
        return False
    log = (credit.position, credit.wallet, credit.amount_micros)
    return log in {
        (one.position, one.transfer.sender, one.transfer.amount_micros) for one in deposits_in(receipt, terms)
    }


def _sum(credits_: Iterable[Credit]) -> int:
    return sum(credit.amount_micros for credit in credits_)


log = logger("payments.deposits")

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
            credited[0].tx_hash,
            credited[0].block_number,
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
            if any(isinstance(credit, Credit) for credit in current):
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
