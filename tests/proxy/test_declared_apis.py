"""A stock FastAPI and a stock Express application behind the toll: keys, limits, credit and payments hold."""

import asyncio
import json
import os
import shutil
import sys
from base64 import b64decode

import jsonschema_rs
import pytest
import pytest_asyncio

from tests.client.conftest import LISTED
from tests.http import test_openapi as openapi_rules
from tests.journeys.server import poll, run
from tests.journeys.test_agents_journey import Wallet
from tests.proxy.stage import HERE, Toll, express, fastapi
from tests.servers.npm import node_modules_of
from tollhouse.client import AsyncClient, LimitedPayer, Payer, SpendingLimit
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain

TREASURY, PAYER, SELLER, RELAYER = ACCOUNTS[2], ACCOUNTS[4], ACCOUNTS[5], ACCOUNTS[6]
CLIENTS = HERE.parent / "client"
FREE = 3

CANTEEN = """title = "Canteen"
description = "What there is to eat."
licence = "CC0-1.0"
price_usd = 0.002
free_per_day = 2

[upstream]
url = "{url}"
headers = {{ X-Api-Key = {{ env = "CANTEEN_KEY" }} }}
caller_key = {{ env = "CANTEEN_CALLER_KEY" }}

[routes."GET /menu"]
access = "free"
[routes."GET /whoami"]
access = "key"
price_usd = 0
[routes."GET /photos/{{name}}"]
access = "payer"
price_usd = 0.001
usd_per_kilobyte = 0.001
max_usd = 0.01
[routes."GET /compute"]
access = "payer"
cost_header = "X-Cost-Usd"
max_usd = 0.005
[routes."POST /orders"]
access = "payer"
[routes."GET /broken"]
access = "payer"
[routes."/admin/*"]
offered = false
"""
BOOKS = """title = "Books"
[table]
file = "../books.csv"
format = "csv"
[fields.name]
type = "text"
searched = 1
"""
CALLER_KEY = "canteen-caller-key-of-32-characters-or-more"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chain():
    async with LocalChain.start() as chain:
        await chain.fund_usdc(PAYER.address, 100_000_000)
        await chain.approve_permit2(PAYER)
        yield chain


@pytest.fixture(scope="module")
def settings(chain):
    return {
        "evm_rpc_url": chain.url,
        "x402_pay_to": SELLER.address,
        "x402_facilitator_key": RELAYER.private_key,
        "treasury_address": TREASURY.address,
        "deposit_confirmations": 1,
        "trusted_proxies": "127.0.0.1",
    }


@pytest.fixture(scope="module")
def weather_upstream(tmp_path_factory):
    with fastapi(tmp_path_factory.mktemp("fastapi")) as url:
        yield url


@pytest.fixture(scope="module")
def weather(tmp_path_factory, settings, weather_upstream):
    """FastAPI's document is read from the application itself."""
    command = ["proxy", "weather", "--upstream", weather_upstream, "--price", "0.002", "--free-per-day", FREE]
    toll = Toll(tmp_path_factory.mktemp("weather"), *command, **settings)
    yield toll
    toll.kill()


@pytest.fixture(scope="module")
def canteen(tmp_path_factory, settings):
    """Express, declared by hand, beside a declared table."""
    home = tmp_path_factory.mktemp("canteen")
    with express(tmp_path_factory.mktemp("express")) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANTEEN_KEY", "key-of-the-canteen")
        patch.setenv("CANTEEN_CALLER_KEY", CALLER_KEY)
        services = home / "services"
        services.mkdir()
        (services / "canteen.toml").write_text(CANTEEN.format(url=url))
        (home / "books.csv").write_text("name\nDune\n")
        (services / "books.toml").write_text(BOOKS)
        toll = Toll(home, "serve", "canteen", **settings)
        toll.upstream = url
        yield toll
        toll.kill()


def address(number):
    """A client address of its own, with an allowance of its own."""
    return {"X-Forwarded-For": f"203.0.113.{number}"}


@pytest.fixture(scope="module")
def document(weather):
    return weather.get("/api/openapi.json").json()


