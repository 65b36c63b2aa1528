"""Calls through the middleware that are paid for on the local chain, and what an application that fails costs."""

import base64
import json
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from eth_account import Account

from tests.http.test_sign_in import header, message
from tests.middleware.apps import of_starlette
from tests.middleware.conftest import UNCLOSED
from tests.middleware.lifespan import running
from tests.servers.databases import migrated_copy
from tollhouse import Settings
from tollhouse.client import Agent, Payer
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain

PAYER, SELLER, RELAYER = ACCOUNTS[4], ACCOUNTS[5], ACCOUNTS[6]
PRICE = 2_000

pytestmark = pytest.mark.filterwarnings(UNCLOSED)


@pytest_asyncio.fixture
async def chain():
    async with LocalChain.start() as chain:
        await chain.fund_usdc(PAYER.address, 1_000_000)
        yield chain


async def test_paid_call_takes_its_price_once_and_a_failed_one_takes_nothing(chain, tmp_path):
    settings = Settings(
        data_dir=str(migrated_copy(tmp_path)),
        free_per_ip_per_day=1,
        evm_rpc_url=chain.url,
        x402_pay_to=SELLER.address,
        x402_facilitator_key=RELAYER.private_key,
    )

    async def earned() -> int:
        return await token_balance(chain.client, chain.usdc_address, SELLER.address)

    async with running(of_starlette(settings), raises=False) as client:
        for at in ("once", "soon"):
            for _ in range(3):
                assert (await client.get(f"/broken?at={at}")).status_code == 500
        assert (await client.get("/paid")).status_code == 200
        challenge = await client.get("/paid")
        assert challenge.status_code == 402
        assert challenge.json()["accepts"][0]["resource"] == "http://test/paid"
        payment = Payer(PAYER.private_key).headers(challenge.headers["payment-required"], PRICE)
        paid = await client.get("/paid", headers=payment)
        assert (paid.status_code, paid.json()["payment"]) == (200, "x402")
        assert await earned() == PRICE
        refused = await client.post("/paid", headers=payment)
        assert (refused.status_code, refused.json()["code"]) == (402, "payment-invalid")
        assert (await client.get("/siwx/paid")).status_code == 402
        challenge = await client.get("/x402/paid")
        assert challenge.json()["accepts"][0]["resource"] == "http://test/x402/paid"
        payment = Payer(PAYER.private_key).headers(challenge.headers["payment-required"], PRICE)
        assert (await client.get("/x402/paid", headers=payment)).json()["city"] == "paid"
        assert await earned() == 2 * PRICE
        challenge = await client.get("/x402/forecast/Bern")
        assert challenge.status_code == 402
        offer = json.loads(base64.b64decode(challenge.headers["payment-required"]))["extensions"]["bazaar"]
        assert (offer["info"]["input"]["method"], offer["routeTemplate"]) == ("GET", "/x402/forecast/:city")
        payment = Payer(PAYER.private_key).headers(challenge.headers["payment-required"], PRICE)
        assert (await client.get("/x402/forecast/Bern", headers=payment)).json()["city"] == "Bern"
        assert await earned() == 3 * PRICE
        assert (await client.get("/x402/forecast/latest")).status_code == 404
        for at in ("once", "soon"):
            await _use_up(client, at)
            challenge = await client.get(f"/broken?at={at}")
            assert challenge.status_code == 402, challenge.text
            payment = Payer(PAYER.private_key).headers(challenge.headers["payment-required"], PRICE)
            assert (await client.get(f"/broken?at={at}", headers=payment)).status_code == 500
        assert await earned() == 3 * PRICE


async def test_wallet_pays_from_its_credit_by_signature_and_by_signing_in(chain, tmp_path):
    settings = Settings(
        data_dir=str(migrated_copy(tmp_path)),
        evm_rpc_url=chain.url,
        treasury_address=SELLER.address,
        deposit_confirmations=1,
        x402_pay_to=SELLER.address,
        x402_facilitator_key=RELAYER.private_key,
    )
    wallet, agent = {"wallet_address": PAYER.address}, Agent(PAYER.private_key)
    async with running(of_starlette(settings), raises=False) as client:
        assert (await client.post("/api/agent/register", json=wallet)).status_code == 200
        tx_hash = await chain.transfer_usdc(PAYER.address, SELLER.address, 1_000_000)
        await chain.wait_mined(tx_hash)
        deposited = await client.post("/api/agent/deposit", json={**wallet, "tx_hash": tx_hash})
        assert deposited.json()["balance_usd"] == "1.00"
        for at in ("once", "soon"):
            broken = await client.get(f"/broken?at={at}", headers=agent.headers("/broken"))
            assert broken.status_code == 500
        headers = agent.headers("/paid")
        paid = await client.get("/paid", headers=headers)
        assert (paid.status_code, paid.json()["payment"], paid.json()["caller"]) == (200, "credit", "WalletCaller")
        assert (await client.get("/paid", headers=headers)).json()["code"] == "nonce-reused"
        challenge = await client.get("/siwx/paid")
        offered = json.loads(base64.b64decode(challenge.headers["payment-required"]))["extensions"]["sign-in-with-x"]
        signed = _signed_in(offered["info"])
        answer = await client.get("/siwx/paid", headers=signed)
        assert (answer.status_code, answer.json()["payment"]) == (200, "credit")
        assert (await client.get("/siwx/paid", headers=signed)).json()["code"] == "nonce-reused"
        balance = (await client.get("/api/agent/balance", params=wallet)).json()
        assert (balance["spent_usd"], balance["reserved_usd"], balance["calls"]) == ("0.004", "0.00", 2)


def _signed_in(offered: dict[str, Any]) -> dict[str, str]:
    """The header that opens the credit of the payer for what a challenge offers."""
    account = Account.from_key(PAYER.private_key)
    path = offered["uri"].partition("://test")[2]
    sent = message(uri=f"http://test{path}", address=account.address, domain=offered["domain"], nonce=offered["nonce"])
    return header(sent, account)


async def _use_up(client: httpx2.AsyncClient, at: str) -> None:
    """Answers of this route that count on its allowance."""
    for _ in range(3):
        assert (await client.get(f"/broken?at={at}&fine=yes")).status_code in {200, 402}
