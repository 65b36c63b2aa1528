"""Monitor of credited deposits: reverse those that a reorganisation removes, credit them again once mined again."""

from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.nodes import Nodes
from tollhouse.payments.chain.replies import ChainUnavailable, Receipt
from tollhouse.payments.deposits.ledger import (
    DEPOSIT,
    Confirmation,
    Credit,
    DepositTerms,
    credit_deposits,
    credit_from_transfer,
    deposit_id,
    deposits_in,
    is_evident,
    is_reversed_deposit,
    reverse,
)
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import IdTakenError, Transfer
from tollhouse.payments.reorganisation import ChainView, ReorganisationMonitor

log = logger("payments.deposits")


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
