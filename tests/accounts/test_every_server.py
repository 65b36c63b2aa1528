"""Accounts belong to the server: keys, wallet credit and payments work wherever an endpoint asks for them."""

import asyncio
import json
import re
import secrets
from base64 import b64decode, b64encode
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from tests.http.conftest import asgi_client
from tests.payments.x402.signed_payments import PAYER, PRICE, RELAYER, SELLER, authorization, payload
from tests.servers.databases import migrated_copy
from tests.services.tables.books import books, declare
from tollhouse import app
from tollhouse.accounts.store import agent_by_wallet
from tollhouse.admission.context import open_context
from tollhouse.client import Agent
from tollhouse.config.settings import Settings
from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.service import Service
from tollhouse.http.terms import KEY_OR_AGENT, free_then_paid, key_with
from tollhouse.payments.ledger.types import TREASURY, Transfer, agent_account
from tollhouse.services import EVERY_SERVICE

WALLET = Account.create()
NAMED = re.compile(r"\b(GET|POST) (/[\w/-]+)")


async def page(_request):
    return Response(b"{}")


async def health():
    return {}


async def open_notes(_context):
    kinds = {"application/json": {}}
    endpoints = [
        Endpoint("listNotes", "GET", "/notes", "Notes", page, KEY_OR_AGENT, responses=kinds),
        Endpoint("searchNotes", "GET", "/search", "Search", page, free_then_paid(PRICE), responses=kinds),
        Endpoint("watchNotes", "GET", "/watch", "Watch", page, key_with("alerts"), responses=kinds),
    ]
    return Service("notes", "Notes", "1.0", "Notes.", endpoints, health, {"type": "object"})


@pytest.fixture(autouse=True)
def notes(monkeypatch):
    monkeypatch.setitem(EVERY_SERVICE, "notes", open_notes)


class Place:
    def __init__(self, client, settings) -> None:
        self.client, self.settings = client, settings

    async def get(self, path, **headers: str):
        return await self.client.get(path, headers=headers)

    async def key(self, path="/api/keys/create"):
        created = await self.client.post(path, json={"email": "ada@example.org"})
        assert created.status_code == 200, created.text
        return {"Authorization": f"Bearer {created.json()['api_key']}"}

    async def deposit(self, micros):
        """Credit the wallet, as a deposit on the chain would."""
        made = await self.client.post("/api/agent/register", json={"wallet_address": WALLET.address})
        async with open_context(self.settings, answers_calls=False) as context:
            account = agent_account(made.json()["agent_id"])
            await context.ledger.move(Transfer(secrets.token_hex(4), TREASURY, account, micros, "deposit"))

    async def balance(self):
        return (await self.client.get(f"/api/agent/balance?wallet_address={WALLET.address}")).json()["balance_usd"]

    async def has_named_paths(self, refused):
        """Every path that the error names answers on this server."""
        named = NAMED.findall(refused.json()["detail"])
        assert named, refused.text
        for method, path in named:
            assert (await self.client.request(method, path)).status_code not in {404, 405}, path


def signed(path):
    nonce = secrets.token_hex(16)
    signature = WALLET.sign_message(encode_defunct(text=f"service:{path}:{nonce}")).signature.hex()
    return {"X-Agent-Address": WALLET.address, "X-Agent-Nonce": nonce, "X-Agent-Signature": signature}


@asynccontextmanager
async def serving(folder: Path, **values: object):
    data_dir = migrated_copy(folder / "data")
    settings = Settings(data_dir=str(data_dir), recorded=False, background_work=False, **values)
    async with app.serving(settings) as server, asgi_client(server.handle) as client:
        yield Place(client, settings)


async def test_service_of_ones_own_takes_keys_and_wallet_credit(tmp_path):
    async with serving(tmp_path, service="notes") as place:
        refused = await place.get("/notes")
        assert refused.status_code == 401
        await place.has_named_paths(refused)
        key = await place.key()
        assert (await place.get("/notes", **key)).headers["x-ratelimit-remaining"] == "99"
        assert (await place.get("/api/keys/verify", **key)).json()["usage"]["day"]["used"] == 1
        await place.deposit(10_000)
        assert (await place.get("/notes", **signed("/notes"))).status_code == 200
        poor = await place.get("/notes", **signed("/notes"))
        assert (poor.status_code, poor.json()["code"]) == (402, "insufficient-balance")
        await place.has_named_paths(poor)
        forbidden = await place.get("/watch", **key)
        assert (forbidden.status_code, forbidden.json()["required_tier"]) == (403, "enterprise")
        await place.has_named_paths(forbidden)


async def test_priced_endpoint_takes_a_key_credit_and_a_payment(tmp_path, local_chain):
    await local_chain.fund_usdc(PAYER.address, 100_000)
    payment = {"evm_rpc_url": local_chain.url, "x402_pay_to": SELLER.address}
    payment["x402_facilitator_key"] = RELAYER.private_key
    async with serving(tmp_path, service="notes", free_per_ip_per_day=1, **payment) as place:
        assert (await place.get("/search")).status_code == 200
        refused = await place.get("/search")
        assert refused.status_code == 402
        await place.has_named_paths(refused)
        await place.deposit(2 * PRICE)
        assert (await place.get("/search", **signed("/search"))).headers["x-credits-tier"] == "agent"
        assert await place.balance() == "0.001"
        required = json.loads(b64decode(refused.headers["payment-required"]))
        members = {"x402Version": 2, "resource": required["resource"], "accepted": required["accepts"][0]}
        members |= {"payload": payload(authorization()), "extensions": {}}
        header = b64encode(json.dumps(members).encode()).decode()
        paid = await place.get("/search", **{"Payment-Signature": header})
        assert (paid.status_code, "payment-response" in paid.headers) == (200, True)


