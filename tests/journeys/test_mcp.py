"""The official MCP client against a real server: it lists tools, calls free ones, and pays in every way there is."""

import json
from base64 import b64decode, b64encode
from contextlib import asynccontextmanager

import httpx2
import jsonschema_rs
import pytest
import pytest_asyncio
from eth_account import Account as Signer

from tollhouse.client import Agent, Payer
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain

pytestmark = pytest.mark.asyncio(loop_scope="module")

TREASURY, PAYER = ACCOUNTS[2], ACCOUNTS[3]
BRIEF = "/feeds/defense-brief"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chain():
    async with LocalChain.start() as chain:
        yield chain


@pytest.fixture(scope="module")
def paid_server(start_server, chain):
    return start_server(evm_rpc_url=chain.url, treasury_address=TREASURY.address, deposit_confirmations=1)


@asynccontextmanager
async def connected(server, service, mode="auto", **headers: str):
    # Imported here, as below: every worker imports this module, one runs it, and these libraries take seconds.
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(f"{server.root}/{service}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_client_of_either_era_lists_the_tools_with_their_prices(paid_server, mode):
    async with connected(paid_server, "defense", mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"listEvents", "listStories", "listEntities", "getDefenseBrief"} <= set(tools)
    assert not {"createKey", "revokeKey", "registerAgent", "mcp"} & set(tools)
    assert "0.01 USD" in tools["listEvents"].description
    assert "limit" in tools["listEvents"].input_schema["properties"]


TOOLS = {
    "defense": {"listEvents", "getEvent", "listStories", "getStory", "listEntities", "getEntity", "getDefenseBrief",
                "listEventPoints", "getBriefSummary", "chat"},
    "mattress": {"listProducts", "searchProducts", "getProduct", "listSimilarProducts", "suggest", "listRetailers"},
    "studio": {"getStudioCatalogue"},
    "infra": {"listCompanies", "searchCompanies", "listCategories", "getCompany", "listNeighbours", "findPaths",
              "getExposure", "listChokepoints", "getConcentration", "getCoverage", "askConcierge"},
}  # fmt: skip


@pytest.mark.parametrize("service", list(TOOLS))
async def test_each_service_offers_its_tools_and_no_others(paid_server, service):
    async with connected(paid_server, service) as client:
        tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS[service]
    for tool in tools:
        jsonschema_rs.meta.validate(tool.input_schema)
        assert "Price:" in tool.description


@pytest.mark.parametrize(
    ("service", "tool", "arguments", "member"),
    [("mattress", "searchProducts", {"q": "latex", "limit": 1}, "products"),
     ("studio", "getStudioCatalogue", {}, "operating_layers"),
     ("infra", "askConcierge", {"message": "Who supplies TSMC?"}, "reply")],
)  # fmt: skip
async def test_each_service_without_keys_is_called_for_nothing(paid_server, service, tool, arguments, member):
    async with connected(paid_server, service) as client:
        result = await client.call_tool(tool, arguments)
    assert not result.is_error
    assert result.structured_content[member]
    assert json.loads(result.content[0].text) == result.structured_content


async def test_streamed_answer_of_the_chat_comes_whole(paid_server):
    key = paid_server.operators_key("--tier", "pro")
    async with connected(paid_server, "defense", Authorization=f"Bearer {key}") as client:
        answered = await client.call_tool("chat", {"prompt": "How many battles were there?"})
        streamed = await client.call_tool("chat", {"prompt": "How many battles were there?", "stream": True})
    assert answered.structured_content["response"]
    assert streamed.structured_content is None
    assert "event: done" in streamed.content[0].text


async def test_arguments_longer_than_an_address_may_be_are_refused(paid_server):
    async with connected(paid_server, "infra") as client:
        refused = await client.call_tool("searchCompanies", {"q": "x" * 9_000})
    assert refused.is_error
    assert refused.structured_content["code"] == "uri-too-long"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_free_tool_is_called_without_credentials(paid_server, mode):
    async with connected(paid_server, "infra", mode) as client:
        result = await client.call_tool("findPaths", {"from": "zeiss", "to": "openai"})
        assert not result.is_error
        assert result.structured_content
        refused = await client.call_tool("findPaths", {"from": "zeiss", "to": "openai", "speed": 1})
    assert refused.is_error
    assert refused.structured_content["parameter"] == "speed"


async def test_tool_is_called_with_a_key_within_its_limits(paid_server):
    key = paid_server.new_key()["api_key"]
    async with connected(paid_server, "defense", Authorization=f"Bearer {key}") as client:
        for _ in range(10):
            result = await client.call_tool("listEvents", {"limit": 2, "category": "Battles"})
            assert not result.is_error
            assert len(result.structured_content["events"]) == 2
        refused = await client.call_tool("listEvents", {"limit": 2})
    assert refused.is_error
    assert refused.structured_content["code"] == "rate-limited"


async def test_tool_without_credentials_says_what_is_missing(paid_server):
    async with connected(paid_server, "defense") as client:
        result = await client.call_tool("getDefenseBrief", {})
    assert result.is_error
    assert result.structured_content["code"] == "missing-credentials"


async def test_tool_is_paid_with_signed_credit_and_a_replay_is_refused(paid_server, chain):
    await chain.fund_usdc(PAYER.address, 2_000_000)
    tx_hash = await chain.transfer_usdc(PAYER, TREASURY.address, 2_000_000)
    await chain.wait_mined(tx_hash)
    wallet = {"wallet_address": PAYER.address}
    httpx2.post(f"{paid_server.base}/api/agent/register", json=wallet).raise_for_status()
    httpx2.post(f"{paid_server.base}/api/agent/deposit", json={**wallet, "tx_hash": tx_hash}).raise_for_status()
    headers = Agent(PAYER.private_key).headers(BRIEF)
    async with connected(paid_server, "defense", **headers) as client:
        paid = await client.call_tool("getDefenseBrief", {})
        assert not paid.is_error
        assert paid.structured_content["events_live"]["battle_events_24h"] > 0
        again = await client.call_tool("getDefenseBrief", {})
    assert again.structured_content["code"] == "nonce-reused"
    balance = httpx2.get(f"{paid_server.base}/api/agent/balance", params=wallet).json()
    assert (balance["balance_usd"], balance["calls"]) == ("1.99", 1)


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', 200, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"createKey"}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"listEvents","arguments":[]}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getEvent"}}', 200, -32602),
        (b"[" * 100_000, 400, -32600),
    ],
)
async def test_what_is_no_proper_message_is_a_json_rpc_error(paid_server, sent, status, code):
    answer = httpx2.post(f"{paid_server.base}/mcp", content=sent, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_notification_is_taken_and_other_revisions_are_refused(paid_server):
    note = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    assert httpx2.post(f"{paid_server.base}/mcp", content=note).status_code == 202
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    answer = httpx2.post(f"{paid_server.base}/mcp", content=ping, headers={"MCP-Protocol-Version": "1999-01-01"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32022)
    assert httpx2.get(f"{paid_server.base}/mcp").status_code == 405


async def test_tool_past_the_allowance_is_paid_for_with_x402(start_server, chain):
    payer, seller, relayer = ACCOUNTS[4], ACCOUNTS[5], ACCOUNTS[6]
    await chain.fund_usdc(payer.address, 1_000_000)
    server = start_server(evm_rpc_url=chain.url, x402_pay_to=seller.address, free_per_ip_per_day=1,
                          x402_facilitator_key=relayer.private_key)  # fmt: skip
    async with connected(server, "mattress") as client:
        assert not (await client.call_tool("searchProducts", {"q": "latex", "limit": 1})).is_error
        asked = await client.call_tool("searchProducts", {"q": "latex", "limit": 1})
        assert asked.is_error
        required = asked.structured_content
        assert (required["x402Version"], required["accepts"][0]["amount"]) == (2, "1000")
        assert json.loads(asked.content[0].text) == required
        header = b64encode(json.dumps(required).encode()).decode()
        signed = Payer(payer.private_key).headers(header, 1_000)["Payment-Signature"]
        payment = json.loads(b64decode(signed))
        paid = await client.call_tool("searchProducts", {"q": "latex", "limit": 1}, meta={"x402/payment": payment})
        assert not paid.is_error
        assert paid.meta["x402/payment-response"]["success"] is True
        again = await client.call_tool("searchProducts", {"q": "latex", "limit": 1}, meta={"x402/payment": payment})
        assert again.is_error
    assert await token_balance(chain.client, chain.usdc_address, seller.address) == 1_000


class Paying:
    """What the official x402 client wants of an MCP client: a call's parameters and its result as they are sent."""

    def __init__(self, client) -> None:
        self.client = client

    async def call_tool(self, params, **_: object):
        from x402.mcp import MCPToolResult

        result = await self.client.call_tool(params["name"], params["arguments"], meta=params.get("_meta"))
        sent = result.model_dump(by_alias=True, mode="json")
        told = MCPToolResult(sent["content"], sent["isError"])
        told._meta, told.structuredContent = sent.get("_meta") or {}, sent.get("structuredContent")
        return told


async def test_official_x402_client_for_mcp_pays_by_itself(start_server, chain):
    from x402 import x402Client
    from x402.mcp import wrap_mcp_client_with_payment
    from x402.mechanisms.evm import EthAccountSigner
    from x402.mechanisms.evm.exact.register import register_exact_evm_client

    payer, seller, relayer = ACCOUNTS[7], ACCOUNTS[8], ACCOUNTS[6]
    await chain.fund_usdc(payer.address, 1_000_000)
    server = start_server(evm_rpc_url=chain.url, x402_pay_to=seller.address, free_per_ip_per_day=1,
                          x402_facilitator_key=relayer.private_key)  # fmt: skip
    wallet = x402Client()
    register_exact_evm_client(wallet, EthAccountSigner(Signer.from_key(payer.private_key)))
    async with connected(server, "mattress") as client:
        paying = wrap_mcp_client_with_payment(Paying(client), wallet)
        free = await paying.call_tool("listProducts", {"limit": 1})
        assert (free.is_error, free.payment_made) == (False, False)
        for count in (1, 2):
            paid = await paying.call_tool("listProducts", {"limit": count})
            assert (paid.is_error, paid.payment_made, paid.payment_response.success) == (False, True, True)
            assert len(json.loads(paid.content[0]["text"])["products"]) == count
            assert (await chain.client.receipt(paid.payment_response.transaction)).is_success
    assert await token_balance(chain.client, chain.usdc_address, seller.address) == 2_000
