"""What the chain says of a transaction, and which of its logs are deposits. Nothing here touches the ledger."""

from collections.abc import Sequence

from msgspec import Struct

from tollhouse.evm.keccak import keccak256
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.errors import ChainUnavailable
from tollhouse.payments.chain.replies import Log, Receipt
from tollhouse.payments.chain.token import Movement, movement

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