def test_their_document_is_merged_into_ours(document):
    forecast = document["paths"]["/forecast/{city}"]["get"]
    assert document["info"]["title"] == "Weather of the coast"
    assert document["info"]["version"] == "2.3.0"
    assert [one["name"] for one in forecast["parameters"]] == ["city", "days", "unit", "x-station"]
    assert forecast["x-price"]["model"] == "allowance"
    assert {"200", "401", "402", "422", "429", "502", "504"} <= set(forecast["responses"])
    success = forecast["responses"]["200"]["content"]["application/json"]["schema"]
    assert success == {"$ref": "#/components/schemas/Forecast"}
    # Both have a schema of this name: theirs gets another.
    schemas = document["components"]["schemas"]
    assert "kind" in schemas["WeatherProblem"]["properties"]
    assert schemas["Forecast"]["properties"]["warnings"]["items"] == {"$ref": "#/components/schemas/WeatherProblem"}
    assert schemas["Problem"]["properties"]["type"]
    assert "/internal" not in document["paths"]
    assert "/reports" in document["paths"]


def test_merged_document_is_valid(document):
    openapi_rules.test_every_reference_leads_somewhere(document)
    openapi_rules.test_every_schema_is_a_json_schema(document)
    openapi_rules.test_operation_ids_are_unique_and_tags_are_declared(document)
    openapi_rules.test_path_parameters_are_those_of_the_path(document)
    openapi_rules.test_every_example_fits_its_schema(document)
    assert document["openapi"] == "3.1.0"


def test_free_calls_are_followed_by_a_402_with_schemas(weather):
    answers = [weather.get("/forecast/Kiel?days=2", headers=address(1)) for _ in range(FREE + 1)]
    assert [one.status_code for one in answers] == [200, 200, 200, 402]
    assert answers[0].json()["degrees"] == [1.5, 1.5]
    assert [one.headers["x-ratelimit-remaining"] for one in answers[:3]] == ["2", "1", "0"]
    assert answers[3].json()["accepts"][0]["maxAmountRequired"] == "2000"
    bazaar = json.loads(b64decode(answers[3].headers["payment-required"]))["extensions"]["bazaar"]
    jsonschema_rs.validate(bazaar["schema"], bazaar["info"])
    assert set(bazaar["schema"]["properties"]["input"]["properties"]["queryParams"]["properties"]) == {"days", "unit"}
    assert bazaar["routeTemplate"] == "/forecast/:city"


def test_what_the_upstream_refuses_costs_no_money_and_what_is_not_declared_is_not_there(weather):
    assert weather.get("/forecast/Kiel?days=99", headers=address(2)).status_code == 422
    assert weather.get("/forecast/Atlantis", headers=address(2)).json() == {"detail": "no such city"}
    assert weather.get("/internal", headers=address(2)).status_code == 404
    assert weather.get("/docs", headers={**address(2), "Accept": "text/html"}).status_code == 200


def test_key_counts_and_a_bad_one_is_refused(weather):
    key = {"Authorization": f"Bearer {weather.new_key()}"}
    bad = {"Authorization": "Bearer th_live_0000000000000000000000000000000000000000"}
    assert weather.get("/forecast/Kiel", headers={**bad, **address(3)}).status_code == 401
    assert weather.get("/api/keys/verify", headers=key).status_code == 200


