"""Reconciliation of the ledger's x402 transfers with the chain: each must be a transaction that settled the payment."""

from typing import Any

from msgspec import Struct

from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainUnavailable, Receipt
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import Transfer
from tollhouse.payments.x402.claims import X402, transfer_id
from tollhouse.payments.x402.outcome import authorized_transfer

MAX_LISTED = 100
"""A wrong ledger may be wrong in many places; so many are memo."""


class Reconciliation(Struct, frozen=True):
    """`ledger_micros` is the sum of x402 transfers in the ledger, `chain_micros` of those found on the chain."""

    agrees: bool
    payments: int
    ledger_micros: int
    chain_micros: int
    differences: list[str]


async def reconcile(chain: ChainClient, ledger: Ledger) -> Reconciliation:
    """Compare every x402 transfer with the chain. Raises ChainUnavailable."""
    transfers = await ledger.transfers(X402, 0.0)
    network = f"eip155:{await chain.chain_id()}"
    if any(_memo(transfer)["network"] != network for transfer in transfers):
        raise ChainUnavailable(f"the node is of {network}, and payments were made on another chain")
    hashes = list(dict.fromkeys(_memo(transfer)["tx_hash"] for transfer in transfers))
    receipts = dict(zip(hashes, await chain.receipts(hashes), strict=True))
    missing = [one for one in transfers if not _is_on_chain(one, receipts[_memo(one)["tx_hash"]])]
    total = sum(transfer.amount_micros for transfer in transfers)
    return Reconciliation(
        agrees=not missing,
        payments=len(transfers),
        ledger_micros=total,
        chain_micros=total - sum(transfer.amount_micros for transfer in missing),
        differences=[f"{one.id}: the chain has no such payment of {one.amount_micros}" for one in missing][:MAX_LISTED],
    )


def _is_on_chain(transfer: Transfer, receipt: Receipt | None) -> bool:
    memo = _memo(transfer)
    if receipt is None or not receipt.is_success or transfer.id != transfer_id(memo["payer"], memo["nonce"]):
        return False
    transferred = authorized_transfer(receipt, memo["asset"], memo["payer"], memo["nonce"])
    return transferred is not None and (transferred.recipient, transferred.amount_micros) == (
        memo["pay_to"].lower(),
        transfer.amount_micros,
    )


def _memo(transfer: Transfer) -> dict[str, Any]:
    return transfer.memo or {}
