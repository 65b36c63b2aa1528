"""Two commands make a paid, searchable, documented service of a table: `tollhouse new`, `tollhouse serve`."""

import json
from contextlib import asynccontextmanager

import httpx2
import pytest
import pytest_asyncio

from tests.journeys.server import poll, run
from tests.services.tables.books import as_csv, book, books
from tollhouse.client import Payer
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = 10_000
PAYER, SELLER, RELAYER = ACCOUNTS[4], ACCOUNTS[5], ACCOUNTS[6]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chain():
    async with LocalChain.start() as chain:
        await chain.fund_usdc(PAYER.address, 1_000_000)
        yield chain


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with two tables without definitions."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "books.csv").write_text(books(COUNT))
    (folder / "rare.csv").write_text(books(30))
    return folder


@pytest.fixture(scope="module")
def summary(home):
    """The output of the command for the first table."""
    many = run("new", "books", "--from", "books.csv", "--free-per-day", 100_000, "--licence", "CC0-1.0", cwd=home)
    few = run("new", "rare", "--from", "rare.csv", "--free-per-day", 1, "--price-usd", "0.0025", cwd=home)
    assert (many.returncode, few.returncode) == (0, 0), many.stderr + few.stderr
    return many.stdout


@pytest.fixture(scope="module")
def server(start_server, home, summary, chain):
    return start_server(home=home, evm_rpc_url=chain.url, x402_pay_to=SELLER.address,
                        x402_facilitator_key=RELAYER.private_key)  # fmt: skip


async def test_command_prints_what_it_inferred_and_the_next_step(summary):
    assert "books.csv: 10,000 rows to serve, 0 refused" in summary
    assert "id: ISBN; title: book_title" in summary
    assert "Review it, then run: tollhouse serve" in summary
    lines = {line.split()[0]: line for line in summary.splitlines() if line.strip()}
    for name, kind in (("price", "money"), ("subjects", "list"), ("published", "date"), ("in_print", "boolean")):
        assert f" {kind} " in lines[name]


async def test_second_run_does_not_replace_an_edited_definition(summary, home):
    before = (home / "services" / "books.toml").read_bytes()
    again = run("new", "books", "--from", "books.csv", cwd=home)
    assert again.returncode == 1
    assert "--force" in again.stderr
    assert (home / "services" / "books.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [("mattress", "books.csv", "is taken"), ("Books", "books.csv", "lower-case"), ("x", "absent.csv", "absent.csv"),
     ("x", "books.toml", "file extensions .csv")],
)  # fmt: skip
async def test_invalid_arguments_are_reported_in_one_line(home, name, file, message):
    (home / "books.toml").touch()
    refused = run("new", name, "--from", file, cwd=home)
    assert refused.returncode == 1
    assert message in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


async def test_wrong_declaration_stops_the_start_and_names_its_line(tmp_path):
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "odd.toml").write_text('title = "Odd"\ncolour = "red"\n')
    refused = run("serve", "--recorded", cwd=tmp_path)
    assert refused.returncode == 1
    assert "services/odd.toml, line 2: colour: unknown key" in refused.stderr


async def test_served_table_is_searched_filtered_counted_and_exported(server):
    with httpx2.Client(base_url=f"{server.root}/books", timeout=30) as http:
        # The server listens before a large table is indexed.
        poll(lambda: http.get("/health").json()["status"] == "ok", seconds=60)
        assert http.get("/health").json()["item_count"] == COUNT
        lines = http.get("/api/items.ndjson").text.splitlines()
        assert len(lines) == COUNT
        items = [json.loads(line) for line in lines]
        page = http.get(
            "/api/items", params={"shelf": "cellar", "min_price": 50, "facets": "subjects", "limit": 1}
        ).json()
        left = [item for item in items if item["shelf"] == "cellar" and item["price"] >= 50]
        assert page["total"] == len(left) > 0
        counts = {each["value"]: each["count"] for each in page["facets"]["subjects"]}
        assert counts == {name: sum(name in item["subjects"] for item in left) for name in counts}
        result = http.get("/api/search", params={"q": items[77]["book_title"]}).json()
        assert result["items"][0]["book_title"] == items[77]["book_title"]
        assert http.get("/api/items?colour=red").json()["parameter"] == "colour"
        assert http.get("/docs").status_code == 200
        assert http.get("/api/openapi.yaml").status_code == 200


@asynccontextmanager
async def connected(server, service):
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(timeout=30) as http:
        transport = streamable_http_client(f"{server.root}/{service}/mcp", http_client=http)
        async with Client(transport) as client:
            yield client


async def test_official_mcp_client_lists_and_calls_the_tables_tools(server):
    async with connected(server, "books") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {
            "ask",
            "listItems",
            "searchItems",
            "countByValue",
            "getItem",
            "listSimilarItems",
            "suggest",
        }
        assert "min_price" in tools["searchItems"].input_schema["properties"]
        arguments = {"shelf": ["cellar", "A north"], "in_print": True, "limit": 2, "sort": "-price"}
        result = await client.call_tool("listItems", arguments)
        assert not result.is_error
        assert {item["shelf"] for item in result.structured_content["items"]} <= {"cellar", "A north"}
        single = await client.call_tool("getItem", {"id": "978-0000007"})
        assert single.structured_content["item"]["book_title"] == book(7)[1]
        refused = await client.call_tool("listItems", {"colour": "red"})
    assert refused.structured_content["parameter"] == "colour"


async def test_request_past_the_allowance_is_paid_for_on_the_chain_once(server, chain):
    url = f"{server.root}/rare/api/items?limit=1"
    async with httpx2.AsyncClient(timeout=30) as http:
        assert (await http.get(url)).status_code == 200
        challenge = await http.get(url)
        assert (challenge.status_code, challenge.json()["accepts"][0]["maxAmountRequired"]) == (402, "2500")
        payment = Payer(PAYER.private_key).headers(challenge.headers["payment-required"], 2_500)
        paid = await http.get(url, headers=payment)
        assert (paid.status_code, paid.json()["total"]) == (200, 30)
        assert "payment-response" in paid.headers
        other = await http.get(f"{server.root}/rare/api/items?limit=2", headers=payment)
        assert (other.status_code, other.json()["code"]) == (402, "payment-invalid")
    # Until the server knows that its response was sent, the same payment gets the same response.
    poll(lambda: httpx2.get(url, headers=payment).status_code == 402)
    assert await token_balance(chain.client, chain.usdc_address, SELLER.address) == 2_500


async def test_key_of_a_paid_tier_takes_the_place_of_the_allowance(server):
    key = server.operators_key("--tier", "pro")
    response = httpx2.get(f"{server.root}/rare/api/items", headers={"Authorization": f"Bearer {key}"})
    assert (response.status_code, response.headers["x-credits-tier"]) == (200, "pro")


async def test_edit_of_the_table_shows_while_it_serves_and_a_broken_one_does_not(server, home):
    health = f"{server.root}/rare/health"
    (home / "rare.csv").write_text(as_csv([book(number) for number in range(1, 41)]))
    poll(lambda: httpx2.get(health).json()["item_count"] == 40)
    (home / "rare.csv").write_text("nothing,of,the,kind\n")
    poll(lambda: httpx2.get(health).json()["status"] == "degraded")
    summary = httpx2.get(health).json()
    assert summary["item_count"] == 40
    assert "there is no column" in summary["fault"]["reason"]
    (home / "rare.csv").write_text(books(35))
    poll(lambda: httpx2.get(health).json()["item_count"] == 35)
    assert httpx2.get(health).json()["fault"] is None
