"""The operator's operations: closed to everybody else, and true to the books, deliveries and sources."""

from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.http.conftest import asgi_client
from tollhouse import app
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.types import REVENUE, TREASURY, Reserved, Transfer
from tollhouse.webhooks import outbox

TOKEN = {"Authorization": "Bearer the-operators-own"}
READS = ("revenue", "transfers", "audit", "deliveries", "sources")


def settings_of(tmp_path, **options: Any) -> Settings:
    return Settings(data_dir=str(tmp_path), recorded=False, background_work=False, service="studio", **options)


@asynccontextmanager
async def served(tmp_path, **options: Any):
    async with app.serving(settings_of(tmp_path, **options)) as gate, asgi_client(gate.handle) as client:
        yield client


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer guessed"}, {"Authorization": "Basic dG8="}])
async def test_whoever_lacks_the_token_is_refused(tmp_path, headers):
    async with served(tmp_path, admin_token="the-operators-own") as client:
        for path in READS:
            answer = await client.get(f"/operator/api/{path}", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "missing-credentials")
        assert (await client.post("/operator/api/deliveries/x/replay", headers=headers)).status_code == 401
        assert (await client.get("/operator")).status_code == 200


async def test_without_a_token_only_this_machine_is_let_in(tmp_path):
    async with app.serving(settings_of(tmp_path)) as gate:
        for peer, status in (("127.0.0.1", 200), ("::1", 200), ("198.51.100.7", 404)):
            transport = httpx2.ASGITransport(app=gate.handle, client=(peer, 1))
            async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
                assert (await client.get("/operator/api/revenue")).status_code == status


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 404), ("same-site", 404), ("same-origin", 200), ("none", 200)]
)
async def test_strangers_page_in_the_operators_browser_reads_nothing(tmp_path, site, status):
    async with served(tmp_path) as client:
        answer = await client.get("/operator/api/revenue", headers={"Sec-Fetch-Site": site})
        assert answer.status_code == status


async def test_figures_are_those_of_the_ledger(tmp_path):
    async with open_context(settings_of(tmp_path)) as context:
        await context.ledger.move(Transfer("deposit-1", TREASURY, "agent:a", 2_000_000, "deposit"))
        for number in range(3):
            reserved = await context.ledger.reserve(f"call-{number}", "agent:a", REVENUE, 10_000, "call", b"print")
            assert isinstance(reserved, Reserved)
            await context.ledger.post(f"call-{number}", None)
        await context.ledger.move(Transfer("x402-1", "x402", REVENUE, 1_000, "x402"))
        await context.ledger.reserve("open", "agent:a", REVENUE, 10_000, "call", b"print")
        await context.ledger.void("open")
    async with served(tmp_path, admin_token="the-operators-own") as client:
        revenue = (await client.get("/operator/api/revenue", headers=TOKEN)).json()
        assert (revenue["revenue_usd"], revenue["by_agents_usd"], revenue["per_request_usd"]) == (
            "0.031",
            "0.03",
            "0.001",
        )
        (day,) = revenue["days"]
        assert (day["revenue_usd"], day["payments"], revenue["days_are_whole"]) == ("0.031", 4, True)
        accounts = {account["name"]: account for account in revenue["accounts"]}
        assert accounts["treasury"]["balance_usd"] == "-2.00"
        listed = (await client.get("/operator/api/transfers?account=agent:a&limit=3", headers=TOKEN)).json()
        assert listed["count"] == 3
        assert listed["transfers"][0]["state"] == "voided"
        assert {transfer["amount_usd"] for transfer in listed["transfers"]} == {"0.01"}
        audit = (await client.get("/operator/api/audit", headers=TOKEN)).json()
        assert (audit["balanced"], audit["transfers"], audit["differences"]) == (True, 6, [])


async def test_parked_delivery_is_sent_again_and_an_unknown_one_is_404(tmp_path):
    async with open_context(settings_of(tmp_path, webhook_allow_loopback=True)) as context:
        webhooks = context.webhooks
        vetted = await webhooks.subscriptions.validate("http://127.0.0.1:65009/hook")
        async with context.database.writing() as transaction:
            await webhooks.subscriptions.add(transaction, "studio", vetted, "ada@example.org")
            await outbox.put(transaction, "studio", "product.created", {"number": 1}, "prod_1")
        await webhooks.deliver_due()
    async with served(tmp_path, admin_token="the-operators-own", webhook_allow_loopback=True) as client:
        listed = (await client.get("/operator/api/deliveries", headers=TOKEN)).json()
        (endpoint,), (delivery,) = listed["endpoints"], listed["deliveries"]
        assert endpoint["url"] == "http://127.0.0.1:65009/hook"
        assert "secret" not in endpoint
        assert (delivery["state"], delivery["attempt_count"]) == ("pending", 1)
        assert (await client.get("/operator/api/deliveries?state=parked", headers=TOKEN)).json()["count"] == 0
        again = await client.post(f"/operator/api/deliveries/{delivery['id']}/replay", headers=TOKEN)
        assert (again.status_code, again.json()["state"]) == (200, "pending")
        unknown = await client.post("/operator/api/deliveries/whd_none/replay", headers=TOKEN)
        assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")
        wrong = await client.get("/operator/api/deliveries?state=lost", headers=TOKEN)
        assert (wrong.status_code, wrong.json()["parameter"]) == (400, "state")


async def test_sources_are_the_health_of_every_service(tmp_path):
    async with served(tmp_path) as client:
        services = (await client.get("/operator/api/sources")).json()["services"]
        assert set(services) == {"studio"}
        assert services["studio"]["document"]["served_from"] == "file"
