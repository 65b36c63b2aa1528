"""What settling a payment takes on a real node, one at a time and a hundred in flight at blocks of two seconds.

Two claims: the settler waits for the chain and for nothing else, and it holds up nobody on its event loop. The
baseline, in the same run on a node of the same kind, is the official `x402` SDK's facilitator with web3: one at a time,
several at once on an event loop, and with a thread for each. It is given fewer payments where it would take minutes.
A hundred in flight at blocks of two seconds cannot be more than fifty a second, give or take when in a block one begins
and ends; twice as many show what lies beyond. Every payer is another one. The first run makes a virtual environment for
the baseline in .venv/benchmarks; `--no-baseline` does without.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from coincurve import PrivateKey
from keyed_events import usual_python

from tollhouse import logs
from tollhouse.config.settings import Settings
from tollhouse.evm import TransferWithAuthorization, address_of, checksummed, parse_address, transfer_digest
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain
from tollhouse.payments.pay_per_request import open_settler
from tollhouse.payments.x402.headers import decode_payment
from tollhouse.payments.x402.types import Payment, Requirement, Settled, Settler
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

SELLER, OURS, THEIRS = ACCOUNTS[3], ACCOUNTS[4], ACCOUNTS[5]
PRICE = 1_000
REQUIREMENT = Requirement(8453, PRICE, LocalChain.usdc_address, SELLER.address, 600)
IN_FLIGHT, BLOCK_SECONDS = 100, 2
ONE_BY_ONE, THEIRS_AT_ONCE = 100, 4
TICK_SECONDS = 0.005
GOAL_PER_S, GOAL_STALL_MS = 50, 75

Json = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=5, help="how many blocks of a hundred payments")
    parser.add_argument("--no-baseline", action="store_true")
    arguments = parser.parse_args()
    logs.configure("error")
    python = None if arguments.no_baseline else usual_python()
    print(json.dumps(asyncio.run(measured(arguments.blocks, python)), indent=2))


async def measured(blocks: int, python: Path | None) -> Json:
    result: Json = {
        "claim": "a hundred payments in flight settle at one block each, and hold nobody up",
        "goals": {"settles_per_s": GOAL_PER_S, "stall_ms": GOAL_STALL_MS},
    }
    async with LocalChain.start() as chain:
        keys = await funded(chain)
        result["one_by_one"] = {"tollhouse": await ours_one_by_one(chain, keys)}
        if python is not None:
            await told(result["one_by_one"], task(chain, keys, "one", ONE_BY_ONE), python)
        await chain.mine_every(BLOCK_SECONDS)
        result["in_flight"] = {
            "tollhouse": await ours_in_flight(chain, keys[:IN_FLIGHT], blocks),
            "tollhouse_twice_as_many": await ours_in_flight(chain, keys, blocks),
        }
        if python is not None:
            await told(result["in_flight"], task(chain, keys, "many", THEIRS_AT_ONCE), python)
            await told(result["in_flight"], task(chain, keys, "threads", IN_FLIGHT), python)
    return result


async def ours_one_by_one(chain: LocalChain, keys: Sequence[PrivateKey]) -> Json:
    async with settling(chain) as settler:
        await settled(settler, read(signed(keys[0])))
        taken = [await settled(settler, read(signed(key))) for key in cycled(keys, ONE_BY_ONE)]
    return latency(taken)


async def ours_in_flight(chain: LocalChain, keys: Sequence[PrivateKey], blocks: int) -> Json:
    """As many at a time as there are payers, each with its next payment as soon as one is settled."""
    payments = [[read(signed(key)) for _ in range(blocks)] for key in keys]
    async with settling(chain) as settler:
        await settled(settler, read(signed(keys[0])))  # right after a block
        stalls = [0.0]
        ticking = asyncio.create_task(tick(stalls))
        begun = perf_counter()
        taken = await asyncio.gather(*(one_after_the_other(settler, some) for some in payments))
        elapsed = perf_counter() - begun
        ticking.cancel()
    count, ceiling = blocks * len(keys), len(keys) / BLOCK_SECONDS
    return latency([one for some in taken for one in some]) | {
        "payments": count,
        "settles_per_s": round(count / elapsed, 2),
        "of_ceiling": round(count / elapsed / ceiling, 2),
        "stall_ms": round(1_000 * max(stalls), 1),
        "is_met": {"settles_per_s": count / elapsed >= GOAL_PER_S, "stall_ms": 1_000 * max(stalls) <= GOAL_STALL_MS},
    }


async def told(result: Json, task: Json, python: Path) -> None:
    """What the baseline measures in a process of its own, and the ratio to it."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(task, file)
        file.flush()
        script = Path(__file__).parent / "baselines" / "x402_settling.py"
        done = await asyncio.to_thread(
            subprocess.run, [python, script, file.name], check=True, stdout=subprocess.PIPE, timeout=180
        )
    found = json.loads(done.stdout.splitlines()[-1])
    how = task["how"]
    name = {"one": "x402_sdk", "many": "x402_sdk_asynchronous", "threads": "x402_sdk_threads"}[how]
    result[name] = latency(found["taken"]) | {
        "payments": len(found["taken"]),
        "settles_per_s": round(len(found["taken"]) / found["elapsed"], 2),
        "stall_ms": round(1_000 * found["stall"], 1),
    }
    if how == "one":
        result["ratio_of_medians"] = round(result[name]["median_ms"] / result["tollhouse"]["median_ms"], 2)
    else:
        rate = result["tollhouse"]["settles_per_s"] / result[name]["settles_per_s"]
        result[f"ratio_to_{name}"] = round(rate, 2)


