"""Pages are read without a key on a budget of the address, which is no allowance, no plan and no money."""

import contextlib
from typing import Any

import pytest

from tests.http.conftest import asgi_client
from tollhouse import clock
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import open_context
from tollhouse.admission.visits import VISIT_SECONDS, Visits
from tollhouse.config.settings import Settings
from tollhouse.console.root_routes import visit_endpoint
from tollhouse.http.endpoint import JSON, Endpoint, Response
from tollhouse.http.response import compute_etag
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.http.terms import KEY_OR_AGENT, Terms, free_then_paid, key_with

BUDGET, ALLOWANCE = 4, 2
ADDRESS = "198.51.100.7"
ROOT = "https://feeds.example.org"
OWN = {"Origin": ROOT, "Sec-Fetch-Site": "same-origin"}


async def _rows(asked) -> Response:
    return Response(b"{}", asked.media_type, compute_etag(b"{}"))


async def _facts() -> dict[str, str]:
    return {}


def _endpoint(path: str, terms: Terms, *visit_types: str, method: Any = "GET") -> Endpoint:
    kinds = {JSON: {}, "text/csv": {}}
    return Endpoint(path, method, path, "", _rows, terms, responses=kinds, visit_types=visit_types)


ENDPOINTS = [
    _endpoint("/feed", KEY_OR_AGENT, JSON),
    _endpoint("/shop", free_then_paid(1_000), JSON),
    _endpoint("/export", free_then_paid(1_000)),
    _endpoint("/analysis", key_with("analysis")),
    _endpoint("/alerts", KEY_OR_AGENT, method="POST"),
]


@contextlib.asynccontextmanager
async def serving(database_url: str, folder, **more: Any):
    whole = {"console_free": BUDGET, "free_per_ip_per_day": ALLOWANCE, "public_url": ROOT, **more}
    url = database_url.replace("+aiosqlite", "")
    settings = Settings(data_dir=str(folder), database_url=url, trusted_proxies="127.0.0.0/8", **whole)
    async with open_context(settings) as context:
        router = Router()
        router.mount(Service("shop", "Shop", "1", "", [*ENDPOINTS, visit_endpoint(context)], _facts, {}), "")
        async with asgi_client(Server(settings, Admission(context), router, {}).handle, ROOT) as client:
            yield client, context


