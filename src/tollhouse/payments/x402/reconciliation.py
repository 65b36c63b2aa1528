"""The ledger's x402 transfers and the chain: reconciliation, and the monitor of reorganisations.

`x402:<payer>:<nonce>` enters a payment, `reversal:x402:<payer>:<nonce>` takes it back when a reorganisation removes it.
Once it is mined again, `x402:<payer>:<nonce>:1` enters it, and so on.
"""

from collections.abc import Collection

from msgspec import Struct

from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient, Nodes
from tollhouse.payments.chain.contracts import is_ordered
from tollhouse.payments.chain.replies import ChainUnavailable, Receipt
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import REVENUE, IdTakenError, Transfer
from tollhouse.payments.reorganisation import ChainView, MinedTransfer, ReorganisationMonitor, standing_transfers
from tollhouse.payments.x402.claims import X402, transfer_id
from tollhouse.payments.x402.store import Attempts
from tollhouse.payments.x402.types import EXACT, UPTO, SettledTransfer
from tollhouse.payments.x402.verification import scheme_named

log = logger("payments.x402")

MAX_LISTED = 100
"""A wrong ledger may be wrong in many places; so many are listed."""


class Reconciliation(Struct, frozen=True):
    """`ledger_micros` is the sum of x402 transfers in the ledger, `chain_micros` of those found on the chain."""

    agrees: bool
    payments: int
    ledger_micros: int
    chain_micros: int
    differences: list[str]


async def reconcile(chain: ChainClient, ledger: Ledger) -> Reconciliation:
    """Compare every x402 transfer with the chain. Raises ChainUnavailable."""
    transfers = await standing_transfers(ledger, X402)
    network = f"eip155:{await chain.chain_id()}"
    if any(transfer.facts["network"] != network for transfer in transfers):
        raise ChainUnavailable(f"the node is of {network}, and payments were made on another chain")
    hashes = list(dict.fromkeys(transfer.facts["tx_hash"] for transfer in transfers))
    receipts = dict(zip(hashes, await chain.receipts(hashes), strict=True))
    # What their transactions call for: no log names the nonce of a Permit2 transfer.
    unlogged = list(dict.fromkeys(one.facts["tx_hash"] for one in transfers if one.facts.get("scheme") == UPTO))
    data = {one.hash: one.data for one in await chain.transactions(unlogged) if one}
    missing = [
        one
        for one in transfers
        for tx_hash in [one.facts["tx_hash"]]
        if not _is_on_chain(one, receipts[tx_hash], data.get(tx_hash, b""))
    ]
    total = sum(transfer.amount_micros for transfer in transfers)
    return Reconciliation(
        agrees=not missing,
        payments=len(transfers),
        ledger_micros=total,
        chain_micros=total - sum(transfer.amount_micros for transfer in missing),
        differences=[f"{one.id}: the chain has no such payment of {one.amount_micros}" for one in missing][:MAX_LISTED],
    )


def _is_on_chain(transfer: Transfer, receipt: Receipt | None, data: bytes) -> bool:
    memo = transfer.facts
    if receipt is None or _turn(transfer.id)[0] != transfer_id(memo["payer"], memo["nonce"]):
        return False
    if memo.get("scheme") == UPTO and not is_ordered(data, memo["payer"], memo["nonce"], transfer.amount_micros):
        return False
    return _carries(transfer, receipt)


def _carries(transfer: Transfer, receipt: Receipt) -> bool:
    """Whether the transaction carried out the payment that a transfer enters."""
    memo = transfer.facts
    if not receipt.is_success:
        return False
    settled = SettledTransfer(
        memo["asset"].lower(), memo["payer"], memo["nonce"], memo["pay_to"].lower(), transfer.amount_micros
    )
    return scheme_named(memo.get("scheme", EXACT)).is_in(receipt, settled)


def _turn(paid_id: str) -> tuple[str, int]:
    """A transfer's id without its turn, and the turn."""
    kind, payer, nonce, *turn = paid_id.split(":")
    return f"{kind}:{payer}:{nonce}", int(turn[0]) if turn else 0


class PaymentMonitor(ReorganisationMonitor):
    """Monitors settled payments."""

    kind, noun, log = X402, "payment", log
    # A payment is settled in the newest block, and there may be many.
    entries_seconds = 3_600.0

    def __init__(self, chain: ChainClient, ledger: Ledger, chain_id: int, attempts: Attempts) -> None:
        super().__init__(Nodes(chain), ledger, chain_id)
        self._attempts = attempts

    async def candidates(self, entry: MinedTransfer) -> Collection[str]:
        """See ReorganisationMonitor. A replacement with higher fees may be mined instead."""
        facts = entry.transfer.facts
        return {entry.tx_hash, *await self._attempts.hashes((facts["payer"], facts["nonce"]))}

    async def restore(self, entry: MinedTransfer, receipt: Receipt, _view: ChainView, _node: ChainClient) -> bool:
        """Enter a payment again that is mined again."""
        first_id, turn = _turn(entry.id)
        memo = entry.transfer.facts | {
            "tx_hash": receipt.tx_hash,
            "block_number": receipt.block_number,
            "block_hash": receipt.block_hash,
        }
        again = Transfer(f"{first_id}:{turn + 1}", X402, REVENUE, entry.transfer.amount_micros, X402, memo)
        if not _carries(again, receipt):
            return False
        try:
            moved = await self._ledger.move(again)
        except IdTakenError:
            return False
        if moved.is_new:
            log.warning("payment entered again", payment=again.id)
        return True
