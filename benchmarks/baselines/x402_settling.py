"""The official x402 SDK's facilitator with web3, settling the payments of benchmarks/x402_settle.py.

Reads its task from the file it is given and prints one JSON object: the seconds of each settlement (`taken`), of all
(`elapsed`), and the longest that a no-op on the same event loop took (`stall`). `how` is `one` (one after the other),
`many` (all at once, as its own asynchronous class does) or `threads` (its synchronous class, a thread for each).
"""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

from x402 import x402Facilitator, x402FacilitatorSync
from x402.mechanisms.evm.exact.register import register_exact_evm_facilitator
from x402.mechanisms.evm.signers import FacilitatorWeb3Signer
from x402.schemas import PaymentPayload, PaymentRequirements

TICK_SECONDS = 0.005


async def main(task: Any) -> None:
    signer = FacilitatorWeb3Signer(task["key"], task["url"])
    is_threaded = task["how"] == "threads"
    facilitator: Any = x402FacilitatorSync() if is_threaded else x402Facilitator()
    register_exact_evm_facilitator(facilitator, signer, networks="eip155:8453")
    requirements = PaymentRequirements.model_validate(task["requirements"])
    payments = [PaymentPayload.model_validate(payment) for payment in task["payments"]]
    pool = ThreadPoolExecutor(max(1, len(payments)))
    taken: list[float] = []

    async def settle(payment: PaymentPayload) -> None:
        begun = perf_counter()
        if is_threaded:
            loop = asyncio.get_running_loop()
            told = await loop.run_in_executor(pool, facilitator.settle, payment, requirements)
        else:
            told = await facilitator.settle(payment, requirements)
        assert told.success, told
        taken.append(perf_counter() - begun)

    stalls = [0.0]
    ticking = asyncio.create_task(tick(stalls))
    await asyncio.sleep(0.05)
    begun = perf_counter()
    if task["how"] == "one":
        for payment in payments:
            await settle(payment)
    else:
        await asyncio.gather(*map(settle, payments))
    elapsed = perf_counter() - begun
    # The no-op that waits for all of it is told too.
    await asyncio.sleep(0.05)
    ticking.cancel()
    print(json.dumps({"taken": taken, "elapsed": elapsed, "stall": max(stalls)}))


async def tick(stalls: list[float]) -> None:
    while True:
        begun = perf_counter()
        await asyncio.sleep(TICK_SECONDS)
        stalls.append(perf_counter() - begun - TICK_SECONDS)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
