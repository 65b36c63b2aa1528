"""The ledger's deposits against the chain: every credit that stands must be a log there."""

from collections.abc import Iterable

from msgspec import Struct

from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import Receipt
from tollhouse.payments.chain.token import token_balance
from tollhouse.payments.deposits.confirmation import DepositTerms, deposits_in, must_be
from tollhouse.payments.deposits.ledger import DEPOSIT, Credit, credit_of, deposit_id
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import REVERSAL

LONGEST_LIST = 100
"""A wrong ledger may be wrong in many places; so many are told."""


class Reconciliation(Struct, frozen=True):
    """`ledger_micros` stand in the ledger, of which `chain_micros` are logs on the chain as they were credited.

    `treasury_micros` is what the treasury holds now. It tells nothing of right or wrong: the operator may spend it.
    """

    agrees: bool
    deposits: int
    ledger_micros: int
    chain_micros: int
    treasury_micros: int
    differences: list[str]


async def reconcile(chain: ChainClient, ledger: Ledger, terms: DepositTerms) -> Reconciliation:
    """Compare every deposit that stands with the chain. Raises ChainUnavailable."""
    await must_be(chain, terms.chain_id)
    standing = await _standing(ledger)
    hashes = list(dict.fromkeys(credit.tx_hash for credit in standing))
    receipts = dict(zip(hashes, await chain.receipts(hashes), strict=True))
    treasury_micros = await token_balance(chain, terms.usdc_address, terms.treasury_address)
    missing = [credit for credit in standing if not _is_on_chain(credit, receipts[credit.tx_hash], terms)]
    ledger_micros = _sum(standing)
    differences = [f"{credit.id}: the chain has no such transfer of {credit.amount_micros}" for credit in missing]
    return Reconciliation(
        agrees=not differences,
        deposits=len(standing),
        ledger_micros=ledger_micros,
        chain_micros=ledger_micros - _sum(missing),
        treasury_micros=treasury_micros,
        differences=differences[:LONGEST_LIST],
    )


async def _standing(ledger: Ledger) -> list[Credit]:
    reversed_ids = {deposit_id(transfer) for transfer in await ledger.listed(REVERSAL, 0.0)}
    return [credit_of(t) for t in await ledger.listed(DEPOSIT, 0.0) if t.id not in reversed_ids]


def _is_on_chain(credit: Credit, receipt: Receipt | None, terms: DepositTerms) -> bool:
    if receipt is None:
        return False
    log = (credit.position, credit.wallet, credit.amount_micros)
    return log in {
        (one.position, one.movement.sender, one.movement.amount_micros) for one in deposits_in(receipt, terms)
    }


def _sum(credits_: Iterable[Credit]) -> int:
    return sum(credit.amount_micros for credit in credits_)
