"""The demo's environment: a local chain with funded wallets, and a server of all services that is paid on it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import httpx2

from tollhouse.admission.context import open_context
from tollhouse.config.loader import export
from tollhouse.config.settings import Settings
from tollhouse.demo.applications import Applications, free_port, run_applications
from tollhouse.errors import OperatorError
from tollhouse.payments.chain.local_chain import ACCOUNTS, Account, LocalChain
from tollhouse.services import load_settings

AGENT, OPERATOR, RELAYER = ACCOUNTS[1], ACCOUNTS[2], ACCOUNTS[3]
EMAIL = "ada@example.org"
FUNDS_MICROS = 100_000_000
START_SECONDS = 60.0
STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Environment:
    """A running environment. `agent` is a funded wallet, `root` the server's URL; `applications` have tolls on it."""

    chain: LocalChain
    settings: Settings
    root: str
    client: httpx2.AsyncClient
    agent: Account
    applications: Applications
    ended: asyncio.Event

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """The response, whatever its status."""
        return await self.client.get(path, headers=headers)

    async def post(self, path: str, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """A successful response. Raises httpx2.HTTPStatusError."""
        return (await self.client.post(path, json=body, headers=headers)).raise_for_status()

    async def enterprise_key(self) -> str:
        """Create a key as the operator does, with `tollhouse keys create`."""
        async with open_context(self.settings, answers_calls=False) as context:
            return (await context.keys.create(EMAIL, "enterprise", "the tour")).text


@asynccontextmanager
async def start_environment(folder: Path, port: int) -> AsyncIterator[Environment]:
    """Run the chain and the server. Raises OperatorError, NodeNotInstalled."""
    root = f"http://127.0.0.1:{port or free_port()}"
    services = folder / "services"
    async with LocalChain.start() as chain, run_applications(folder / "applications", services) as applications:
        await chain.fund_usdc(AGENT.address, FUNDS_MICROS)
        settings = load_settings(
            None,
            data_dir=str(folder),
            services_dir=str(services),
            recorded=True,
            feeds=(),
            evm_rpc_url=chain.url,
            treasury_address=OPERATOR.address,
            deposit_confirmations=1,
            x402_pay_to=OPERATOR.address,
            x402_facilitator_key=RELAYER.private_key,
            trusted_proxies="127.0.0.1/32",
            webhook_allow_loopback=True,
            public_url=root,
        )
        async with _server(settings, root) as ended, httpx2.AsyncClient(base_url=root, timeout=30) as client:
            yield Environment(chain, settings, root, client, AGENT, applications, ended)


@asynccontextmanager
async def _server(settings: Settings, root: str) -> AsyncIterator[asyncio.Event]:
    """Run `tollhouse serve` in a process; the event is set when it ends by itself."""
    folder = Path(settings.data_dir)
    export(settings)
    with _open_log(folder) as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tollhouse", "serve", "--port", root.rpartition(":")[2],
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    ended = asyncio.Event()
    watch = asyncio.ensure_future(process.wait())
    watch.add_done_callback(lambda _: ended.set())
    try:
        await _until_healthy(root, ended, folder)
        yield ended
    finally:
        # `ended` is no proof: the caller may set it as well.
        if not watch.done():
            os.killpg(process.pid, signal.SIGTERM)
            await asyncio.wait({watch}, timeout=STOP_SECONDS)
        if not watch.done():
            os.killpg(process.pid, signal.SIGKILL)


def _open_log(folder: Path) -> BinaryIO:
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / "server.log").open("ab")


async def _until_healthy(root: str, ended: asyncio.Event, folder: Path) -> None:
    async with httpx2.AsyncClient(base_url=root) as client, asyncio.timeout(START_SECONDS):
        while not ended.is_set():
            try:
                if (await client.get("/defense/health")).status_code == 200:
                    return
            except httpx2.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise OperatorError(f"the server stopped during startup. Its log: {folder / 'server.log'}")