@pytest.fixture
async def house(database_url, tmp_path):
    async with serving(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
def client(house):
    return house[0]


async def token_of(client, address=ADDRESS, **headers: str):
    answer = await client.post("/console/visit", headers={**OWN, "X-Forwarded-For": address, **headers})
    return answer.json()["token"] if answer.status_code == 200 else answer


async def get(client, path="/feed", token="", address=ADDRESS, **headers: str):
    sent = {"X-Forwarded-For": address, "Accept": JSON} | ({"X-Visit-Token": token} if token else {})
    return await client.get(path, headers=sent | headers)


def code(answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def left(answer) -> tuple[str, str]:
    return answer.headers["x-credits-tier"], answer.headers["x-ratelimit-remaining"]


async def test_page_reads_feed_and_shop_on_one_budget_until_a_429_that_says_what_a_program_needs(client):
    assert code(await get(client)) == (401, "missing-credentials")
    token = await token_of(client)
    first = await get(client, token=token)
    assert (first.status_code, left(first)) == (200, ("visitor", "3"))
    assert first.headers["ratelimit-policy"] == '"day";q=4;w=86400, "minute";q=240;w=60'
    again = await get(client, token=token, **{"If-None-Match": first.headers["etag"]})
    assert (again.status_code, left(again)) == (304, ("visitor", "2"))
    assert [(await get(client, "/shop", token)).status_code for _ in range(2)] == [200, 200]
    for path in ("/feed", "/shop"):
        used_up = await get(client, path, token)
        assert code(used_up) == (429, "quota-exceeded")
        assert int(used_up.headers["retry-after"]) == used_up.json()["retry_after_seconds"] > 0
        assert "POST /api/keys/create" in used_up.json()["detail"]
        assert left(used_up) == ("visitor", "0")


async def test_budget_and_allowance_and_plan_never_touch_one_another(house):
    client, context = house
    token = await token_of(client)
    key = (await context.keys.create("reader@example.org", "free")).text
    assert left(await get(client, "/shop")) == ("free", "1")
    for _ in range(BUDGET):
        assert (await get(client, "/shop", token)).status_code == 200
    assert code(await get(client, "/shop", token)) == (429, "quota-exceeded")
    assert left(await get(client, "/shop")) == ("free", "0")
    assert code(await get(client, "/shop")) == (402, "payment-required")
    # A key that is sent is what counts, whatever else is sent with it.
    keyed = await get(client, token="forged", Authorization=f"Bearer {key}")
    assert (keyed.status_code, left(keyed)) == (200, ("free", "99"))
    assert (await context.ledger.verify()).balanced


async def test_token_opens_no_export_no_write_and_nothing_that_no_page_reads(client):
    token = await token_of(client)
    csv = await get(client, token=token, Accept="text/csv")
    assert code(csv) == (401, "missing-credentials")
    assert left(csv) == ("visitor", str(BUDGET)), "a refused call gives its place back"
    assert code(await get(client, "/analysis", token)) == (401, "missing-credentials")
    posted = await client.post("/alerts", headers={"X-Forwarded-For": ADDRESS, "X-Visit-Token": token})
    assert code(posted) == (401, "missing-credentials")
    exported = [await get(client, "/export", token) for _ in range(ALLOWANCE + 1)]
    assert [each.status_code for each in exported] == [200, 200, 402]
    assert left(await get(client, token=token)) == ("visitor", str(BUDGET - 1))


async def test_token_is_of_one_address_one_server_and_one_hour(client, house, monkeypatch):
    token = await token_of(client)
    expiry, _, signature = token.partition(".")
    forged = [
        f"{int(expiry) + 1}.{signature}",
        expiry,
        f".{signature}",
        "x" * 5_000,
        "\xe9.1",
        f"{expiry}.{signature[:-1]}{'1' if signature[-1] == '0' else '0'}",
    ]
    for text in [*forged, Visits(house[1].settings, b"another server")._signature(expiry, ADDRESS)]:
        refused = await get(client, token=text.encode("latin-1"))
        assert code(refused) == (401, "invalid-visit"), text
        assert refused.headers["www-authenticate"] == "Bearer"
    assert code(await get(client, token=token, address="198.51.100.8")) == (401, "invalid-visit")
    network = await token_of(client, "2001:db8:1:2::1")
    assert (await get(client, token=network, address="2001:db8:1:2:ffff::9")).status_code == 200
    assert code(await get(client, token=network, address="2001:db8:1:3::1")) == (401, "invalid-visit")
    now = clock.seconds()
    monkeypatch.setattr(clock, "seconds", lambda: now + VISIT_SECONDS + 2)
    assert code(await get(client, token=token)) == (401, "invalid-visit")


async def test_page_of_another_origin_gets_no_token_and_cannot_use_one(client):
    token = await token_of(client)
    for headers in ({"Origin": "https://other.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "other.example"}):
        assert code(await token_of(client, **headers)) == (403, "origin-not-allowed"), headers
        if "Host" not in headers:
            assert code(await get(client, token=token, **headers)) == (403, "origin-not-allowed"), headers


@pytest.mark.both_databases
async def test_networks_of_an_ipv6_provider_share_budgets_as_they_share_allowances(client):
    async def reads(network: int) -> int:
        address = f"2001:db8:1:{network:x}::1"
        token = await token_of(client, address)
        return [(await get(client, token=token, address=address)).status_code for _ in range(BUDGET)].count(200)

    assert [await reads(network) for network in range(5)] == [BUDGET] * 4 + [0]


async def test_closed_budget_gives_no_token_and_takes_none(database_url, tmp_path):
    async with serving(database_url, tmp_path, console_free=0) as (client, context):
        refused = await token_of(client)
        assert code(refused) == (503, "not-configured")
        assert refused.json()["setting"] == "console_free"
        token = f"9999999999.{context.visits._signature('9999999999', ADDRESS)}"
        assert code(await get(client, token=token)) == (429, "quota-exceeded")


@pytest.mark.both_databases
async def test_day_counts_go_on_after_a_restart_and_the_token_stays_valid(database_url, tmp_path):
    async with serving(database_url, tmp_path) as (client, _):
        token = await token_of(client)
        assert left(await get(client, token=token)) == ("visitor", str(BUDGET - 1))
    async with serving(database_url, tmp_path) as (client, _):
        assert left(await get(client, token=token)) == ("visitor", str(BUDGET - 2))
