"""The holder of a key or a wallet sees its calls of the last days, and nobody else does."""

import contextlib
import secrets
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from tests.http.conftest import asgi_client
from tollhouse import clock
from tollhouse.accounts.agent_endpoints import SIGNED_FOR_SECONDS
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import open_context
from tollhouse.app import _accounts
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.http.terms import KEY_OR_AGENT
from tollhouse.metering.meter import SECONDS_PER_DAY
from tollhouse.payments.ledger.types import TREASURY, Transfer, agent_account

pytestmark = pytest.mark.both_databases

WALLET, OTHER = (Account.from_key(bytes([number]) * 32) for number in (7, 8))
NOON = 1_800_014_400.0


async def _answers(_request) -> Response:
    return Response(b"{}")


async def _fails(_request) -> Response:
    raise Problem("upstream-unavailable", "It is down.")


async def _facts() -> dict[str, str]:
    return {}


ENDPOINTS = [
    Endpoint("rows", "GET", "/rows", "", _answers, KEY_OR_AGENT),
    Endpoint("brief", "GET", "/brief", "", _answers, KEY_OR_AGENT),
    Endpoint("down", "GET", "/down", "", _fails, KEY_OR_AGENT),
]


@pytest.fixture
async def house(database_url, tmp_path, monkeypatch):
    monkeypatch.setattr(clock, "seconds", lambda: NOON)
    settings = Settings(data_dir=str(tmp_path), database_url=database_url.replace("+aiosqlite", ""))
    async with open_context(settings) as context, contextlib.AsyncExitStack() as stack:
        router = Router()
        router.mount(_accounts(context), "")
        router.mount(Service("shop", "Shop", "1", "", ENDPOINTS, _facts, {}), "/shop")
        server = Server(settings, Admission(context), router, {}, recorder=context.statistics.recorder)
        yield await stack.enter_async_context(asgi_client(server.handle)), context


def signed(path: str, wallet=WALLET) -> dict[str, str]:
    nonce = secrets.token_hex(16)
    signature = wallet.sign_message(encode_defunct(text=f"service:{path}:{nonce}")).signature.hex()
    return {"X-Agent-Address": wallet.address, "X-Agent-Nonce": nonce, "X-Agent-Signature": signature}


async def test_key_sees_its_own_calls_by_day_with_the_days_that_had_none(house, monkeypatch):
    client, context = house
    mine, other = [(await context.keys.create(f"{name}@example.org", "pro")).text for name in ("a", "b")]

    async def get(path: str, key: str) -> Any:
        return await client.get(path, headers={"Authorization": f"Bearer {key}"})

    for path in ("/shop/rows", "/shop/rows?unknown=1", "/shop/down"):
        await get(path, mine)
    await get("/shop/rows", other)
    monkeypatch.setattr(clock, "seconds", lambda: NOON + 2 * SECONDS_PER_DAY)
    await context.statistics.flush()
    await get("/shop/brief", mine)
    answer = (await get("/api/keys/usage?days=4", mine)).json()
    assert answer["days"] == [
        {"day": "2027-01-14", "requests": 0, "refused": 0, "failed": 0},
        {"day": "2027-01-15", "requests": 3, "refused": 1, "failed": 1},
        {"day": "2027-01-16", "requests": 0, "refused": 0, "failed": 0},
        {"day": "2027-01-17", "requests": 1, "refused": 0, "failed": 0},
    ]
    assert len((await get("/api/keys/usage", other)).json()["days"]) == 30
    for wrong in ("days=0", "days=401", "days=x"):
        refused = await get(f"/api/keys/usage?{wrong}", mine)
        assert (refused.status_code, refused.json()["parameter"]) == (400, "days")
    assert (await client.get("/api/keys/usage")).status_code == 401


async def test_wallet_alone_sees_what_its_calls_cost_by_day_and_operation(house, monkeypatch):
    client, context = house
    now = NOON

    def at(moment: float) -> None:
        nonlocal now
        now = moment
        monkeypatch.setattr(clock, "seconds", lambda: moment)

    async def usage(wallet=WALLET, signed_at: float | None = None, more: str = "", says: str = "") -> Any:
        query = f"signed_at={int(now if signed_at is None else signed_at)}{more}"
        return await client.get(
            f"/api/agent/usage?{query}", headers=signed(f"/api/agent/usage?{says or query}", wallet)
        )

    agent = await context.wallets.register(WALLET.address)
    await context.wallets.register(OTHER.address)
    deposit = Transfer("deposit:1", TREASURY, agent_account(agent.agent_id), 100_000, "deposit")
    at(NOON)
    await context.ledger.move(deposit)
    for path in ("/rows", "/rows", "/brief", "/down"):
        await client.get(f"/shop{path}", headers=signed(path))
    before = await context.ledger.reserve("old", agent_account(agent.agent_id), "revenue", 5_000, "call", b"x")
    assert before
    await context.ledger.post("old", None)
    at(NOON + SECONDS_PER_DAY)
    await client.get("/shop/brief", headers=signed("/brief"))
    answer = (await usage(more="&days=3")).json()
    assert answer["agent_id"] == agent.agent_id
    assert [(day["day"], day["calls"], day["spent_usd"]) for day in answer["days"]] == [
        ("2027-01-14", 0, "0.00"), ("2027-01-15", 4, "0.035"), ("2027-01-16", 1, "0.01"),
    ]  # fmt: skip
    assert answer["days"][1]["operations"] == [
        {"service": "shop", "operation": "rows", "calls": 2, "spent_usd": "0.02"},
        {"service": "shop", "operation": "brief", "calls": 1, "spent_usd": "0.01"},
        {"service": "", "operation": "", "calls": 1, "spent_usd": "0.005"},
    ]
    assert sum(day["calls"] for day in (await usage(OTHER)).json()["days"]) == 0
    unsigned = await client.get(f"/api/agent/usage?signed_at={int(now)}")
    assert (unsigned.status_code, unsigned.json()["code"]) == (401, "missing-credentials")
    for elsewhere in ({"says": "signed_at=1"}, {"wallet": Account.from_key(b"\x09" * 32)}):
        assert (await usage(**elsewhere)).status_code in {401, 404}
    for stale in (now - SIGNED_FOR_SECONDS - 1, now + SIGNED_FOR_SECONDS + 1, 10**400):
        refused = await usage(signed_at=stale)
        assert (refused.status_code, refused.json()["parameter"]) == (400, "signed_at")
    bare = await client.get(f"/api/agent/usage?signed_at={int(now)}", headers=signed("/api/agent/usage"))
    assert bare.status_code == 401, "a signature without the query would be valid for ever"
    assert (await context.ledger.verify()).balanced