async def test_table_alone_takes_keys_and_wallet_credit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    declare(tmp_path, books(20))
    async with serving(tmp_path, service="books", services_dir=str(tmp_path / "services")) as place:
        paths = (await place.get("/api/openapi.json")).json()["paths"]
        assert {"/api/keys/create", "/api/agent/register", "/api/stripe/checkout"} <= set(paths)
        items = next(
            path
            for path, methods in paths.items()
            if methods.get("get", {}).get("x-price", {}).get("model") == "allowance"
        )
        assert (await place.get(items, **await place.key())).headers["x-credits-tier"] == "free"
        await place.deposit(1_000_000)
        assert (await place.get(items, **signed(items))).status_code == 200
        assert await place.balance() != "1.00"


async def test_service_without_prices_issues_keys_and_registers_wallets(tmp_path):
    async with serving(tmp_path, service="studio") as place:
        assert (await place.get("/api/keys/verify", **await place.key())).json()["valid"]
        refused = await place.get("/api/keys/verify")
        assert refused.status_code == 401
        await place.has_named_paths(refused)
        await place.deposit(1_000_000)
        assert await place.balance() == "1.00"


async def test_accounts_at_the_root_and_under_the_documents_prefix_are_the_same(tmp_path):
    async with serving(tmp_path) as place:
        key = await place.key("/defense/api/keys/create")
        at_root = (await place.get("/api/keys/verify", **key)).json()
        assert at_root["key_id"] == (await place.get("/defense/api/keys/verify", **key)).json()["key_id"]
        assert "/api/keys/create" in (await place.get("/api/openapi.json")).json()["paths"]
        assert "/api/keys/create" in (await place.get("/defense/api/openapi.json")).json()["paths"]
        assert "POST /api/keys/create" in (await place.get("/llms.txt")).text
        assert (await place.get("/guide/reference/accounts")).status_code == 200


async def test_host_of_a_service_has_accounts_at_its_root(tmp_path):
    async with serving(tmp_path, hosts={"shop.example": "mattress"}) as place:
        created = await place.client.post("http://shop.example/api/keys/create", json={"email": "ada@example.org"})
        assert created.status_code == 200


async def test_email_of_a_wallet_needs_the_wallets_signature(tmp_path):
    async with serving(tmp_path, service="studio") as place:

        async def register(headers=None, **body: str) -> httpx2.Response:
            sent = {"wallet_address": WALLET.address, **body}
            return await place.client.post("/api/agent/register", json=sent, headers=headers or {})

        agent_id = (await register()).json()["agent_id"]
        unsigned = await register(email="eve@example.org")
        assert (unsigned.status_code, unsigned.json()["code"]) == (401, "missing-credentials")
        assert "service:/api/agent/register?email=eve@example.org:<nonce>" in unsigned.json()["detail"]
        assert unsigned.headers["www-authenticate"]
        path = "/api/agent/register?email="
        for wrong in (signed(f"{path}ada@example.org"), signed("/api/agent/register")):
            refused = await register(wrong, email="eve@example.org")
            assert (refused.status_code, refused.json()["code"]) == (401, "invalid-signature")
        by_another = Agent(b"\x09" * 32).headers(f"{path}eve@example.org")
        assert (await register(by_another, email="eve@example.org")).status_code == 401
        for email in ("ada@example.org", "ada@example.com"):
            answer = await register(signed(f"{path}{email}"), email=email)
            assert (answer.status_code, answer.json()["agent_id"]) == (200, agent_id), answer.text
            async with (
                open_context(place.settings, answers_calls=False) as context,
                context.database.reading() as connection,
            ):
                row = await agent_by_wallet(connection, WALLET.address)
                assert row.email == email


async def test_ten_rotations_of_one_key_leave_exactly_one_working_key(tmp_path):
    async with serving(tmp_path, service="studio") as place:
        key = await place.key()
        assert (await place.get("/api/keys/verify", **key)).status_code == 200
        answers = await asyncio.gather(*(place.client.post("/api/keys/rotate", headers=key) for _ in range(10)))
        issued = [answer.json()["api_key"] for answer in answers if answer.status_code == 200]
        assert len(issued) == 1
        assert {(one.status_code, one.json()["code"]) for one in answers if one.status_code != 200} <= {
            (409, "key-rotated"), (401, "invalid-key"),
        }  # fmt: skip
        assert (await place.get("/api/keys/verify", Authorization=f"Bearer {issued[0]}")).status_code == 200


async def test_stranger_locks_nobody_out_of_an_email_address(tmp_path):
    async with serving(tmp_path, service="studio", trusted_proxies="127.0.0.0/8") as place:

        async def create(address) -> httpx2.Response:
            headers = {"X-Forwarded-For": address}
            return await place.client.post("/api/keys/create", json={"email": "ada@example.org"}, headers=headers)

        codes = [(await create("198.51.100.7")).status_code for _ in range(22)]
        assert codes == [200] * 20 + [429] * 2
        assert (await create("203.0.113.9")).status_code == 200