async def paid_by(command, url, folder, key=PAYER.private_key):
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=folder,
        env={**os.environ, "PAYER_KEY": key, "URL": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, failed = await process.communicate()
    assert process.returncode == 0, failed.decode()
    return json.loads(printed)


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    """The official clients in JavaScript, with their packages beside them."""
    folder = tmp_path_factory.mktemp("clients")
    (folder / "node_modules").symlink_to(node_modules_of(LISTED, "client"))
    for name in ("pay_v1.mjs", "pay_v2.mjs", "pay_axios.mjs", "pay_siwx.mjs", "pay_upto.mjs"):
        shutil.copy(CLIENTS / name, folder)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("node", "pay_v1.mjs"),
        ("node", "pay_v2.mjs"),
        ("node", "pay_axios.mjs"),
        (sys.executable, CLIENTS / "pay_sdk.py"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_official_clients_pay_a_proxied_route(weather, chain, clients, command):
    for _ in range(FREE):
        weather.get("/forecast/Kiel")
    before = await token_balance(chain.client, chain.usdc_address, SELLER.address)
    paid = await paid_by(command, f"{weather.root}/forecast/Kiel?days=1", clients)
    assert (paid["status"], paid["body"]["degrees"], paid["settled"]["success"]) == (200, [1.5], True)
    assert await token_balance(chain.client, chain.usdc_address, SELLER.address) == before + 2_000


@pytest.mark.asyncio(loop_scope="module")
async def test_official_client_signs_in_and_pays_a_proxied_route_from_credit(weather, chain, clients):
    wallet = Wallet(weather)
    await wallet.fund(chain, 1_000_000)
    answers = await paid_by(("node", "pay_siwx.mjs"), f"{weather.root}/siwx/forecast/Kiel?days=1", clients, wallet.key)
    assert answers == [{"status": 200, "isPaid": False, "tier": "agent"}] * 3
    assert wallet.balance()["spent_usd"] == "0.006"


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("/compute?cost=0.001234", 1_234),
        ("/compute?cost=7", 5_000),
        ("/compute?cost=0", 0),
        ("/compute?cost=much", 0),
        ("/photos/cat", 3_500),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_official_client_authorizes_a_maximum_and_pays_what_the_answer_cost(canteen, chain, clients, path, taken):
    before = await token_balance(chain.client, chain.usdc_address, SELLER.address)
    paid = await paid_by(["node", "pay_upto.mjs"], f"{canteen.root}{path}", clients)
    assert (paid["status"], paid["settled"]["success"], paid["settled"]["amount"]) == (200, True, str(taken))
    assert bool(paid["settled"]["transaction"]) == bool(taken)
    assert await token_balance(chain.client, chain.usdc_address, SELLER.address) == before + taken
    for resource in (path, "/compute?cost=0.002"):
        again = canteen.get(resource, headers={"Payment-Signature": paid["sent"]})
        assert again.status_code == 402
    assert await token_balance(chain.client, chain.usdc_address, SELLER.address) == before + taken


@pytest.mark.asyncio(loop_scope="module")
async def test_official_python_client_pays_what_the_answer_cost(canteen, chain, clients):
    before = await token_balance(chain.client, chain.usdc_address, SELLER.address)
    paid = await paid_by([sys.executable, CLIENTS / "pay_sdk.py"], f"{canteen.root}/compute?cost=0.000777", clients)
    assert (paid["status"], paid["body"], paid["settled"]["amount"]) == (200, {"computed": True}, "777")
    assert await token_balance(chain.client, chain.usdc_address, SELLER.address) == before + 777


@pytest.mark.asyncio(loop_scope="module")
async def test_our_own_client_pays_what_the_answer_cost(canteen, chain):
    tokens = {"eip155:8453": chain.usdc_address}
    limit = SpendingLimit(per_call_micros=5_000, total_micros=50_000, tokens=tokens)
    wallet = LimitedPayer(Payer(PAYER.private_key), limit)
    client = AsyncClient(canteen.root, "", wallet)
    answer = await client.get("/compute", cost="0.000555")
    assert (answer.json, answer.paid_micros, wallet.spent_micros) == ({"computed": True}, 555, 555)
    assert (await chain.client.receipt(answer.transaction)).is_success
    await client.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_wallet_credit_pays_what_the_answer_cost(canteen, chain):
    wallet = Wallet(canteen)
    await wallet.fund(chain, 1_000_000)
    for cost in ("0.001234", "7", "0"):
        assert canteen.get(f"/compute?cost={cost}", headers=wallet.agent.headers("/compute")).status_code == 200
    balance = canteen.get("/api/agent/balance", params={"wallet_address": wallet.agent.address}).json()
    assert (balance["balance_usd"], balance["reserved_usd"]) == ("0.993766", "0.00")
    assert (balance["spent_usd"], balance["calls"]) == ("0.006234", 2)


def test_measured_price_is_offered_as_a_maximum_and_in_no_other_way(canteen):
    answer = canteen.get("/compute?cost=1")
    [offered] = json.loads(b64decode(answer.headers["payment-required"]))["accepts"]
    assert (offered["scheme"], offered["amount"], offered["extra"]["facilitatorAddress"]) == (
        "upto",
        "5000",
        RELAYER.address,
    )
    assert answer.json()["accepts"] == []
    assert "at most 0.005 USD" in answer.json()["detail"]


def test_upstream_gets_its_secret_and_the_callers_identity_but_no_credentials(canteen):
    key = canteen.new_key("eve@example.org")
    seen = canteen.get("/whoami", headers={"Authorization": f"Bearer {key}", "X-Api-Key": "mine"}).json()
    assert (seen["key"], seen["authorization"], seen["payment"]) == ("key-of-the-canteen", None, None)
    assert seen["caller"].count(".") == 2
    assert canteen.get("/whoami").status_code == 401


def test_rules_of_the_file_hold(canteen):
    assert canteen.get("/menu?vegan=true").json() == {"dishes": ["soup", "bread"], "vegan": True}
    for path in ("/admin/calls", "/Admin/calls", "/admin//calls", "/%61dmin/calls", "/menu/../admin/calls"):
        assert canteen.get(path).status_code in {400, 404}, path
    assert canteen.post("/menu").status_code == 405


def test_api_without_a_document_is_served_whole_beside_the_servers_own_pages(canteen, settings, tmp_path):
    command = ["proxy", "shop", "--upstream", canteen.upstream, "--price", "0.002"]
    toll = Toll(tmp_path, *command, **settings)
    try:
        assert f"No OpenAPI document at {canteen.upstream}/openapi.json (HTTP 404): every path is served" in toll.told()
        assert toll.get("/menu?vegan=true").json()["vegan"] is True
        assert toll.post("/orders", json={"dish": "bread"}).json()["dish"] == "bread"
        assert "Cannot GET /nothing/here" in toll.get("/nothing/here").text
        browser = {"Accept": "text/html"}
        assert [toll.get(path, headers=browser).status_code for path in ("/", "/keys", "/guide/x402", "/docs")] == [
            200
        ] * 4
        assert toll.get("/api/openapi.json").json()["paths"]["/{rest}"]["post"]["x-price"]
        # The same command again writes nothing, and stops only because the first one still serves.
        again = run(*command, "--port", toll.root.rpartition(":")[2], cwd=tmp_path)
        assert again.returncode == 1
        assert "Wrote" not in again.stderr
        assert "differs" not in again.stderr
    finally:
        toll.kill()


def rpc(toll, method, headers=None, **params: object):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return toll.post("/mcp", json=message, headers=headers or {}).json()["result"]


def test_operations_are_tools_on_the_same_terms(weather):
    tools = {one["name"]: one for one in rpc(weather, "tools/list")["tools"]}
    name = next(one for one in tools if one.startswith("forecast"))
    report = next(one for one in tools if one.startswith("add_report"))
    assert not any(one.startswith("add_image") for one in tools)
    for tool in tools.values():
        jsonschema_rs.meta.validate(tool["inputSchema"])
    assert jsonschema_rs.is_valid(tools[report]["inputSchema"], {"body": {"text": "Fog"}})
    assert not jsonschema_rs.is_valid(tools[report]["inputSchema"], {"body": {"text": ""}})
    arguments = {"city": "Kiel", "days": 2, "x-station": "north"}
    results = [rpc(weather, "tools/call", address(4), name=name, arguments=arguments) for _ in range(FREE + 1)]
    assert results[0]["structuredContent"]["warnings"] == [{"kind": "north", "at": None}]
    assert [one["isError"] for one in results] == [False, False, False, True]
    assert results[3]["structuredContent"]["accepts"]
    added = rpc(weather, "tools/call", address(5), name=report, arguments={"body": {"text": "Fog"}})
    assert added["structuredContent"]["text"] == "Fog"


def test_pages_and_lists_name_the_api(weather):
    assert weather.get("/openapi.json").json()["info"]["title"] == weather.get("/server.json").json()["title"]
    assert weather.get("/openapi.json").json()["info"]["version"] == "2.3.0"
    assert weather.get("/server.json").json()["title"] == "Weather of the coast"
    page = weather.get("/guide/reference/weather", headers={"Accept": "text/html"}).text
    assert "forecast" in page
    assert f"{weather.root}" in page or "TOLLHOUSE_URL" in page
    assert "/forecast/{city}" in weather.get("/llms.txt").text
    assert f"{weather.root}/docs" in weather.get("/sitemap.xml").text
    assert "Weather of the coast" in weather.get("/", headers={"Accept": "text/html"}).text
    assert weather.get("/.well-known/api-catalog").status_code == 200


def test_declaration_that_differs_is_not_replaced(weather, weather_upstream):
    text = (weather.home / "services" / "weather.toml").read_text()
    done = run("proxy", "weather", "--upstream", weather_upstream, "--price", "0.5", cwd=weather.home)
    assert done.returncode == 1
    assert "weather.toml exists and differs; --force replaces it" in done.stderr
    assert (weather.home / "services" / "weather.toml").read_text() == text


def test_health_and_status_show_the_upstream(settings, tmp_path):
    with fastapi(tmp_path) as url:
        toll = Toll(tmp_path / "home", "proxy", "weather", "--upstream", url, **settings)
        try:
            health = toll.get("/health").json()
            assert (health["status"], health["upstream"]) == ("ok", {"reachable": True, "circuit": "closed"})
        except BaseException:
            toll.kill()
            raise
    try:
        poll(lambda: toll.get("/health").json()["status"] == "degraded")
        assert toll.get("/health").json()["upstream"]["reachable"] is False
        key = {"Authorization": f"Bearer {toll.new_key()}"}
        failed = toll.get("/forecast/Kiel", headers=key)
        assert (failed.status_code, failed.json()["code"]) == (502, "upstream-unavailable")
        assert toll.get("/api/keys/verify", headers=key).json()["usage"]["day"]["used"] == 0
    finally:
        toll.kill()