def task(chain: LocalChain, keys: Sequence[PrivateKey], how: str, count: int) -> Json:
    """What the baseline is to settle, and how."""
    return {
        "url": chain.url,
        "key": THEIRS.private_key,
        "how": how,
        "requirements": REQUIREMENT.v2(),
        "payments": [signed(key) for key in cycled(keys, count)],
    }


class settling:  # noqa: N801 - used as a verb
    """Our facilitator as a server has it, its lock in a folder of its own."""

    def __init__(self, chain: LocalChain) -> None:
        self._chain = chain
        self._folder = tempfile.TemporaryDirectory()

    async def __aenter__(self) -> Settler:
        settings = Settings(data_dir=self._folder.name, x402_facilitator_key=OURS.private_key)
        self._database = open_database(settings)
        await migrate(self._database)
        self._settler = open_settler(settings, self._database, self._chain.client)
        settler = await self._settler.__aenter__()
        assert settler is not None
        return settler

    async def __aexit__(self, *error: object) -> None:
        await self._settler.__aexit__(*error)
        await self._database.close()
        self._folder.cleanup()


async def one_after_the_other(settler: Settler, payments: Sequence[Payment]) -> list[float]:
    return [await settled(settler, payment) for payment in payments]


async def settled(settler: Settler, payment: Payment) -> float:
    begun = perf_counter()
    outcome = await settler.settle(payment, REQUIREMENT)
    assert isinstance(outcome, Settled), outcome
    return perf_counter() - begun


async def tick(stalls: list[float]) -> None:
    """A no-op that should take five milliseconds: what it takes more, something held it up for."""
    while True:
        begun = perf_counter()
        await asyncio.sleep(TICK_SECONDS)
        stalls.append(perf_counter() - begun - TICK_SECONDS)


async def funded(chain: LocalChain) -> list[PrivateKey]:
    keys = [PrivateKey((10_000 + number).to_bytes(32)) for number in range(2 * IN_FLIGHT)]
    for key in keys:
        await chain.fund_usdc(checksummed(address_of(key.public_key)), 10**9)
    return keys


def cycled(keys: Sequence[PrivateKey], count: int) -> list[PrivateKey]:
    return [keys[number % len(keys)] for number in range(count)]


def signed(key: PrivateKey) -> Json:
    """A payment of version 2, good for an hour."""
    now, nonce = int(time.time()), os.urandom(32)
    payer = address_of(key.public_key)
    transfer = TransferWithAuthorization(payer, parse_address(SELLER.address).raw, PRICE, now - 600, now + 3_600, nonce)
    made = key.sign_recoverable(transfer_digest(REQUIREMENT.domain, transfer), hasher=None)
    told = {"from": checksummed(payer), "to": SELLER.address, "value": str(PRICE), "validAfter": str(now - 600),
            "validBefore": str(now + 3_600), "nonce": "0x" + nonce.hex()}  # fmt: skip
    return {
        "x402Version": 2,
        "resource": {"url": "https://toll.example/api/products"},
        "accepted": REQUIREMENT.v2(),
        "payload": {"signature": "0x" + made[:64].hex() + f"{27 + made[64]:02x}", "authorization": told},
        "extensions": {},
    }


def read(payment: Json) -> Payment:
    return decode_payment(msgspec.json.encode(payment), 2)


def latency(taken: Sequence[float]) -> Json:
    ordered = sorted(taken)
    return {
        "median_ms": round(1_000 * statistics.median(ordered), 1),
        "p99_ms": round(1_000 * ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 1),
    }


if __name__ == "__main__":
    main()
