"""`--local-chain`: a chain on this machine that lives as long as the command, and the settings of a server on it."""

import asyncio
import sys
from concurrent.futures import Future
from threading import Thread

from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain, install_anvil

PAYER, SELLER, RELAYER, TREASURY = ACCOUNTS[:4]
FUNDED_MICROS = 100_000_000


def start_local_chain() -> dict[str, object]:
    """Start a chain with a funded payer, and print its key; the settings with which a server takes its payments.

    It runs in a thread of its own, beside a server that occupies this one. Raises NodeNotInstalled.
    """
    install_anvil(lambda line: print(line, file=sys.stderr))
    ready: Future[str] = Future()
    Thread(target=lambda: asyncio.run(_hold(ready)), name="local-chain", daemon=True).start()
    url = ready.result()
    print(
        "Payments are on a chain of this machine, in money that is worth nothing. To pay, in another terminal:\n"
        f"  export PAYER_KEY={PAYER.private_key}",
        file=sys.stderr,
    )
    return {
        "evm_rpc_url": url,
        "x402_pay_to": SELLER.address,
        "x402_facilitator_key": RELAYER.private_key,
        "treasury_address": TREASURY.address,
        "deposit_confirmations": 1,
    }


async def _hold(ready: "Future[str]") -> None:
    try:
        async with LocalChain.start() as chain:
            await chain.fund_usdc(PAYER.address, FUNDED_MICROS)
            await chain.approve_permit2(PAYER)
            ready.set_result(chain.url)
            await asyncio.Event().wait()
    except Exception as error:
        if ready.done():
            raise
        ready.set_exception(error)
