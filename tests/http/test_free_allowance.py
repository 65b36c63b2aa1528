"""Without a key: free requests per address and day, then a challenge, and only a paid tier's key instead."""

import asyncio
import contextlib
import json
from base64 import b64decode
from collections import Counter
from pathlib import Path

import pytest

from tests.http.conftest import asgi_client
from tests.http.stock import StockApplication, on_every_application
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.response import compute_etag
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, free_then_paid
from tollhouse.services import load_settings

ALLOWANCE = 3


async def _page(_asked) -> Response:
    return Response(b"{}", etag=compute_etag(b"{}"))


async def _missing(_asked) -> Response:
    raise Problem("not-found", "There is no such thing.")


async def _facts() -> dict[str, str]:
    return {}


_KINDS = {"application/json": {}}
OPERATIONS = [
    Endpoint("page", "GET", "/page", "A page", _page, free_then_paid(1_000), responses=_KINDS),
    Endpoint("missing", "GET", "/missing", "", _missing, free_then_paid(1_000), responses=_KINDS),
    Endpoint("always", "GET", "/always", "", _page, FREE, responses=_KINDS),
]


@contextlib.asynccontextmanager
async def serving(database_url: str, folder: Path, allowance: int, served: StockApplication | None = None):
    settings = Settings(
        data_dir=str(folder),
        database_url=database_url.replace("+aiosqlite", ""),
        free_per_ip_per_day=allowance,
        trusted_proxies="127.0.0.0/8",
        public_url="https://feeds.example.org",
    )
    async with open_context(settings) as context, contextlib.AsyncExitStack() as stack:
        router, service = Router(), Service("shop", "Shop", "1", "", OPERATIONS, _facts, {})
        if served:
            terms = f"price_usd = 0.001\nfree_per_day = {allowance}"
            service = await stack.enter_async_context(served.service(context, terms))
        router.mount(service, "/shop")
        gate = Server(settings, Admission(context), router, {})
        async with asgi_client(gate.handle) as client:
            yield client, context


@pytest.fixture
async def house(database_url, tmp_path, served):
    async with serving(database_url, tmp_path, ALLOWANCE, served) as opened:
        yield opened


@pytest.fixture
def client(house):
    return house[0]


async def get(client, path="/shop/page", address="198.51.100.7", **headers: str):
    return await client.get(path, headers={"X-Forwarded-For": address, **headers})


@on_every_application
async def test_allowance_is_exact_when_calls_come_at_once(client):
    answers = await asyncio.gather(*(get(client) for _ in range(20)))
    assert Counter(one.status_code for one in answers) == {200: ALLOWANCE, 402: 20 - ALLOWANCE}


@on_every_application
async def test_allowance_is_told_on_every_answer_and_ends_in_a_challenge(client):
    for left in (2, 1, 0):
        answer = await get(client)
        assert answer.status_code == 200
        assert (answer.headers["x-ratelimit-limit"], answer.headers["x-ratelimit-remaining"]) == ("3", str(left))
        assert answer.headers["ratelimit-policy"] == '"day";q=3;w=86400'
    answer = await get(client)
    assert (answer.status_code, answer.json()["code"]) == (402, "payment-required")
    assert (answer.headers["x-ratelimit-limit"], answer.headers["x-ratelimit-remaining"]) == ("3", "0")


async def test_first_request_is_a_challenge_where_the_allowance_is_zero(database_url, tmp_path, monkeypatch):
    monkeypatch.setenv("TOLLHOUSE_FREE_PER_IP_PER_DAY", "0")
    allowance = load_settings().free_per_ip_per_day
    async with serving(database_url, tmp_path, allowance) as (client, _):
        response = await get(client)
        assert (response.status_code, response.json()["code"]) == (402, "payment-required")
        assert (response.headers["x-ratelimit-limit"], response.headers["x-ratelimit-remaining"]) == ("0", "0")
        assert response.json()["detail"].startswith("This request costs ")
        assert (await get(client, "/shop/always")).status_code == 200


