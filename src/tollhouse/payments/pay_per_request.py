"""Payment per request, put together from the settings: a chain, somebody who settles on it, and the claims."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from tollhouse.config.settings import Settings
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.x402.payments import X402, Terms
from tollhouse.payments.x402.settlement.settler import factories_of, open_settler
from tollhouse.payments.x402.types import Settler
from tollhouse.storage.database import Database

log = logger("payments.x402")


@dataclass(frozen=True, slots=True)
class PayPerRequest:
    """Each part is None where the settings do not describe it; `x402` needs both others and `x402_pay_to`."""

    chain: ChainClient | None = None
    settler: Settler | None = None
    x402: X402 | None = None


@asynccontextmanager
async def open_pay_per_request(settings: Settings, database: Database, ledger: Ledger) -> AsyncIterator[PayPerRequest]:
    """The payments per request that the settings describe, while the block runs. Raises SettingError."""
    async with AsyncExitStack() as stack:
        chain = ChainClient(settings.evm_rpc_url) if settings.evm_rpc_url else None
        if chain is not None:
            stack.push_async_callback(chain.close)
        settler = await stack.enter_async_context(open_settler(settings, database, chain))
        x402 = None
        if settings.x402_pay_to and (chain is None or settler is None):
            log.warning("no payment is taken: set evm_rpc_url, and x402_facilitator_key or x402_facilitator_url")
        elif settings.x402_pay_to and chain and settler:
            x402 = X402(_terms(settings), database, ledger, chain, settler)
            stack.push_async_callback(x402.close)
        yield PayPerRequest(chain, settler, x402)


def _terms(settings: Settings) -> Terms:
    """Receipts are signed with the facilitator's key, where this server has one."""
    return Terms(
        chain_id=settings.evm_chain_id,
        asset=settings.usdc_address,
        pay_to=settings.x402_pay_to,
        receipt_key=bytes.fromhex(settings.x402_facilitator_key.removeprefix("0x")),
        factories=factories_of(settings),
    )
