"""A real upstream, a real chain and a real server between them."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.proxy import proxied_app
from tests.servers.databases import migrated_copy
from tests.servers.processes import ForkedProcess
from tests.servers.shared import free_port
from tests.waiting import Patient, until
from tollhouse.admission.context import AppContext, open_context
from tollhouse.client.agent import Agent
from tollhouse.client.payer import Payer
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain
from tollhouse.payments.ledger.types import TREASURY, Transfer, agent_account

AGENT, PAYER, SELLER, RELAYER = ACCOUNTS[2:6]
UPSTREAM = Path(__file__).with_name("upstream_program.py")


@dataclass
class Toll:
    """The running parts. `context` reads the server's database beside it."""

    port: int
    upstream_port: int
    chain: LocalChain
    context: AppContext
    client: httpx2.AsyncClient
    key: str
    agent: Agent
    agent_id: str

    @property
    def keyed(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def signed(self, path: str) -> dict[str, str]:
        return self.agent.headers(path.partition("?")[0])

    async def seen(self) -> dict[str, int]:
        """What the upstream counted."""
        async with httpx2.AsyncClient() as client:
            return (await client.get(f"http://127.0.0.1:{self.upstream_port}/seen")).json()

    async def used(self) -> int:
        """Requests of the key that count."""
        answer = await self.client.get("/weather/keyed/json", headers=self.keyed)
        return int(answer.headers["x-ratelimit-limit"]) - int(answer.headers["x-ratelimit-remaining"]) - 1

    async def balance(self) -> tuple[int, int]:
        """What the agent can spend and what is reserved, in micro-USD; the ledger agrees with its transfers."""
        ledger = self.context.ledger
        report = await ledger.verify()
        assert report.balanced, report.differences
        account = await ledger.account(agent_account(self.agent_id))
        return account.balance_micros, account.reserved_micros

    async def payment(self, path: str) -> dict[str, str]:
        """The headers of a new payment for a path."""
        refused = await self.client.get(path)
        assert refused.status_code == 402, refused.text
        return Payer(PAYER.private_key).headers(refused.headers["payment-required"], proxied_app.PRICE)

    async def earned(self) -> int:
        """What the chain says that the seller has, in micro-USD."""
        return await token_balance(self.chain.client, self.chain.usdc_address, SELLER.address)


@pytest.fixture(scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return migrated_copy(tmp_path_factory.mktemp("proxy"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def toll(_folder: Path) -> AsyncIterator[Toll]:
    """The server between its callers and the upstream, with one wallet that has credit and one that has USDC."""
    port, upstream_port = free_port(), free_port()
    async with LocalChain.start() as chain:
        await chain.fund_usdc(PAYER.address, 10_000_000)
        chosen: dict[str, Any] = {
            "data_dir": str(_folder),
            "evm_rpc_url": chain.url,
            "x402_pay_to": SELLER.address,
            "x402_facilitator_key": RELAYER.private_key,
            "treasury_address": SELLER.address,
        }
        variables = {f"TOLLHOUSE_{name.upper()}": value for name, value in chosen.items()}
        variables |= {"UPSTREAM_URL": f"http://127.0.0.1:{upstream_port}", "PATH": "/usr/bin:/bin",
                      "TOLLHOUSE_FREE_PER_IP_PER_DAY": "0"}  # fmt: skip

        upstream = await asyncio.create_subprocess_exec(sys.executable, str(UPSTREAM), str(upstream_port))
        server = ForkedProcess(proxied_app.serve, port, cwd=_folder, variables=variables,
                               stdout=_folder / "out.log", stderr=_folder / "err.log")  # fmt: skip
        settings = Settings(**chosen, background_work=False)
        transport = Patient(httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None)))
        async with (
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, transport=transport) as client,
            open_context(settings, answers_calls=False) as context,
        ):
            agent = Agent(AGENT.private_key)
            agent_id = (await context.wallets.register(agent.address)).agent_id
            deposit = Transfer("deposit:test", TREASURY, agent_account(agent_id), 1_000_000, "deposit")
            await context.ledger.move(deposit)
            key = (await context.keys.create("ada@example.org", "enterprise", "")).text
            made = Toll(port, upstream_port, chain, context, client, key, agent, agent_id)
            try:
                await until(lambda: _answers(made))
                yield made
            finally:
                server.kill_group()
                upstream.kill()
                await upstream.wait()


async def _answers(toll: Toll) -> bool:
    try:
        return (await toll.client.get("/weather/free/json")).status_code == 200
    except httpx2.TransportError:
        await asyncio.sleep(0.05)
        return False