async def test_challenge_of_a_server_that_takes_no_payment_is_empty_in_both_versions(client):
    for _ in range(ALLOWANCE):
        await get(client)
    answer = await get(client)
    problem = answer.json()
    assert (problem["x402Version"], problem["accepts"]) == (1, [])
    assert "does not accept payments" in problem["error"]
    required = json.loads(b64decode(answer.headers["payment-required"]))
    assert (required["x402Version"], required["accepts"]) == (2, [])
    assert required["resource"]["url"] == "https://feeds.example.org/shop/page"


@on_every_application
async def test_each_address_has_its_own_allowance_and_ipv6_shares_it_by_network(client):
    for _ in range(ALLOWANCE):
        await get(client, address="2001:db8:1:2::1")
    assert (await get(client, address="2001:db8:1:2:ffff::9")).status_code == 402
    assert (await get(client, address="2001:db8:1:3::1")).status_code == 200
    assert (await get(client, address="198.51.100.8")).status_code == 200


async def test_networks_of_a_56_share_four_allowances_and_those_of_a_48_sixteen(client):
    statuses = [
        (await get(client, address=f"2001:db8:1:{number:x}::1")).status_code for number in range(5) for _ in range(4)
    ]
    assert statuses == [200, 200, 200, 402] * 4 + [402] * 4
    assert (await get(client, address="2001:db8:1:100::1")).status_code == 200
    # The /48 is used up after 16 times 3, of which 13 are used.
    wide = [
        (await get(client, address=f"2001:db8:1:{number:x}00::1")).status_code
        for number in range(2, 20)
        for _ in range(3)
    ]
    assert wide == [200] * 35 + [402] * 19
    assert (await get(client, address="2001:db8:2::1")).status_code == 200


async def test_unchanged_answer_uses_one_and_is_a_challenge_past_the_allowance(client):
    etag = (await get(client)).headers["etag"]
    answer = await get(client, **{"If-None-Match": etag})
    assert (answer.status_code, answer.headers["x-ratelimit-remaining"]) == (304, "1")
    await get(client)
    assert (await get(client, **{"If-None-Match": etag})).status_code == 402


async def test_what_is_not_found_uses_one_and_what_is_free_uses_none(client):
    assert (await get(client, "/shop/missing")).headers["x-ratelimit-remaining"] == "2"
    for _ in range(ALLOWANCE * 2):
        answer = await get(client, "/shop/always")
        assert answer.status_code == 200
        assert "x-ratelimit-limit" not in answer.headers
    assert (await get(client)).headers["x-ratelimit-remaining"] == "1"


@on_every_application
async def test_key_of_a_paid_tier_replaces_the_allowance(house):
    client, context = house
    pro = (await context.keys.create("ada@example.org", "pro")).text
    for _ in range(ALLOWANCE + 2):
        answer = await get(client, Authorization=f"Bearer {pro}")
        assert (answer.status_code, answer.headers["x-credits-tier"]) == (200, "pro")
    assert (await get(client)).headers["x-ratelimit-remaining"] == "2"


async def test_invalid_key_is_refused(house):
    client, _ = house
    assert (await get(client, Authorization="Bearer th_live_x")).status_code == 401


async def test_free_key_is_taken_and_adds_nothing_to_the_allowance(house):
    client, context = house
    key = {"Authorization": f"Bearer {(await context.keys.create('ada@example.org', 'free')).text}"}
    for _ in range(ALLOWANCE):
        assert (await get(client, **key)).status_code == 200
    other = {"Authorization": f"Bearer {(await context.keys.create('eve@example.org', 'free')).text}"}
    assert [(await get(client, **each)).status_code for each in (key, other)] == [402, 402]


async def test_malformed_payment_past_the_allowance_is_told(house):
    client, _ = house
    for _ in range(ALLOWANCE):
        await get(client)
    answer = await get(client, **{"X-Payment": "not base64!"})
    assert answer.status_code in {400, 402}
    assert answer.json()["detail"]
