"""The ledger's x402 transfers against the chain: each must be a transaction there that carried that payment out."""

from typing import Any

from msgspec import Struct

from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainUnavailable, Receipt
from tollhouse.payments.ledger.ledger import Ledger, Transfer
from tollhouse.payments.x402.claim_settlement import X402, transfer_id
from tollhouse.payments.x402.outcome import carried_by

LONGEST_LIST = 100
"""A wrong ledger may be wrong in many places; so many are told."""


class Reconciliation(Struct, frozen=True):
    """`ledger_micros` stand in the ledger as x402 payments, of which `chain_micros` are transfers on the chain."""

    agrees: bool
    payments: int
    ledger_micros: int
    chain_micros: int
    differences: list[str]


async def reconcile(chain: ChainClient, ledger: Ledger) -> Reconciliation:
    """Compare every x402 transfer with the chain. Raises ChainUnavailable."""
    transfers = await ledger.listed(X402, 0.0)
    network = f"eip155:{await chain.chain_id()}"
    if any(_told(transfer)["network"] != network for transfer in transfers):
        raise ChainUnavailable(f"the node is of {network}, and payments were made on another chain")
    hashes = list(dict.fromkeys(_told(transfer)["tx_hash"] for transfer in transfers))
    receipts = dict(zip(hashes, await chain.receipts(hashes), strict=True))
    missing = [one for one in transfers if not _is_carried_out(one, receipts[_told(one)["tx_hash"]])]
    total = sum(transfer.amount_micros for transfer in transfers)
    return Reconciliation(
        agrees=not missing,
        payments=len(transfers),
        ledger_micros=total,
        chain_micros=total - sum(transfer.amount_micros for transfer in missing),
        differences=[f"{one.id}: the chain has no such payment of {one.amount_micros}" for one in missing][
            :LONGEST_LIST
        ],
    )


def _is_carried_out(transfer: Transfer, receipt: Receipt | None) -> bool:
    told = _told(transfer)
    if receipt is None or not receipt.is_success or transfer.id != transfer_id(told["payer"], told["nonce"]):
        return False
    moved = carried_by(receipt, told["asset"], told["payer"], told["nonce"])
    return moved is not None and (moved.recipient, moved.amount_micros) == (
        told["pay_to"].lower(),
        transfer.amount_micros,
    )


def _told(transfer: Transfer) -> dict[str, Any]:
    return transfer.memo or {}
