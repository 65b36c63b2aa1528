"""Several processes with one key, and what a process that died had under way."""

import asyncio
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import text

from tests.payments.settlement import conftest
from tests.payments.settlement.chain_state import reverted, seller_holds, sent
from tests.payments.settlement.failing_node import within
from tests.payments.settlement.settling_client import GO, OUTCOMES, READY, settle
from tests.payments.settlement.test_upto_settlement import OFFERED, permitted
from tests.payments.x402.signed_payments import PRICE, REQUIREMENT, read, v1
from tests.servers.processes import ForkedProcess
from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.failpoints import EXIT_STATUS
from tollhouse.payments.x402.types import Requirement, Settled
from tollhouse.storage.database import open_database

pytestmark = pytest.mark.both_databases

COSTING = OFFERED.costing(PRICE)
SCHEMES = [(v1, REQUIREMENT), (permitted, COSTING)]


@pytest.fixture
async def start(chain, database_url, tmp_path):
    """A function that starts a process with the key, ready to settle these payments when all are told to begin."""
    processes = []

    async def started(payments: list, failpoint: str = "", requirement: Requirement = REQUIREMENT) -> Settling:
        folder = tmp_path / f"process-{len(processes)}"
        folder.mkdir()
        log = folder / "log"
        settings = {"data_dir": str(tmp_path), "database_url": database_url,
                    "x402_facilitator_key": conftest.SETTLING.private_key,
                    "x402_max_gas_usd": Decimal(1)}  # fmt: skip
        process = ForkedProcess(
            settle, settings, chain.url, msgspec.to_builtins(requirement), payments, failpoint, str(folder),
            cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
        processes.append(process)
        await until(lambda: (folder / READY).exists() or process.poll() is not None, 60)
        assert process.poll() is None, log.read_text()
        return Settling(process, folder)

    yield started
    for process in processes:
        process.kill_group()


@dataclass(frozen=True)
class Settling:
    """A process and the folder of its files."""

    process: ForkedProcess
    folder: Path

    async def ended(self) -> list:
        """What became of its payments, once it has ended; what it logged where it died."""
        await until(lambda: self.process.poll() is not None, 60)
        outcomes = self.folder / OUTCOMES
        return json.loads(outcomes.read_text()) if outcomes.exists() else (self.folder / "log").read_text()


async def gone(*processes: Settling) -> list:
    """Let them begin, and wait for what they tell."""
    for process in processes:
        (process.folder / GO).touch()
    return await asyncio.gather(*(process.ended() for process in processes))


@pytest.mark.parametrize("block_seconds", [None, 1])
async def test_two_processes_with_one_key_settle_side_by_side(chain, start, block_seconds):
    await chain.mine_every(block_seconds)
    processes = await asyncio.gather(*(start([v1() for _ in range(20)]) for _ in range(2)))
    for outcomes in await within(gone(*processes), 60):
        assert {kind for kind, _ in outcomes} == {"Settled"}
    assert await seller_holds(chain) == 40 * PRICE
    assert await reverted(chain) == []
    nonces = [int(one["nonce"], 16) for one in await sent(chain)]
    assert nonces == list(range(len(nonces)))


@pytest.mark.parametrize(("make", "requirement"), SCHEMES)
async def test_two_processes_with_one_payment_send_it_once(chain, start, make, requirement):
    await chain.mine_every(0)
    payments = [make()]
    processes = await asyncio.gather(*(start(payments, requirement=requirement) for _ in range(2)))
    ending = asyncio.create_task(gone(*processes))
    await asyncio.sleep(1.5)
    await chain.mine_every(1)
    first, second = await within(ending, 60)
    assert first == second
    assert [kind for kind, _ in first] == ["Settled"]
    assert await seller_holds(chain) == PRICE
    assert len(await sent(chain)) == 1


@pytest.mark.parametrize("place", ["facilitator.before-send", "facilitator.after-send"])
@pytest.mark.parametrize("is_mined_meanwhile", [True, False])
@pytest.mark.parametrize(("make", "requirement"), SCHEMES)
async def test_what_a_dead_process_had_under_way_is_settled_once(
    chain, start, open_facilitator, database_url, tmp_path, place, is_mined_meanwhile, make, requirement
):
    await chain.mine_every(0)
    payments = [make() for _ in range(3)]
    process = await start(payments, place, requirement)
    await gone(process)
    assert process.process.poll() == EXIT_STATUS
    await _expire_leases(database_url, tmp_path)
    if is_mined_meanwhile:
        await chain.request("anvil_mine")
    async with open_facilitator(database_url=database_url) as facilitator:
        settling = asyncio.gather(*(facilitator.settle(read(one), requirement) for one in payments))
        await asyncio.sleep(0.3)
        await chain.mine_every(1)
        outcomes = await within(settling, 40)
    assert all(isinstance(outcome, Settled) for outcome in outcomes)
    assert await seller_holds(chain) == 3 * PRICE
    assert await reverted(chain) == []
    assert conftest.SETTLING.address.lower() in {one["from"].lower() for one in await sent(chain)}


async def _expire_leases(database_url: str, folder: Path) -> None:
    """Let the time pass after which another process may take the place of one that died on PostgreSQL."""
    database = open_database(Settings(database_url=database_url, data_dir=str(folder)))
    async with database.writing() as transaction:
        await transaction.execute(text("UPDATE lease SET expires_at = 0"))
    await database.close()
