"""The official clients of both versions of x402 pay a real server, which settles on a real chain."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import httpx2
import pytest

from tests.journeys.server import Server
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS
from tollhouse.payments.ledger.types import TREASURY, Transfer, agent_account

HERE = Path(__file__).parent
PAYER, SELLER, RELAYER = ACCOUNTS[4], ACCOUNTS[5], ACCOUNTS[6]
PRICE = 1_000
PATH = "/api/products?limit=2"
FEED, FEED_PRICE = "/feeds/events?limit=2", 10_000


@pytest.fixture
async def server(tmp_path, local_chain):
    """A server that gives one request away and sells the rest."""
    await local_chain.fund_usdc(PAYER.address, 1_000_000)
    settings = {"evm_rpc_url": local_chain.url, "x402_pay_to": SELLER.address, "free_per_ip_per_day": 1,
                "x402_facilitator_key": RELAYER.private_key, "recorded": "true"}  # fmt: skip
    server = await asyncio.to_thread(Server, tmp_path, "mattress", **settings)
    assert httpx2.get(f"{server.root}{PATH}").status_code == 200
    assert httpx2.get(f"{server.root}{PATH}").status_code == 402
    yield server
    await asyncio.to_thread(server.kill)


async def paid_by(command, server, **environment: str):
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        env={**os.environ, "PAYER_KEY": PAYER.private_key, "URL": f"{server.root}{PATH}", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, failed = await process.communicate()
    assert process.returncode == 0, failed.decode()
    return json.loads(told)


@pytest.fixture
async def defense(tmp_path, local_chain):
    """A server of the defense feeds, which need a key except where the call is paid for; the payer has some credit."""
    async with open_context(Settings(data_dir=str(tmp_path / "data"))) as context:
        agent = await context.wallets.register(PAYER.address)
        account = agent_account(agent.agent_id)
        await context.ledger.move(Transfer("deposit:1", TREASURY, account, 2 * FEED_PRICE, "deposit"))
    await local_chain.fund_usdc(PAYER.address, 1_000_000)
    settings = {"evm_rpc_url": local_chain.url, "x402_pay_to": SELLER.address,
                "x402_facilitator_key": RELAYER.private_key, "recorded": "true"}  # fmt: skip
    server = await asyncio.to_thread(Server, tmp_path, "defense", **settings)
    yield server
    await asyncio.to_thread(server.kill)


async def check(paid, chain, price=PRICE, rows="products"):
    assert paid["status"] == 200
    assert len(paid["body"][rows]) == 2
    assert paid["settled"]["success"] is True
    assert (await chain.client.receipt(paid["settled"]["transaction"])).is_success
    assert await token_balance(chain.client, chain.usdc_address, SELLER.address) == price


@pytest.mark.parametrize("client", ["pay_v1.mjs", "pay_v2.mjs"])
async def test_official_javascript_client_pays(client, server, local_chain, node_modules, tmp_path):
    # Packages are found beside the script.
    (tmp_path / "node_modules").symlink_to(node_modules)
    shutil.copy(HERE / client, tmp_path)
    await check(await paid_by(["node", tmp_path / client], server), local_chain)


async def test_official_python_client_pays(server, local_chain):
    await check(await paid_by([sys.executable, HERE / "pay_sdk.py"], server), local_chain)


async def test_official_clients_pay_for_a_defense_feed_without_a_key(defense, local_chain, node_modules, tmp_path):
    refused = httpx2.get(f"{defense.root}{FEED}")
    assert refused.status_code == 401
    assert "0.01 USD at /x402/feeds/events (x402)" in refused.json()["detail"]
    (tmp_path / "node_modules").symlink_to(node_modules)
    for script in ("pay_v2.mjs", "pay_axios.mjs"):
        shutil.copy(HERE / script, tmp_path)
    commands = (["node", tmp_path / "pay_v2.mjs"], ["node", tmp_path / "pay_axios.mjs"],
                [sys.executable, HERE / "pay_sdk.py"])  # fmt: skip
    for number, command in enumerate(commands, start=1):
        paid = await paid_by(command, defense, URL=f"{defense.root}/x402{FEED}")
        await check(paid, local_chain, number * FEED_PRICE, "events")


async def test_official_client_pays_from_credit_and_falls_back_to_a_payment(
    defense, local_chain, node_modules, tmp_path
):
    (tmp_path / "node_modules").symlink_to(node_modules)
    shutil.copy(HERE / "pay_siwx.mjs", tmp_path)
    answers = await paid_by(["node", tmp_path / "pay_siwx.mjs"], defense, URL=f"{defense.root}/siwx{FEED}")
    on_credit = {"status": 200, "rows": 2, "isPaid": False, "tier": "agent"}
    assert answers == [on_credit, on_credit, {"status": 200, "rows": 2, "isPaid": True, "tier": None}]
    assert await token_balance(local_chain.client, local_chain.usdc_address, SELLER.address) == FEED_PRICE
    balance = httpx2.get(f"{defense.root}/api/agent/balance", params={"wallet_address": PAYER.address}).json()
    assert (balance["balance_usd"], balance["spent_usd"]) == ("0.00", "0.02")
