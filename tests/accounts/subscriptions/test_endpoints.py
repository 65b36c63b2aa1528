"""The endpoints as clients and Stripe call them: over HTTP, through admission."""

from dataclasses import fields

import httpx2
import pytest

from tests.accounts.subscriptions.shop import EMAIL
from tests.fakes.stripe import signed
from tollhouse.accounts.plans import open_plans
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import AppContext
from tollhouse.http.endpoint import endpoints_of
from tollhouse.http.openapi import description
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.payments.pay_per_request import PayPerRequest


async def _health() -> dict[str, str]:
    return {}


@pytest.fixture
def service(small_shop):
    return Service("defense", "Defense", "2.0", "", endpoints_of(small_shop.endpoints), _health, {"type": "object"})


@pytest.fixture
async def client(small_shop, service):
    router = Router()
    router.mount(service, "")
    plans = open_plans(small_shop.settings)
    known = {"settings": small_shop.settings, "keys": small_shop.ring, "meter": small_shop.meter, "plans": plans,
             "per_request": PayPerRequest()}  # fmt: skip
    context = AppContext(**{**dict.fromkeys((field.name for field in fields(AppContext)), None), **known})
    server = Server(small_shop.settings, Admission(context), router, {})
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=server.handle), base_url="http://test") as client:
        yield client


def body(shop, **other: str):
    return {"price_id": "price_pro", "email": EMAIL, "api_key": shop.key.text, **other}


async def test_key_is_upgraded_and_its_portal_opened(client, small_shop):
    begun = await client.post("/api/stripe/checkout", json=body(small_shop))
    assert begun.status_code == 200
    assert set(begun.json()) == {"checkout_url", "session_id"}
    small_shop.stripe.pay(begun.json()["session_id"])
    for event in small_shop.new_events():
        raw, signature = signed(event)
        headers = {"Stripe-Signature": signature, "Content-Type": "application/json; charset=utf-8"}
        told = await client.post("/api/stripe/webhook", content=raw, headers=headers)
        assert (told.status_code, told.json()["received"]) == (200, True)
    assert await small_shop.tier() == "pro"
    portal = await client.post(
        "/api/stripe/portal",
        json={"api_key": small_shop.key.text},
        headers={"Authorization": f"Bearer {small_shop.key.text}"},
    )
    assert (portal.status_code, set(portal.json())) == (200, {"portal_url"})


async def test_each_refusal_has_its_status(client, small_shop):
    begin = "/api/stripe/checkout"
    answers = [
        (await client.post(begin, json=body(small_shop, email="eve@example.org")), 400, "invalid-body"),
        (await client.post(begin, json=body(small_shop, price_id="price_x")), 400, "invalid-body"),
        (await client.post(begin, json=body(small_shop, api_key="x")), 400, "invalid-body"),
        (await client.post(begin, json={"price_id": "price_pro"}), 400, "invalid-body"),
        (
            await client.post(begin, content=b"{}", headers={"Content-Type": "text/plain"}),
            415,
            "unsupported-media-type",
        ),
        (await client.post("/api/stripe/webhook", content=b"{}"), 400, "invalid-webhook"),
        (await client.post("/api/stripe/portal"), 401, "missing-credentials"),
        (await client.get("/api/stripe/webhook"), 405, "method-not-allowed"),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer, _, _ in answers] == [
        (status, code) for _, status, code in answers
    ]


async def test_operations_describe_themselves(service):
    paths = description(service, "/")["paths"]
    assert set(paths) == {"/api/stripe/checkout", "/api/stripe/portal", "/api/stripe/webhook"}
    assert "502" in paths["/api/stripe/webhook"]["post"]["responses"]
